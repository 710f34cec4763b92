package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// outgoing is one entry on its way to its receipt.
type outgoing struct {
	sequence uint64
	messages []message
}

// outlet publishes to one segment, until that is sealed. What has no receipt
// then was not stored (facts 6) and goes to its children.
type outlet struct {
	topic    string
	producer *pulsar.Producer
	receipt  func([]message)
	wake     chan struct{} // holds a token when something changed

	mu      sync.Mutex
	pending []outgoing
	closed  bool
}

func openOutlet(ctx context.Context, client *pulsar.Client, topic string, receipt func([]message)) (*outlet, error) {
	o := &outlet{topic: topic, receipt: receipt, wake: make(chan struct{}, 1)}
	p, err := client.OpenProducer(ctx, pulsar.ProducerOptions{Topic: topic}, o)
	o.producer = p
	return o, err
}

// send takes an entry over: it is published, or left at the end.
func (o *outlet) send(e outgoing, metadata, payload []byte) {
	o.mu.Lock()
	o.pending = append(o.pending, e)
	closed := o.closed
	o.mu.Unlock()
	if closed {
		return
	}
	err := o.producer.Send(pulsar.Outgoing{
		Sequence: e.sequence, Highest: e.sequence + uint64(len(e.messages)) - 1, NumMessages: len(e.messages),
		Metadata: metadata, Payload: payload,
	})
	if err != nil {
		o.end()
	}
}

func (o *outlet) end() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.signal()
}

func (o *outlet) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// state tells how much waits for its receipt, and whether more can be sent.
func (o *outlet) state() (pending int, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending), o.closed
}

// await waits until every entry has its receipt, or the outlet is closed.
func (o *outlet) await(ctx context.Context) error {
	for {
		if pending, closed := o.state(); pending == 0 || closed {
			return nil
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle ends an outlet whose segment does, and returns what that did not take.
// sealed is false where the segment goes on: the broker had unloaded it, and what
// has no receipt may be stored.
func (o *outlet) settle(ctx context.Context, client *pulsar.Client) (left []message, sealed bool, err error) {
	sealed = true
	if _, closed := o.state(); closed {
		if sealed, err = terminated(ctx, client, o.topic); err != nil {
			return nil, false, err
		}
	}
	if o.producer != nil {
		err = o.producer.Close(ctx)
	}
	return o.left(), sealed, err
}

// terminated asks for as long as it takes. The answer comes behind all receipts,
// on the same connection.
func terminated(ctx context.Context, client *pulsar.Client, topic string) (bool, error) {
	for {
		p, err := client.OpenProducer(ctx, pulsar.ProducerOptions{Topic: topic}, unheard{})
		if err == nil {
			return false, p.Close(ctx)
		}
		if errors.Is(err, pulsar.ErrTopicTerminated) || errors.Is(err, pulsar.ErrTopicNotFound) {
			return true, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return false, err
		}
	}
}

func (o *outlet) left() (left []message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.pending {
		left = append(left, e.messages...)
	}
	o.pending = nil
	return left
}

// Receipt implements pulsar.ProducerHandler. Receipts come in the order of sends.
func (o *outlet) Receipt(sequence uint64, _ pulsar.MessageID) {
	o.mu.Lock()
	var done []message
	if len(o.pending) > 0 && o.pending[0].sequence == sequence {
		done, o.pending = o.pending[0].messages, o.pending[1:]
	}
	o.mu.Unlock()
	o.receipt(done)
	o.signal()
}

// SendError implements pulsar.ProducerHandler: a seal does that.
func (o *outlet) SendError(uint64, error) { o.end() }

// BrokerClosed implements pulsar.ProducerHandler.
func (o *outlet) BrokerClosed(error) { o.end() }

// Closed implements pulsar.ProducerHandler.
func (o *outlet) Closed(error) { o.end() }

// unheard is the handler of a producer that sends nothing.
type unheard struct{}

func (unheard) Receipt(uint64, pulsar.MessageID) {}
func (unheard) SendError(uint64, error)          {}
func (unheard) BrokerClosed(error)               {}
func (unheard) Closed(error)                     {}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
