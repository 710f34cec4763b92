package pulsar_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spaolacci/murmur3"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// liveWorld is one topic of a real broker, who publishes to it and who reads
// it.
type liveWorld struct {
	t         *testing.T
	topic     string
	client    *pulsar.Client
	order     *keyorder.Checker
	consumers []*liveConsumer

	mu     sync.Mutex
	layout pulsar.LayoutUpdate
	news   chan struct{} // closed by the next layout
	lanes  map[uint64]*liveProducer
}

func newLiveWorld(t *testing.T) *liveWorld {
	t.Helper()
	if os.Getenv("LIVE") == "" {
		t.Skip("LIVE is not set")
	}
	client, err := pulsar.New(pulsar.Options{Cluster: "live", ServiceURL: os.Getenv("LIVE")})
	w := &liveWorld{t: t, client: client, topic: fmt.Sprintf("topic://public/default/stream-%d", time.Now().UnixNano()),
		order: keyorder.New(keyorder.Options{Holding: true, Recent: 512}), news: make(chan struct{}), lanes: map[uint64]*liveProducer{}}
	w.must(err)
	t.Cleanup(func() { _ = client.Close() })
	w.rest("PUT", "?numInitialSegments=2")
	w.rest("POST", "autoScalePolicy")
	w.rest("PUT", "subscriptions/s")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = client.WatchLayout(ctx, w.topic, w.adopt)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	w.until("the layout is known", time.Minute, func() bool { return len(w.active()) == 2 })
	return w
}

func (w *liveWorld) adopt(u pulsar.LayoutUpdate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if u.Err == nil {
		w.layout = u
		close(w.news)
		w.news = make(chan struct{})
	}
}

func (w *liveWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func (w *liveWorld) rest(method, path string) {
	w.t.Helper()
	if !strings.HasPrefix(path, "?") {
		path = "/" + path
	}
	w.call(method, "/admin/v2/scalable"+strings.TrimPrefix(w.topic, "topic:/")+path)
}

func (w *liveWorld) call(method, path string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, os.Getenv("LIVE_HTTP")+path, strings.NewReader(`{"enabled":false}`))
	w.must(err)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		w.t.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
	}
	w.t.Log(time.Now().Format("05.000"), method, path)
}

func (w *liveWorld) active() []pulsar.Segment {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []pulsar.Segment
	for _, s := range w.layout.Segments {
		if !s.Sealed {
			out = append(out, s)
		}
	}
	return out
}

