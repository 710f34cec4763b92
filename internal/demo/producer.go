package demo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

const (
	// linger is how long messages are gathered into batches.
	linger = 20 * time.Millisecond
	// largestBatch is the most messages of one.
	largestBatch = 50
	// mostPending bounds the entries without a receipt, of all segments.
	mostPending = 1000
)

// producer publishes the traffic to a scalable topic, as a Pulsar client does: by
// the layout that it watches, in batches of one bucket, in order for each key
// through all changes.
type producer struct {
	client  *pulsar.Client
	topic   string
	rate    int
	traffic *traffic
	codec   *codec
	order   *keyorder.Checker

	published atomic.Int64 // messages that have their receipt

	sequence uint64 // of the next message
	turn     uint64 // of the keyless batches
	outlets  map[uint64]*outlet

	mu     sync.Mutex
	layout *reroute.Layout
	news   chan struct{} // closed by the next layout
}

func newProducer(client *pulsar.Client, topic string, rate int, t *traffic, c *codec, order *keyorder.Checker) *producer {
	return &producer{
		client: client, topic: topic, rate: rate, traffic: t, codec: c, order: order,
		outlets: map[uint64]*outlet{}, news: make(chan struct{}),
	}
}

// run publishes until stop is closed, and returns when all of it has its receipt.
func (p *producer) run(ctx context.Context, stop <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { p.watch(ctx) })
	defer watch.Wait()
	defer cancel()
	tick := time.NewTicker(linger)
	defer tick.Stop()
	began, made := time.Now(), 0
	for {
		select {
		case <-stop:
			return p.finish(ctx)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		// What could not be sent in time is made up for, though not all at once.
		due := int(time.Since(began).Seconds()*float64(p.rate)) - made
		made += due
		if err := p.publish(ctx, p.traffic.take(min(due, p.rate/4+1))); err != nil {
			return err
		}
	}
}

func (p *producer) finish(ctx context.Context) error {
	for {
		if err := p.publish(ctx, nil); err != nil {
			return err
		}
		for _, o := range p.outlets {
			if err := o.await(ctx); err != nil {
				return err
			}
		}
		if p.pending() == 0 {
			return nil
		}
	}
}

func (p *producer) pending() (n int) {
	for _, o := range p.outlets {
		pending, _ := o.state()
		n += pending
	}
	return n
}

// watch keeps the layout.
func (p *producer) watch(ctx context.Context) {
	for ctx.Err() == nil {
		_ = p.client.WatchLayout(ctx, p.topic, p.adopt) // it ends with its connection
		_ = pause(ctx, 100*time.Millisecond)
	}
}

func (p *producer) adopt(u pulsar.LayoutUpdate) {
	if u.Err != nil {
		return
	}
	var segs []reroute.Segment
	for _, s := range u.Segments {
		segs = append(segs, reroute.Segment{ID: s.ID, Range: reroute.HashRange{Start: s.HashStart, End: s.HashEnd}, Splits: s.EntryBucketSplits, Sealed: s.Sealed})
	}
	l, err := reroute.NewLayout(p.topic, u.Epoch, segs)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layout = l
	close(p.news)
	p.news = make(chan struct{})
}

// settled waits for a layout that has no segment which a closed outlet was for,
// and returns what these did not take, in the order of each key.
func (p *producer) settled(ctx context.Context) (*reroute.Layout, []message, error) {
	var left []message
	for {
		p.mu.Lock()
		l, news := p.layout, p.news
		p.mu.Unlock()
		stale := l == nil
		for _, id := range slices.Sorted(maps.Keys(p.outlets)) {
			o := p.outlets[id]
			active := l.Segment(id) != nil && !l.Segment(id).Sealed
			if _, closed := o.state(); active && !closed {
				continue
			}
			if err := o.await(ctx); err != nil {
				return nil, nil, err
			}
			rest, sealed, err := o.settle(ctx, p.client)
			if err != nil {
				return nil, nil, err
			}
			if sealed {
				left = append(left, rest...)
			} else {
				p.doubt(rest)
			}
			delete(p.outlets, id)
			stale = stale || sealed && active
		}
		if !stale {
			return l, left, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// doubt gives messages up that may be stored or not: none is sent twice.
func (p *producer) doubt(msgs []message) {
	for _, m := range msgs {
		p.order.Maybe(m.order())
	}
}

// publish sends what earlier segments left, and then msgs.
func (p *producer) publish(ctx context.Context, msgs []message) error {
	for p.pending() > mostPending {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	l, left, err := p.settled(ctx)
	if err != nil {
		return err
	}
	return p.send(ctx, l, append(left, msgs...))
}

// place is what the messages of one batch have in common.
type place struct {
	segment *reroute.Segment
	bucket  int
	kind    kind
}

func (p *producer) send(ctx context.Context, l *reroute.Layout, msgs []message) error {
	p.turn++
	free := l.Keyless(reroute.FullRange(), p.turn)
	batches := map[place][]message{}
	var order []place
	for _, m := range msgs {
		seg, bucket, _ := l.Place(m.route(), free)
		at := place{seg, bucket, m.kind}
		if len(batches[at]) == 0 {
			order = append(order, at)
		}
		batches[at] = append(batches[at], m)
	}
	for _, at := range order {
		size := largestBatch
		if at.kind == encrypted {
			size = 1
		}
		for part := range slices.Chunk(batches[at], size) {
			if err := p.entry(ctx, at, part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *producer) entry(ctx context.Context, at place, msgs []message) error {
	o, err := p.outlet(ctx, at.segment)
	if err != nil {
		return err
	}
	first := p.sequence
	p.sequence += uint64(len(msgs))
	var metadata, payload []byte
	if at.kind == encrypted {
		metadata, payload, err = p.codec.seal(msgs[0], first, time.Now())
	} else {
		metadata, payload, err = p.codec.batch(msgs, compressions()[first%3], first, time.Now())
	}
	if err != nil {
		return err
	}
	o.send(outgoing{first, msgs}, metadata, payload)
	return nil
}

func compressions() [3]pulsarpb.CompressionType {
	return [3]pulsarpb.CompressionType{pulsarpb.CompressionType_NONE, pulsarpb.CompressionType_LZ4, pulsarpb.CompressionType_ZSTD}
}

// outlet opens the producer of a segment. One that was sealed meanwhile gets an
// outlet that is closed already: what it is given is left for the children.
func (p *producer) outlet(ctx context.Context, s *reroute.Segment) (*outlet, error) {
	for p.outlets[s.ID] == nil {
		o, err := openOutlet(ctx, p.client, s.Topic(p.topic), p.receipted)
		switch {
		case errors.Is(err, pulsar.ErrTopicTerminated):
			o.end()
			p.outlets[s.ID] = o
		case err == nil:
			p.outlets[s.ID] = o
		case ctx.Err() != nil:
			return nil, ctx.Err()
		default:
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	return p.outlets[s.ID], nil
}

func (p *producer) receipted(msgs []message) {
	for _, m := range msgs {
		p.order.Published(m.order())
	}
	p.published.Add(int64(len(msgs)))
}
