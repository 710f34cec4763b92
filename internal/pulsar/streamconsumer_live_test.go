package pulsar_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar"
)

// TestLiveStreamConsumers reads a topic of 2 segments with 2 buckets each by
// several consumers of a real broker, while they join, leave and are killed, and
// the topic is split, rebucketed and unloaded, in make e2e: LIVE=pulsar://… LIVE_HTTP=http://….
// LIVE_GRACE=1 also waits out the controller's grace of 60 s.
func TestLiveStreamConsumers(t *testing.T) {
	w := newLiveWorld(t)
	a, b := w.join("a"), w.join("b")
	stop := w.produce(16)
	w.progress(500)
	w.state("a and b")
	c := w.join("c")
	w.progress(1000)
	w.state("c joined")
	w.leave(b)
	w.progress(1000)
	w.state("b left")
	d := w.join("d")
	w.progress(1000)
	w.state("d joined")
	w.kill(w.sharer(a, c, d))
	w.progress(1000)
	w.state("a sharer killed")
	if os.Getenv("LIVE_GRACE") != "" {
		w.until("the grace is over", 3*time.Minute, func() bool { return w.reading() == 2 && w.readers(false) == 2 })
		w.state("after the grace")
	}
	e := w.join("e")
	w.progress(1000)
	w.state("e joined")
	w.rest("POST", fmt.Sprintf("split/%d", w.active()[0].ID))
	w.progress(3000)
	w.state("split")
	w.rest("POST", fmt.Sprintf("rebucket/%d?bucketCount=3", w.active()[0].ID))
	w.progress(3000)
	w.state("rebucketed")
	w.t.Log("before the unload:", w.order.Report())
	w.call("PUT", "/admin/v2/namespaces/public/default/unload")
	w.progress(2000)
	w.state("unloaded")
	stop()
	w.until("all came", 3*time.Minute, func() bool { return w.order.Waiting() == 0 })
	w.state("end")
	for _, consumer := range []*liveConsumer{a, c, d, e} {
		w.leave(consumer)
	}
	r := w.order.Report()
	t.Log(r, "acknowledged ones redelivered", r.RedeliveredAcked)
	for _, p := range r.Problems(keyorder.Duplicate) { // sent again when the unload swallowed a receipt
		t.Error(p)
	}
}

// liveConsumer is an application: it is done with what it gets a little later.
type liveConsumer struct {
	w      *liveWorld
	name   string
	client *pulsar.Client
	stream *pulsar.StreamConsumer
	cancel context.CancelFunc
	ended  chan error
	idle   chan struct{} // closed when the application ended

	mu       sync.Mutex
	gone     bool
	count    int
	inbox    []liveDelivery
	segments map[uint64]pulsar.StreamSegment
}

type liveDelivery struct {
	at  pulsar.StreamMessage
	msg keyorder.Message
}

func (w *liveWorld) join(name string) *liveConsumer {
	w.t.Helper()
	client, err := pulsar.New(pulsar.Options{Cluster: "live", ServiceURL: os.Getenv("LIVE")})
	w.must(err)
	w.t.Cleanup(func() { _ = client.Close() })
	c := &liveConsumer{w: w, name: name, client: client, ended: make(chan error, 1), idle: make(chan struct{}), segments: map[uint64]pulsar.StreamSegment{}}
	c.stream, err = client.NewStreamConsumer(pulsar.StreamConsumerOptions{
		Topic: w.topic, Subscription: "s", ConsumerName: name, Window: 100, LeaveTimeout: 20 * time.Second,
	}, c)
	w.must(err)
	ctx, cancel := context.WithCancel(w.t.Context())
	c.cancel = cancel
	w.order.Joined(name)
	w.consumers = append(w.consumers, c)
	go func() { c.ended <- c.stream.Run(ctx) }()
	go c.work()
	w.until(name+" reads", time.Minute, func() bool { return c.reads(nil) > 0 })
	return c
}

func (c *liveConsumer) Message(m pulsar.StreamMessage) {
	var msg keyorder.Message
	_, err := fmt.Sscanf(string(m.Entry.Payload), "%s %s %d", &msg.Source, &msg.Key, &msg.Seq)
	m.Entry.Release()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.w.must(err)
	c.w.order.Delivered(c.name, msg, keyorder.Position{Segment: fmt.Sprint(m.Segment), Ledger: m.ID.Ledger, Entry: m.ID.Entry})
	c.count++
	c.inbox = append(c.inbox, liveDelivery{m, msg})
}

func (c *liveConsumer) Segment(s pulsar.StreamSegment) {
	c.w.t.Logf("%s %s: segment %d %s, %d buckets, holds %d %v", time.Now().Format("05.000"), c.name, s.Assigned.ID, s.State, len(s.Assigned.Buckets), s.Held, s.Err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.segments[s.Assigned.ID] = s
	if s.State == pulsar.StreamWaiting {
		c.w.order.Reopened(c.name, fmt.Sprint(s.Assigned.ID))
	}
}

// work finishes a random part of what waits, in its order.
func (c *liveConsumer) work() {
	defer close(c.idle)
	at := pulsar.StreamPosition{}
	for {
		time.Sleep(5 * time.Millisecond)
		c.mu.Lock()
		if c.gone {
			c.mu.Unlock()
			return
		}
		n := rand.IntN(len(c.inbox) + 1)
		for _, d := range c.inbox[:n] {
			c.w.order.Acked(c.name, d.msg)
			at.Advance(d.at)
		}
		c.inbox = c.inbox[n:]
		c.mu.Unlock()
		if n > 0 {
			c.stream.Ack(at, nil)
		}
	}
}

// reads counts the segments it reads, of one mode if that is given.
func (c *liveConsumer) reads(shared *bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.segments {
		if s.State == pulsar.StreamReading && (shared == nil || *shared == (len(s.Assigned.Buckets) > 0)) && !c.gone {
			n++
		}
	}
	return n
}

func (c *liveConsumer) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.gone
	c.gone = true
	return !was
}

// leave goes well: everything is drained.
func (w *liveWorld) leave(c *liveConsumer) {
	w.t.Helper()
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone {
		return
	}
	c.cancel()
	w.must(<-c.ended)
	w.order.Left(c.name)
	c.end()
	<-c.idle
}

// kill cuts all connections without a goodbye.
func (w *liveWorld) kill(c *liveConsumer) {
	w.t.Log("kill", c.name)
	c.end()
	w.order.Crashed(c.name)
	w.must(c.client.Close())
	<-c.ended
	<-c.idle
	c.cancel()
}
