package replicate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// writer appends keyed entries to one of geobridge's own regular topics, one at
// a time.
type writer struct {
	producer *pulsar.Producer
	events   *writerEvents
	next     uint64
	timeout  time.Duration
}

type writerEvents struct {
	receipts chan Position
	failed   chan error
}

func (w *writerEvents) Receipt(_ uint64, pos pulsar.MessageID) {
	if pos.Missing() {
		w.fail(fmt.Errorf("receipt without a position"))
		return
	}
	select {
	case w.receipts <- pos:
	default:
	}
}
func (w *writerEvents) SendError(_ uint64, err error) { w.fail(err) }
func (w *writerEvents) BrokerClosed(err error)        { w.fail(err) }
func (w *writerEvents) Closed(err error)              { w.fail(err) }
func (w *writerEvents) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// openWriter opens a producer on a regular topic, which the broker creates if it
// is missing and may be created so. An empty name lets the broker choose one.
func openWriter(ctx context.Context, client *pulsar.Client, topic, name string) (*writer, error) {
	events := &writerEvents{receipts: make(chan Position, 1), failed: make(chan error, 1)}
	p, err := client.OpenProducer(ctx, pulsar.ProducerOptions{Topic: topic, Name: name}, events)
	if err != nil {
		return nil, err
	}
	return &writer{producer: p, events: events, next: uint64(p.LastSequenceID() + 1), timeout: client.OperationTimeout()}, nil
}

func (w *writer) append(ctx context.Context, key string, value []byte, properties ...*pulsarpb.KeyValue) error {
	metadata, err := keyed(w.producer.Name(), key, w.next, properties...)
	if err == nil {
		_, err = w.send(ctx, pulsar.Outgoing{Metadata: metadata, Payload: value})
	}
	return err
}

// claimWriter is openWriter under a name that one holds at a time, with a barrier:
// nothing that an earlier holder sent can land above it.
func claimWriter(ctx context.Context, client *pulsar.Client, topic, name string) (*writer, Position, error) {
	w, err := openWriter(ctx, client, topic, name)
	if err != nil {
		return nil, noPosition(), err
	}
	at, err := w.barrier(ctx)
	if err != nil {
		w.close()
		return nil, noPosition(), fmt.Errorf("barrier on %s: %w", topic, err)
	}
	return w, at, nil
}

func (w *writer) barrier(ctx context.Context) (Position, error) {
	metadata, err := barrier(w.producer.Name(), w.next)
	if err != nil {
		return noPosition(), err
	}
	return w.send(ctx, pulsar.Outgoing{Metadata: metadata, Marker: true})
}

// send writes one entry and awaits its receipt.
func (w *writer) send(ctx context.Context, out pulsar.Outgoing) (Position, error) {
	out.Sequence, out.NumMessages = w.next, 1
	if err := w.producer.Send(out); err != nil {
		return noPosition(), err
	}
	w.next++
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, pulsar.ErrTimeout)
	defer cancel()
	select {
	case pos := <-w.events.receipts:
		return pos, nil
	case err := <-w.events.failed:
		return noPosition(), err
	case <-ctx.Done():
		return noPosition(), context.Cause(ctx)
	}
}

func (w *writer) close() { w.producer.Leave() }

// subscribeReader attaches a consumer that leaves nothing behind, see subscribeAt. Where it
// begins at the earliest, that is by another position, since a log that is sealed and empty
// has no earliest; compacted entries are given from the earliest only.
func subscribeReader(ctx context.Context, client *pulsar.Client, topic, purpose string, start Position, compacted bool, h pulsar.ConsumerHandler) (*pulsar.Consumer, error) {
	if start == pulsar.Earliest() && !compacted {
		start = pulsar.Lowest()
	}
	return subscribeAt(ctx, client, topic, purpose, start, compacted, h)
}

// subscribeAt attaches a consumer that is not durable, under a name that nobody else has.
func subscribeAt(ctx context.Context, client *pulsar.Client, topic, purpose string, start Position, compacted bool, h pulsar.ConsumerHandler) (*pulsar.Consumer, error) {
	return client.Subscribe(ctx, pulsar.SubscribeOptions{
		Topic: topic, Subscription: "geobridge-" + purpose + "-" + strings.ToLower(rand.Text()),
		ConsumerName: "geobridge", Type: pulsar.Exclusive, Start: &start, ReadCompacted: compacted,
	}, h)
}

// subscribeSegment attaches to a segment under a durable subscription, without permits. One
// that is new begins at the earliest.
func subscribeSegment(ctx context.Context, client *pulsar.Client, topic string, sealed bool, subscription, name string, h pulsar.ConsumerHandler) (*pulsar.Consumer, error) {
	at, err := beginAt(ctx, client, topic, sealed)
	if err != nil {
		return nil, err
	}
	return subscribeDurable(ctx, client, topic, subscription, name, at, h)
}

// subscribeDurable attaches to a durable subscription, without permits, or makes it.
func subscribeDurable(ctx context.Context, client *pulsar.Client, topic, subscription, name string, at pulsar.InitialPosition, h pulsar.ConsumerHandler) (*pulsar.Consumer, error) {
	return client.Subscribe(ctx, pulsar.SubscribeOptions{
		Topic: topic, Subscription: subscription, ConsumerName: name,
		Type: pulsar.Failover, Durable: true, Position: at,
	}, h)
}

