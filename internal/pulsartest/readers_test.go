package pulsartest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/spaolacci/murmur3"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// readers are the Stream consumers of a topic that somebody publishes to, and who judges them.
type readers struct {
	*rig
	order *keyorder.Checker
	seed  uint64
	// joined counts all readers, also those that left.
	joined int
	all    []*reader
	lanes  map[string]*lane
}

// newReaders records the subscription, and publishes from now on.
func (r *rig) newReaders(segments int) *readers {
	r.t.Helper()
	w := &readers{rig: r, order: keyorder.New(keyorder.Options{Holding: true, Recent: 512}), seed: rand.Uint64(), lanes: map[string]*lane{}}
	r.t.Logf("seed %d", w.seed)
	r.create(segments)
	r.must(r.RecordSubscription(scalableTopic, "s"))
	return w
}

// publish stores a message of each of 16 keys again and again, until the function that it
// returns is called.
func (w *readers) publish() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var parts sync.WaitGroup
	parts.Go(func() {
		for seq := uint64(0); ctx.Err() == nil; seq++ {
			for key := range 16 {
				w.store(keyorder.Message{Source: "p", Key: fmt.Sprint("key-", key), Seq: seq})
				time.Sleep(20 * time.Millisecond) // of fake time
			}
		}
	})
	stop = func() { cancel(); parts.Wait() }
	w.t.Cleanup(stop)
	return stop
}

