package pulsar

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"
)

const (
	defaultStreamWindow = 1000
	defaultLeaveTimeout = 10 * time.Second
)

// StreamConsumerOptions says what to read, and as whom.
type StreamConsumerOptions struct {
	Topic        string // topic://tenant/namespace/name
	Subscription string
	ConsumerName string // one for each consumer of the subscription
	// Window bounds, for each segment, the messages that were delivered and are
	// not acknowledged; the last entry may overdraw it. Whoever holds back more
	// than that before it acknowledges gets nothing more. Default 1000.
	Window uint32
	// LeaveTimeout is how long the end of Run waits for what was delivered to be
	// acknowledged; what is not then goes to the peers. Default 10 s, negative
	// for no wait.
	LeaveTimeout time.Duration
}

func (o *StreamConsumerOptions) check() error {
	if o.Window == 0 {
		o.Window = defaultStreamWindow
	}
	if o.LeaveTimeout == 0 {
		o.LeaveTimeout = defaultLeaveTimeout
	}
	return errors.Join(checkTopic(o.Topic), checkText("subscription", o.Subscription), checkText("consumer", o.ConsumerName))
}

// StreamMessage is one entry delivered to a stream consumer.
type StreamMessage struct {
	Message
	Segment uint64
	// Delivery numbers what the consumer delivers, over all segments, from 1. A
	// redelivery has a new number.
	Delivery uint64
}

// SegmentPosition is how far an application is in one segment: the highest
// position it is done with, and the last delivery. The delivery matters where a
// dead peer's entries arrive after later ones: an acknowledgement never covers
// what was delivered after it. Without it (0) the position alone counts.
type SegmentPosition struct {
	ID       MessageID
	Delivery uint64
}

// StreamPosition is how far an application is, by segment id.
type StreamPosition map[uint64]SegmentPosition

// Advance says that m is done with, and everything delivered before it in its
// segment.
func (p StreamPosition) Advance(m StreamMessage) {
	at, known := p[m.Segment]
	if !known || at.ID.Compare(m.ID) < 0 {
		at.ID = m.ID
	}
	at.Delivery = max(at.Delivery, m.Delivery)
	p[m.Segment] = at
}

// StreamState is what a stream consumer does with a segment.
type StreamState int

// The states of a segment.
const (
	StreamOpening  StreamState = iota // being subscribed to
	StreamReading                     // delivers
	StreamDraining                    // delivers no more, waits for acknowledgements
	StreamClosing                     // its consumer is being closed
	StreamWaiting                     // its consumer failed; another try follows
	StreamGone                        // not assigned any more
)

func (s StreamState) String() string {
	names := [...]string{"opening", "reading", "draining", "closing", "waiting", "gone"}
	if s < 0 || int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}

// StreamSegment is news about one segment of a stream consumer. Assigned is
// what its present consumer was, or is being, opened for: with Buckets it is
// shared.
type StreamSegment struct {
	Assigned AssignedSegment
	State    StreamState
	Held     int   // entries delivered and not acknowledged
	Err      error // why it waits, or went before it was drained
}

// StreamHandler is told what a stream consumer does. Calls come from Run, one
// at a time; while one blocks, nothing else of the consumer goes on, so it
// should not for long. It may call Ack.
type StreamHandler interface {
	// Message delivers an entry, whose reference is the handler's to release.
	// In a segment with a sole owner entries come in their order; in a shared
	// one, those of a bucket do.
	Message(StreamMessage)
	// Segment tells each change of a segment's state. When it was reading or
	// draining and now waits, or is gone with an error, what it held comes again,
	// here or at a peer.
	Segment(StreamSegment)
}

// StreamConsumer is the specification's Stream consumer of a scalable topic: a
// controller assigns it segments, whole (Exclusive) or shared by entry bucket
// with its peers (Key_Shared), and each key is at one consumer at a time. A
// segment that leaves the assignment, or changes between the two, is drained
// first: nothing more is delivered, and its consumer is closed when all that was
// delivered is acknowledged (PIP-486, and the client specification of entry
// buckets, section 4). Children of a split come when the controller sees that
// their parents are drained, which it polls with a growing interval (broker
// 5.0.1, observed). A subscription that is new begins at the earliest entry. It
// keeps data only if it is recorded with the topic, over REST.
type StreamConsumer struct {
	client  *Client
	opts    StreamConsumerOptions
	handler StreamHandler
	events  *mailbox[func(*streamDriver)]
	began   atomic.Bool
}

// NewStreamConsumer checks the options. Nothing happens before Run.
func (c *Client) NewStreamConsumer(o StreamConsumerOptions, h StreamHandler) (*StreamConsumer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &StreamConsumer{client: c, opts: o, handler: h, events: newMailbox[func(*streamDriver)]()}, nil
}

// Run consumes until ctx ends, and then leaves: it drains, closes its segments,
// and unregisters, so that the peers take over at once. It returns nil then. It
// survives what dies beneath it, connections, brokers and controllers, and
// returns an error only if it can never succeed, or the client was closed. It
// runs once.
func (s *StreamConsumer) Run(ctx context.Context) error {
	if s.began.Swap(true) {
		return errors.New("a stream consumer runs once")
	}
	return newStreamDriver(s).run(ctx)
}

// Ack acknowledges, in each segment of p, all that was delivered and not yet
// acknowledged at or before its position. done, if not nil, is called once,
// from Run: with nil when the brokers have confirmed it, or with the first
// error. What a segment held when its consumer was lost comes again, and is
// acknowledged by acknowledging that. After the end of Run, and only then, done
// is called before Ack returns, with ErrClosed. Ack never blocks.
func (s *StreamConsumer) Ack(p StreamPosition, done func(error)) {
	if done == nil {
		done = func(error) {}
	}
	p = maps.Clone(p)
	if !s.events.post(func(d *streamDriver) { d.ack(p, done) }) {
		done(ErrClosed)
	}
}
