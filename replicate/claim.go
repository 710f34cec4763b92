package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// barrierMarker is the marker_type of a barrier entry: stored, and delivered to
// no consumer of any kind (observed, broker 5.0.1).
const barrierMarker = 1000

// claimed is a producer N(L) whose barrier has its receipt: nothing that an
// earlier holder of the name sent can land above Barrier.
type claimed struct {
	producer *pulsar.Producer
	barrier  Position
	next     uint64 // the first sequence id that was not used yet
}

// sink takes what a claimed producer reports, after its barrier.
type sink struct {
	receipt func(seq uint64, pos Position)
	doubt   func(error) // may be called more than once
}

// claimEvents listens to a producer: to its barrier first, for the sink after.
type claimEvents struct {
	mu      sync.Mutex
	barrier chan Position
	failed  chan error
	open    bool // the barrier has its receipt
	sink    sink
}

func (c *claimEvents) Receipt(seq uint64, pos pulsar.MessageID) {
	c.mu.Lock()
	open := c.open
	if !open && pos.Ledger >= 0 && pos.Entry >= 0 {
		c.open = true
		c.barrier <- pos
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	switch {
	case pos.Ledger < 0 || pos.Entry < 0:
		// A receipt without a position is none: the broker took the entry for a duplicate.
		c.fail(fmt.Errorf("receipt of sequence id %d without a position", seq))
	case open:
		c.sink.receipt(seq, pos)
	}
}

func (c *claimEvents) SendError(seq uint64, err error) {
	c.fail(fmt.Errorf("sequence id %d: %w", seq, err))
}

func (c *claimEvents) BrokerClosed(err error) { c.fail(err) }

func (c *claimEvents) Closed(err error) {
	if err == nil {
		err = pulsar.ErrClosed
	}
	c.fail(err)
}

func (c *claimEvents) fail(err error) {
	c.mu.Lock()
	open := c.open
	c.mu.Unlock()
	if open {
		c.sink.doubt(err)
		return
	}
	select {
	case c.failed <- err:
	default:
	}
}

// claim opens the producer name on the topic, writes the barrier and awaits its
// receipt. On success the caller owns the producer.
func claim(ctx context.Context, client *pulsar.Client, topic, name string, s sink) (claimed, error) {
	events := &claimEvents{barrier: make(chan Position, 1), failed: make(chan error, 1), sink: s}
	producer, err := client.OpenProducer(ctx, pulsar.ProducerOptions{Topic: topic, Name: name}, events)
	if err != nil {
		return claimed{}, err
	}
	seq := uint64(producer.LastSequenceID() + 1)
	metadata, err := barrier(name, seq)
	if err == nil {
		err = producer.Send(pulsar.Outgoing{Sequence: seq, NumMessages: 1, Metadata: metadata, Marker: true})
	}
	if err == nil {
		late, cancel := context.WithTimeoutCause(ctx, client.OperationTimeout(), pulsar.ErrTimeout)
		defer cancel()
		select {
		case pos := <-events.barrier:
			return claimed{producer: producer, barrier: pos, next: seq + 1}, nil
		case err = <-events.failed:
		case <-late.Done():
			err = context.Cause(late)
		}
	}
	producer.Leave()
	return claimed{}, fmt.Errorf("barrier on %s: %w", topic, err)
}

func barrier(name string, seq uint64) ([]byte, error) {
	return proto.Marshal(&pulsarpb.MessageMetadata{
		ProducerName: proto.String(name),
		SequenceId:   proto.Uint64(seq),
		PublishTime:  proto.Uint64(uint64(time.Now().UnixMilli())),
		MarkerType:   proto.Int32(barrierMarker),
	})
}

// terminated reports whether the topic takes no more entries, for good.
func terminated(err error) bool { return errors.Is(err, pulsar.ErrTopicTerminated) }

// notFound reports whether the topic is not there.
func notFound(err error) bool { return errors.Is(err, pulsar.ErrTopicNotFound) }