// beginAt is the earliest, or what is as good. A segment that is sealed and empty has no
// earliest: a broker that is asked for it refuses, and leaves all later requests of that
// name without an answer until the next load (5.0.1, observed). There it is the end. So a
// reader asks first, and where it is refused another one, that no log refuses, how much there is.
func beginAt(ctx context.Context, client *pulsar.Client, topic string, sealed bool) (pulsar.InitialPosition, error) {
	if !sealed {
		return pulsar.PositionEarliest, nil
	}
	c, refusal := subscribeAt(ctx, client, topic, "look", pulsar.Earliest(), false, deaf{})
	if refusal == nil {
		c.Leave()
		return pulsar.PositionEarliest, nil
	}
	c, err := subscribeAt(ctx, client, topic, "look", pulsar.Lowest(), false, deaf{})
	if err != nil {
		return pulsar.PositionEarliest, errors.Join(refusal, err)
	}
	defer c.Leave()
	stats, err := c.Stats(ctx) // of one that was given nothing yet: all there is
	if err != nil || stats.Backlog > 0 {
		return pulsar.PositionEarliest, errors.Join(refusal, err)
	}
	return pulsar.PositionLatest, nil
}

// reader reads a regular topic from its earliest entry, non-durable, compacted.
type reader struct {
	consumer *pulsar.Consumer
	inbox    *pulsar.Inbox
	permits  int // asked for at once
	used     int
	seen     Position

	entries, bytes int // read so far
}

// A reader asks for a few entries at first, since parked ones are large, and for more
// and more as it sees that they are small: of few at a time a broker gives a
// thousand a second.
const (
	readPermits = 8 // at first
	mostPermits = 1000
	askedBytes  = 8 << 20 // at once, at most
)

func openReader(ctx context.Context, client *pulsar.Client, topic string) (*reader, error) {
	inbox := pulsar.NewInbox(4 * mostPermits)
	consumer, err := subscribeReader(ctx, client, topic, "read", pulsar.Earliest(), true, inbox)
	if err != nil {
		return nil, err
	}
	r := &reader{consumer: consumer, inbox: inbox, permits: readPermits, seen: noPosition()}
	if err := consumer.Flow(readPermits); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// next waits for an entry; the caller releases it. ok is false if none came
// within wait (0: for ever).
func (r *reader) next(ctx context.Context, wait time.Duration) (m pulsar.Message, ok bool, err error) {
	if m, ok, err = r.inbox.Next(ctx, wait); !ok {
		return m, false, err
	}
	r.seen = m.ID
	r.entries++
	r.bytes += m.Entry.Size()
	if r.used++; r.used >= r.permits/2 {
		more := r.grow()
		err = r.consumer.Flow(uint32(r.used + more))
		r.used = 0
	}
	return m, true, err
}

// grow doubles what is asked for at once, if entries are small, and returns by how much
// it has grown.
func (r *reader) grow() int {
	most := min(mostPermits, askedBytes/max(r.bytes/r.entries, 1))
	more := max(min(r.permits, most-r.permits), 0)
	r.permits += more
	return more
}

func (r *reader) close() { r.consumer.Leave() }

// scan reads a topic to its end, or until f says it has seen enough.
func scan(ctx context.Context, client *pulsar.Client, topic string, f func(key string, value []byte) (more bool)) error {
	return scanWhole(ctx, client, topic, func(m pulsar.Message) bool { return f(string(m.Info.PartitionKey), m.Entry.Payload) })
}

// scanWhole is scan for who needs more than key and value.
func scanWhole(ctx context.Context, client *pulsar.Client, topic string, f func(pulsar.Message) (more bool)) error {
	r, err := openReader(ctx, client, topic)
	if err != nil {
		return err
	}
	defer r.close()
	nudged := false
	for began := time.Now(); ; {
		m, ok, err := r.next(ctx, endPoll)
		switch {
		case err != nil:
			return err
		case ok:
			began = time.Now()
			more := f(m)
			m.Entry.Release()
			if !more {
				return nil
			}
		default:
			if end, err := AtEnd(ctx, r.consumer, r.seen); err != nil || end && r.inbox.Len() == 0 {
				return err
			}
			switch quiet := time.Since(began); {
			case quiet > client.OperationTimeout():
				return fmt.Errorf("reading %s: %w", topic, errStarved)
			case quiet > nudgeAfter && !nudged:
				nudged = true
				if err := nudge(ctx, client, topic); err != nil {
					return fmt.Errorf("reading %s: %w", topic, errors.Join(errStarved, err))
				}
			}
		}
	}
}

// nudgeKey is the key of an entry that says nothing.
const nudgeKey = "nudge"

// nudgeAfter is how long a reader may be given nothing and not be at the end before it
// is nudged. One nudge too many costs an entry, which compaction drops; one too late
// costs a start this time.
const nudgeAfter = time.Second

// nudge appends an entry that every reader is given. Where the last entries below
// a compaction's horizon are barriers, a compacted reader is never given them and
// keeps a backlog; once it has acknowledged a later entry it has none. What comes
// in order and is acknowledged hides nothing that was to come before.
func nudge(ctx context.Context, client *pulsar.Client, topic string) error {
	w, err := openWriter(ctx, client, topic, "")
	if err != nil {
		return err
	}
	defer w.close()
	return w.append(ctx, nudgeKey, []byte("{}"))
}