// store sends a message until it has a receipt: to the segment that takes its key now.
func (w *readers) store(m keyorder.Message) {
	hash := murmur3.Sum32([]byte(m.Key))
	w.order.Maybe(m)
	for w.t.Context().Err() == nil {
		layout, err := w.Cluster.Layout(scalableTopic)
		w.must(err)
		for _, s := range layout.Active() {
			if h := uint16(hash >> 16); h >= s.Start && h <= s.End && w.send(s.Topic(scalableTopic), m, hash&0xffff) == nil {
				w.order.Published(m)
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// lane publishes to one segment, one message at a time.
type lane struct {
	*pulsar.Producer
	next uint64
	told chan error // nil for a receipt
}

var errLane = errors.New("the lane is closed")

func (l *lane) Receipt(uint64, pulsar.MessageID) { l.told <- nil }
func (l *lane) SendError(_ uint64, err error)    { l.told <- err }
func (l *lane) BrokerClosed(error)               { l.told <- errLane }
func (l *lane) Closed(error)                     { l.told <- errLane }

func (w *readers) send(topic string, m keyorder.Message, bucket uint32) error {
	l := w.lanes[topic]
	if l == nil || len(l.told) > 0 {
		l = &lane{told: make(chan error, 4)}
		var err error
		if l.Producer, err = w.OpenProducer(w.t.Context(), pulsar.ProducerOptions{Topic: topic}, l); err != nil {
			return err
		}
		w.lanes[topic] = l
	}
	metadata, err := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String(l.Name()), SequenceId: proto.Uint64(l.next), PublishTime: proto.Uint64(1),
		PartitionKey: proto.String(m.Key), EntryHashMin: proto.Uint32(bucket), EntryHashMax: proto.Uint32(bucket)})
	w.must(err)
	if err := l.Send(pulsar.Outgoing{Sequence: l.next, Metadata: metadata, Payload: fmt.Appendf(nil, "%s %s %d", m.Source, m.Key, m.Seq)}); err != nil {
		delete(w.lanes, topic)
		return err
	}
	l.next++
	err = <-l.told
	if err != nil {
		delete(w.lanes, topic)
	}
	return err
}

// reader is an application with one Stream consumer, done with what it gets a little later.
type reader struct {
	w      *readers
	name   string
	client *pulsar.Client
	stream *pulsar.StreamConsumer
	cancel context.CancelFunc
	ended  chan struct{} // closed when Run returned err
	idle   chan struct{} // closed when the application ended
	err    error

	mu       sync.Mutex
	gone     bool
	inbox    []delivery
	segments map[uint64]pulsar.StreamSegment
}

type delivery struct {
	at  pulsar.StreamMessage
	msg keyorder.Message
}

func (w *readers) join(name string) *reader {
	w.t.Helper()
	c := &reader{w: w, name: name, client: w.newClient(), ended: make(chan struct{}), idle: make(chan struct{}), segments: map[uint64]pulsar.StreamSegment{}}
	var err error
	c.stream, err = c.client.NewStreamConsumer(pulsar.StreamConsumerOptions{
		Topic: scalableTopic, Subscription: "s", ConsumerName: name, Window: 100, LeaveTimeout: 20 * time.Second}, c)
	w.must(err)
	ctx, cancel := context.WithCancel(w.t.Context())
	c.cancel = cancel
	w.order.Joined(name)
	w.all = append(w.all, c)
	w.joined++
	go func() {
		defer close(c.ended)
		c.err = c.stream.Run(ctx)
	}()
	go c.work(rand.New(rand.NewPCG(w.seed, uint64(w.joined))))
	w.t.Cleanup(c.abandon)
	return c
}

func (c *reader) Message(m pulsar.StreamMessage) {
	var msg keyorder.Message
	_, err := fmt.Sscanf(string(m.Entry.Payload), "%s %s %d", &msg.Source, &msg.Key, &msg.Seq)
	m.Entry.Release()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	if err != nil {
		c.w.t.Error(err)
	}
	c.w.order.Delivered(c.name, msg, keyorder.Position{Segment: fmt.Sprint(m.Segment), Ledger: m.ID.Ledger, Entry: m.ID.Entry})
	c.inbox = append(c.inbox, delivery{m, msg})
}

func (c *reader) Segment(s pulsar.StreamSegment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.segments[s.Assigned.ID] = s
	if s.State == pulsar.StreamWaiting || s.State == pulsar.StreamGone && s.Err != nil {
		c.w.order.Reopened(c.name, fmt.Sprint(s.Assigned.ID))
	}
}

// work finishes some of what waits, in its order.
func (c *reader) work(random *rand.Rand) {
	defer close(c.idle)
	at := pulsar.StreamPosition{}
	for {
		time.Sleep(50 * time.Millisecond)
		c.mu.Lock()
		if c.gone {
			c.mu.Unlock()
			return
		}
		n := random.IntN(len(c.inbox) + 1)
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

// reads tells the segments it reads, as "id" or "id/buckets".
func (c *reader) reads() (text []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.segments {
		if s.State == pulsar.StreamReading && len(s.Assigned.Buckets) == 0 {
			text = append(text, fmt.Sprint(id))
		} else if s.State == pulsar.StreamReading {
			text = append(text, fmt.Sprintf("%d/%d", id, len(s.Assigned.Buckets)))
		}
	}
	slices.Sort(text)
	return text
}

func (c *reader) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
}

// leave goes well: everything is drained.
func (w *readers) leave(c *reader) {
	w.t.Helper()
	c.cancel()
	<-c.ended
	w.must(c.err)
	w.order.Left(c.name)
	c.end()
	<-c.idle
	w.drop(c)
}

// kill ends all connections without a goodbye.
func (w *readers) kill(c *reader) {
	w.t.Helper()
	c.end()
	w.order.Crashed(c.name)
	c.abandon()
	w.drop(c)
}

func (c *reader) abandon() {
	c.end()
	_ = c.client.Close() // the second time too
	<-c.ended
	<-c.idle
	c.cancel()
}

func (w *readers) drop(c *reader) {
	w.all = slices.DeleteFunc(w.all, func(o *reader) bool { return o == c })
}

// settle waits until the readers read just these segments, in the order in which they joined, and
// until something more came.
func (w *readers) settle(want ...string) {
	w.t.Helper()
	var got []string
	w.until(func() bool {
		got = nil
		for _, c := range w.all {
			got = append(got, fmt.Sprint(c.reads()))
		}
		return slices.Equal(got, want)
	}, func() string { return fmt.Sprintf("read %v, want %v", got, want) })
	goal := w.order.Report().Distinct + 100
	w.until(func() bool { return w.order.Report().Distinct >= goal }, func() string { return "no progress" })
}

// until waits, at most an hour of fake time.
func (w *readers) until(done func() bool, why func() string) {
	w.t.Helper()
	for began := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Hour {
			w.t.Fatalf("never: %s; %s", why(), w.order.Report())
		}
	}
}

// judge waits until all that was published came, and ends the readers.
func (w *readers) judge(allowed ...keyorder.Kind) {
	w.t.Helper()
	w.until(func() bool { return w.order.Waiting() == 0 }, func() string { return "something is missing" })
	for _, c := range slices.Clone(w.all) {
		w.leave(c)
	}
	for _, p := range w.order.Report().Problems(allowed...) {
		w.t.Error(p)
	}
	w.t.Log(w.order.Report())
}
