package pulsartest_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const scalableTopic = "topic://public/default/t"

// rig is a cluster in memory, and clients of it, inside a bubble of synctest.
type rig struct {
	*pulsartest.Cluster
	*pulsar.Client
	t   *testing.T
	net pulsartest.Network
}

// inBubble runs f with a rig on fake time; whatever is left running fails it.
func inBubble(t *testing.T, o pulsartest.Options, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{Cluster: pulsartest.New(o), t: t}
		var serving sync.WaitGroup
		for _, b := range r.Brokers() {
			ln := r.net.Listen(b.Addr())
			serving.Go(func() { _ = b.Serve(ln) })
		}
		synctest.Wait() // all of them accept
		r.Client = r.newClient()
		defer serving.Wait()
		defer r.Cluster.Close()
		f(t, r)
	})
}

func (r *rig) newClient() *pulsar.Client {
	r.t.Helper()
	url := ""
	for i, b := range r.Brokers() {
		if i > 0 {
			url += ","
		}
		url += b.Addr()
	}
	c, err := pulsar.New(pulsar.Options{Cluster: r.Name(), ServiceURL: "pulsar://" + url, Dial: r.net.Dial})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// create makes the scalable topic, and names its active segments.
func (r *rig) create(segments int) []string {
	r.t.Helper()
	r.must(r.CreateScalable(scalableTopic, segments))
	return r.active()
}

func (r *rig) active() (topics []string) {
	r.t.Helper()
	l, err := r.Cluster.Layout(scalableTopic)
	r.must(err)
	for _, s := range l.Active() {
		topics = append(topics, s.Topic(scalableTopic))
	}
	return topics
}

// notes keeps what a handler is told, as short lines.
type notes struct {
	mu    sync.Mutex
	lines []string
	err   error // of Closed
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// take waits until nothing moves any more, and returns what came since.
func (n *notes) take() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

func (r *rig) want(n *notes, want ...string) {
	r.t.Helper()
	if got := n.take(); !slices.Equal(got, want) {
		r.t.Errorf("told %q\nwant %q", got, want)
	}
}

func (n *notes) Closed(err error) {
	n.add("closed")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// of numbers what was stored by its entry in the ledger: ledgers are whatever.
func (n *notes) Message(m pulsar.Message) {
	n.add("message %d %s", m.ID.Entry, m.Entry.Payload)
	m.Entry.Release()
}

func (n *notes) ActiveChanged(active bool)               { n.add("active %v", active) }
func (n *notes) EndOfTopic()                             { n.add("end") }
func (n *notes) SendError(seq uint64, err error)         { n.add("error %d %v", seq, code(err)) }
func (n *notes) BrokerClosed(error)                      { n.add("broker closed") }
func (n *notes) Receipt(seq uint64, at pulsar.MessageID) { n.add("receipt %d at %d", seq, at.Entry) }

func code(err error) any {
	var s *pulsar.ServerError
	if errors.As(err, &s) {
		return s.Code
	}
	return err
}

type producer struct {
	*pulsar.Producer
	notes
	r    *rig
	next uint64
}

func (r *rig) produce(topic, name string) *producer {
	r.t.Helper()
	p, err := r.tryProduce(r.Client, topic, name)
	r.must(err)
	return p
}

func (r *rig) tryProduce(c *pulsar.Client, topic, name string) (*producer, error) {
	p := &producer{r: r}
	var err error
	p.Producer, err = c.OpenProducer(r.t.Context(), pulsar.ProducerOptions{Topic: topic, Name: name}, p)
	if err == nil {
		p.next = uint64(p.LastSequenceID() + 1)
	}
	return p, err
}

// send sends one entry of each payload, under the next sequence ids.
func (p *producer) send(payloads ...string) {
	p.r.t.Helper()
	for _, payload := range payloads {
		p.r.must(p.Send(p.entry(payload, func(*pulsarpb.MessageMetadata) {})))
	}
}

// marker sends an entry that is stored and never delivered.
func (p *producer) marker() {
	p.r.t.Helper()
	o := p.entry("", func(m *pulsarpb.MessageMetadata) { m.MarkerType = proto.Int32(1000) })
	o.Marker = true
	p.r.must(p.Send(o))
}

func (p *producer) entry(payload string, change func(*pulsarpb.MessageMetadata)) pulsar.Outgoing {
	m := &pulsarpb.MessageMetadata{ProducerName: proto.String(p.Name()), SequenceId: proto.Uint64(p.next), PublishTime: proto.Uint64(1)}
	change(m)
	metadata, err := proto.Marshal(m)
	p.r.must(err)
	o := pulsar.Outgoing{Sequence: p.next, Metadata: metadata, Payload: []byte(payload), NumMessages: int(m.GetNumMessagesInBatch())}
	p.next++
	return o
}

// keyed is an entry with a key, or without one for an empty one.
func (p *producer) keyed(key, value string) pulsar.Outgoing {
	return p.entry(value, func(m *pulsarpb.MessageMetadata) {
		if key != "" {
			m.PartitionKey = proto.String(key)
		}
	})
}

type consumer struct {
	*pulsar.Consumer
	notes
	r *rig
}

func failover(topic, name string) pulsar.SubscribeOptions {
	return pulsar.SubscribeOptions{Topic: topic, Subscription: "s", ConsumerName: name, Type: pulsar.Failover, Durable: true, Position: pulsar.PositionEarliest}
}

// reading is a reader's subscription, not durable, from the position on.
func reading(topic string, from pulsar.MessageID) pulsar.SubscribeOptions {
	return pulsar.SubscribeOptions{Topic: topic, Subscription: "reader", ConsumerName: "c", Type: pulsar.Exclusive, Start: &from}
}

func (r *rig) subscribe(o pulsar.SubscribeOptions, permits uint32) *consumer {
	r.t.Helper()
	c, err := r.trySubscribe(r.Client, o)
	r.must(err)
	r.must(c.Flow(permits))
	return c
}

func (r *rig) trySubscribe(client *pulsar.Client, o pulsar.SubscribeOptions) (*consumer, error) {
	c := &consumer{r: r}
	var err error
	c.Consumer, err = client.Subscribe(r.t.Context(), o, c)
	return c, err
}

// ackTo acknowledges all to the position and waits for the broker's answer.
func (c *consumer) ackTo(at pulsar.MessageID) error {
	done := make(chan error, 1)
	c.AckCumulative(at, func(err error) { done <- err })
	return <-done
}

func (c *consumer) backlog() int64 {
	c.r.t.Helper()
	s, err := c.Stats(c.r.t.Context())
	c.r.must(err)
	return s.Backlog
}

// stored are the positions of a topic's entries.
func (r *rig) stored(topic string) (at []pulsar.MessageID) {
	r.t.Helper()
	all, err := r.Entries(topic)
	r.must(err)
	for _, e := range all {
		at = append(at, pulsar.MessageID{Ledger: e.At.Ledger, Entry: e.At.Entry})
	}
	return at
}