func (w *liveWorld) until(what string, limit time.Duration, done func() bool) {
	w.t.Helper()
	began := time.Now()
	for !done() {
		if time.Since(began) > limit {
			w.state(what)
			w.t.Fatalf("not in %v: %s; %s", limit, what, w.order.Report())
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.t.Logf("%s %s after %.1f s", time.Now().Format("05.000"), what, time.Since(began).Seconds())
}

// progress waits until that many more messages came.
func (w *liveWorld) progress(n int) {
	w.t.Helper()
	goal := w.order.Report().Distinct + n
	w.until("progress", 3*time.Minute, func() bool { return w.order.Report().Distinct >= goal })
}

func (w *liveWorld) state(what string) {
	for _, c := range w.consumers {
		c.mu.Lock()
		line := fmt.Sprintf("%s: %s got %d, holds %d", what, c.name, c.count, len(c.inbox))
		for id, s := range c.segments {
			line += fmt.Sprintf("; %d %s, %d buckets", id, s.State, len(s.Assigned.Buckets))
		}
		if !c.gone {
			w.t.Log(line)
		}
		c.mu.Unlock()
	}
}

func (w *liveWorld) readers(shared bool) int {
	n := 0
	for _, c := range w.consumers {
		n += c.reads(&shared)
	}
	return n
}

func (w *liveWorld) reading() int { return w.readers(true) + w.readers(false) }

// sharer is one that shares a segment, so that its peer goes on at once.
func (w *liveWorld) sharer(all ...*liveConsumer) *liveConsumer {
	w.t.Helper()
	shared := true
	var found *liveConsumer
	w.until("someone shares", time.Minute, func() bool {
		for _, c := range all {
			if c.reads(&shared) > 0 {
				found = c
			}
		}
		return found != nil
	})
	return found
}

// produce publishes with that many workers, each with a key of its own, one
// message at a time, until the function that it returns is called.
func (w *liveWorld) produce(workers int) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var parts sync.WaitGroup
	for i := range workers {
		parts.Go(func() {
			m := keyorder.Message{Source: "live", Key: fmt.Sprintf("key-%d", i)}
			for ; ctx.Err() == nil; m.Seq++ {
				w.publish(m)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	return func() { cancel(); parts.Wait() }
}

// publish stores a message, in a segment's child if that is sealed. A message
// whose first try had no receipt may be there twice.
func (w *liveWorld) publish(m keyorder.Message) {
	w.order.Maybe(m)
	hash := murmur3.Sum32([]byte(m.Key))
	for {
		w.mu.Lock()
		news := w.news
		w.mu.Unlock()
		for _, s := range w.active() {
			if route := uint16(hash >> 16); route < s.HashStart || route > s.HashEnd {
				continue
			}
			if err := w.lane(s).store(w.t.Context(), m, hash&0xffff); err == nil {
				w.order.Published(m)
				return
			} else if w.t.Context().Err() != nil {
				return
			}
		}
		select {
		case <-news:
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (w *liveWorld) lane(s pulsar.Segment) *liveProducer {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.lanes[s.ID]
	if p == nil {
		p = &liveProducer{client: w.client, waiting: map[uint64]chan error{}, topic: fmt.Sprintf("segment%s/%04x-%04x-%d",
			strings.TrimPrefix(w.topic, "topic"), s.HashStart, s.HashEnd, s.ID)}
		w.lanes[s.ID] = p
	}
	return p
}

// liveProducer publishes to one segment until it is sealed. Its topic outlives
// its producers.
type liveProducer struct {
	client *pulsar.Client
	topic  string

	opening  sync.Mutex
	producer *pulsar.Producer

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan error
	dead    error
}

func (p *liveProducer) store(ctx context.Context, m keyorder.Message, bucket uint32) error {
	p.opening.Lock()
	p.mu.Lock()
	if p.dead != nil { // sealed or unloaded: the next open tells
		p.producer, p.dead = nil, nil
	}
	p.mu.Unlock()
	if p.producer == nil {
		producer, err := p.client.OpenProducer(ctx, pulsar.ProducerOptions{Topic: p.topic, Name: fmt.Sprintf("live-%d", time.Now().UnixNano())}, p)
		if err != nil {
			p.opening.Unlock()
			return err
		}
		p.producer = producer
	}
	done := make(chan error, 1)
	p.mu.Lock()
	seq, err := p.next, p.dead
	p.next++
	p.waiting[seq] = done
	p.mu.Unlock()
	metadata, _ := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String("live"), SequenceId: proto.Uint64(seq),
		PublishTime: proto.Uint64(uint64(time.Now().UnixMilli())), PartitionKey: proto.String(m.Key),
		EntryHashMin: proto.Uint32(bucket), EntryHashMax: proto.Uint32(bucket)})
	if err == nil {
		err = p.producer.Send(pulsar.Outgoing{Sequence: seq, Metadata: metadata, Payload: fmt.Appendf(nil, "%s %s %d", m.Source, m.Key, m.Seq)})
	}
	p.opening.Unlock()
	if err != nil {
		return err
	}
	select {
	case err = <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *liveProducer) Receipt(seq uint64, _ pulsar.MessageID) { p.answer(seq, nil) }

func (p *liveProducer) SendError(seq uint64, err error) { p.answer(seq, err) }

func (p *liveProducer) answer(seq uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done := p.waiting[seq]; done != nil {
		delete(p.waiting, seq)
		done <- err
	}
}

func (p *liveProducer) Closed(err error) { p.BrokerClosed(err) }

func (p *liveProducer) BrokerClosed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = errors.Join(errors.New("sealed or unloaded"), err)
	for _, done := range p.waiting {
		done <- p.dead
	}
	p.waiting = map[uint64]chan error{}
}
