package demo

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar"
)

// subscription is the one that the demo's consumers share at west.
const subscription = "demo-readers"

// workEvery is how long an application is busy with what came.
const workEvery = 10 * time.Millisecond

// tally is what all readers together tell.
type tally struct {
	codec     *codec
	order     *keyorder.Checker
	delivered atomic.Int64 // different messages
	guests    atomic.Int64 // entries of a user's own client

	mu   sync.Mutex
	errs []string
}

func (t *tally) problem(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errs) < 10 {
		t.errs = append(t.errs, text)
	}
}

func (t *tally) problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.errs...)
}

// reader is one application that reads west through a Stream consumer.
type reader struct {
	*tally
	name   string
	client *pulsar.Client
	stream *pulsar.StreamConsumer
	wake   chan struct{} // holds a token while there is something in the inbox

	mu    sync.Mutex
	gone  bool // killed: what still comes is not seen
	inbox []delivery
}

// delivery is an entry that was told to the checker, and is to be acknowledged.
type delivery struct {
	msg  pulsar.StreamMessage
	held []message
}

func newReader(s *stage, name string, t *tally) (*reader, error) {
	client, err := s.client(s.west)
	if err != nil {
		return nil, err
	}
	r := &reader{tally: t, name: name, client: client, wake: make(chan struct{}, 1)}
	r.stream, err = client.NewStreamConsumer(pulsar.StreamConsumerOptions{
		Topic: topic, Subscription: subscription, ConsumerName: name, LeaveTimeout: 5 * time.Second,
	}, r)
	return r, err
}

// run reads until ctx ends, and then leaves in good order. It also ends when kill
// was called.
func (r *reader) run(ctx context.Context) {
	r.order.Joined(r.name)
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { r.work(working) })
	err := r.stream.Run(ctx)
	stop()
	work.Wait()
	r.mu.Lock()
	gone := r.gone
	r.gone = true
	r.mu.Unlock()
	if gone {
		return
	}
	if err != nil && !errors.Is(err, pulsar.ErrClosed) {
		r.problem(r.name + ": " + err.Error())
	}
	r.order.Left(r.name)
	_ = r.client.Close() // never fails
}

// kill ends the reader without a goodbye, as the end of its process would: what it
// holds comes again.
func (r *reader) kill() {
	r.mu.Lock()
	r.gone = true
	r.order.Crashed(r.name)
	r.mu.Unlock()
	_ = r.client.Close() // never fails
}

// Message implements pulsar.StreamHandler.
func (r *reader) Message(m pulsar.StreamMessage) {
	defer m.Entry.Release()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	d := delivery{msg: m}
	if ours(&m.Info) || m.Err != nil {
		msgs, err := r.codec.open(&m.Info, m.Entry)
		if err = errors.Join(m.Err, err); err != nil {
			r.problem(m.ID.String() + ": " + err.Error())
		} else {
			r.deliver(m, msgs)
			d.held = msgs
		}
	} else {
		r.guests.Add(1)
	}
	r.inbox = append(r.inbox, d)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reader) deliver(m pulsar.StreamMessage, msgs []message) {
	at := keyorder.Position{Segment: strconv.FormatUint(m.Segment, 10), Ledger: m.ID.Ledger, Entry: m.ID.Entry}
	for i, msg := range msgs {
		at.Index = i
		if r.order.Delivered(r.name, msg.order(), at) == keyorder.First {
			r.delivered.Add(1)
		}
	}
}

// Segment implements pulsar.StreamHandler.
func (r *reader) Segment(s pulsar.StreamSegment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.State == pulsar.StreamWaiting && !r.gone {
		r.order.Reopened(r.name, strconv.FormatUint(s.Assigned.ID, 10))
	}
}

// work is done with what came, and acknowledges it, until ctx ends.
func (r *reader) work(ctx context.Context) {
	at := pulsar.StreamPosition{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		if pause(ctx, workEvery) != nil {
			return
		}
		r.mu.Lock()
		inbox := r.inbox
		r.inbox = nil
		for _, d := range inbox {
			for _, m := range d.held {
				r.order.Acked(r.name, m.order())
			}
			at.Advance(d.msg)
		}
		gone := r.gone
		r.mu.Unlock()
		if gone {
			return
		}
		r.stream.Ack(at, nil)
	}
}
