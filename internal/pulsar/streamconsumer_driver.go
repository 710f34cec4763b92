package pulsar

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// streamCloseTimeout bounds the goodbye to one segment.
const streamCloseTimeout = 5 * time.Second

// streamDriver carries out what a stream machine wants. All of it but the parts
// runs in one goroutine.
type streamDriver struct {
	*StreamConsumer
	machine   *streamMachine
	log       *slog.Logger
	consumers map[uint64]*Consumer   // by opening
	pauses    map[uint64]*time.Timer // by opening
	abort     chan struct{}          // closed: openings end
	aborted   bool
	over      bool // all segments are closed
	fatal     error
	parts     sync.WaitGroup
}

func newStreamDriver(s *StreamConsumer) *streamDriver {
	return &streamDriver{
		StreamConsumer: s, machine: newStreamMachine(s.opts.Window), abort: make(chan struct{}),
		log:       s.client.log.With("topic", s.opts.Topic, "subscription", s.opts.Subscription, "consumer", s.opts.ConsumerName),
		consumers: map[uint64]*Consumer{}, pauses: map[uint64]*time.Timer{},
	}
}

func (d *streamDriver) run(ctx context.Context) error {
	registered, unregister := context.WithCancel(context.WithoutCancel(ctx))
	defer unregister()
	d.parts.Go(func() { d.register(registered) })
	ended, deadline := ctx.Done(), (<-chan time.Time)(nil)
	for !d.machine.leaving || !d.machine.idle() {
		select {
		case <-ended:
			ended = nil
			d.machine.leave()
			deadline = time.After(max(d.opts.LeaveTimeout, 0))
		case <-deadline:
			d.machine.abandon()
			d.stopOpenings()
		case <-d.events.wake:
			d.handle()
		}
		if d.fatal != nil && !d.aborted {
			d.machine.leave()
			d.machine.abandon()
			d.stopOpenings()
		}
		d.carryOut()
	}
	d.stopOpenings()
	unregister()
	d.parts.Wait()
	for _, pause := range d.pauses {
		pause.Stop()
	}
	d.over = true
	d.events.close()
	d.handle() // the last acknowledgements' ends
	return d.fatal
}

func (d *streamDriver) stopOpenings() {
	if !d.aborted {
		d.aborted = true
		close(d.abort)
	}
}

// handle takes what happened. Effects follow each event at once, so that an
// entry that came before an assignment is delivered before it is applied.
func (d *streamDriver) handle() {
	for _, event := range d.events.take() {
		event(d)
		d.carryOut()
	}
}

func (d *streamDriver) carryOut() {
	for _, e := range d.machine.take() {
		d.do(e, nil)
	}
}

// do carries out one effect; settled is told of the receipt of an
// acknowledgement.
func (d *streamDriver) do(e streamEffect, settled func(error)) {
	switch e.kind {
	case effectOpen:
		d.open(e)
	case effectClose:
		d.close(e)
	case effectRetry:
		d.pauses[e.opening] = time.AfterFunc(streamPause(e.failed), func() {
			d.events.post(func(d *streamDriver) {
				delete(d.pauses, e.opening)
				d.machine.retry(e.segment, e.opening)
			})
		})
	case effectFlow:
		if c := d.consumers[e.opening]; c != nil {
			_ = c.Flow(e.permits) // dead: Closed tells
		}
	case effectAckCumulative, effectAckIndividual:
		d.sendAck(e, settled)
	case effectNews:
		d.log.Debug("stream segment", "segment", e.segment, "state", e.news.State.String(), "buckets", len(e.news.Assigned.Buckets), "held", e.news.Held, "error", e.news.Err)
		d.handler.Segment(e.news)
	}
}

func (d *streamDriver) open(e streamEffect) {
	o := SubscribeOptions{
		Topic: e.spec.Topic, Subscription: d.opts.Subscription, ConsumerName: d.opts.ConsumerName,
		Type: Exclusive, Durable: true, Position: PositionEarliest,
	}
	if len(e.spec.Buckets) > 0 {
		o.Type = KeyShared
		o.KeyShared = &KeySharing{Sticky: true, EntryBuckets: true, Ranges: e.spec.Buckets}
	}
	feed := &streamFeed{events: d.events, segment: e.segment, opening: e.opening}
	d.parts.Go(func() {
		ctx, cancel := until(context.Background(), d.abort, func() error { return ErrClosed })
		defer cancel()
		c, err := d.client.Subscribe(ctx, o, feed)
		d.events.post(func(d *streamDriver) {
			if d.machine.opened(e.segment, e.opening, err) {
				d.consumers[e.opening] = c
			}
		})
	})
}

func (d *streamDriver) close(e streamEffect) {
	c := d.consumers[e.opening]
	delete(d.consumers, e.opening)
	d.parts.Go(func() {
		if c != nil {
			ctx, cancel := context.WithTimeout(context.Background(), streamCloseTimeout)
			defer cancel()
			if err := c.Close(ctx); err != nil {
				d.log.Debug("could not close a segment's consumer", "segment", e.segment, "error", err)
			}
		}
		d.events.post(func(d *streamDriver) { d.machine.closed(e.segment, e.opening) })
	})
}

// ack hands an application's acknowledgement to the machine, and joins the
// receipts of what comes of it.
func (d *streamDriver) ack(p StreamPosition, done func(error)) {
	if d.over {
		done(ErrClosed)
		return
	}
	d.machine.ack(p)
	effects := d.machine.take()
	acks := 0
	for _, e := range effects {
		if e.kind == effectAckCumulative || e.kind == effectAckIndividual {
			acks++
		}
	}
	if acks == 0 {
		done(nil)
	}
	join := joinDone(done, acks)
	for _, e := range effects {
		d.do(e, join)
	}
}

func (d *streamDriver) sendAck(e streamEffect, settled func(error)) {
	told := func(err error) {
		d.events.post(func(d *streamDriver) {
			if passedAlready(err) {
				err = nil
			}
			d.machine.receipt(e.segment, e.opening, err)
			settled(err)
		})
	}
	switch c := d.consumers[e.opening]; {
	case c == nil:
		told(notSent(ErrClosed))
	case e.kind == effectAckCumulative:
		c.AckCumulative(e.ids[0], told)
	default:
		c.AckIndividual(e.ids, told)
	}
}

// passedAlready: a broker passes markers by itself and then refuses an older
// position (5.0.1, observed). Nothing is left to acknowledge.
func passedAlready(err error) bool {
	var refused *ServerError
	return errors.As(err, &refused) && strings.Contains(refused.Message, "already mark-deleted")
}

// streamPause is the wait after so many failures in a row. It stays short: a
// peer that still drains makes a subscribe fail, and is done at any moment.
func streamPause(failed int) time.Duration {
	b := streamBackoff(2 * time.Second)
	pause := b.NextBackOff()
	for range min(failed-1, 16) {
		pause = b.NextBackOff()
	}
	return pause
}

func streamBackoff(longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.3), backoff.WithMaxInterval(longest), backoff.WithMaxElapsedTime(0))
}
