package pulsar

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// sendMargin is what an entry must leave free of the broker's limit. An entry
// a little above the limit is never answered and wedges the topic for good
// (broker 5.0.1, observed), and what the bookie stores is larger than what is
// counted here.
const sendMargin = 1 << 10

// ProducerHandler is told what happens to a producer's sends. Calls come from
// the connection's read loop, one at a time, and must not block.
type ProducerHandler interface {
	// Receipt: the send of that sequence id was stored at id, or, if
	// id.Missing(), dropped as a duplicate.
	Receipt(sequence uint64, id MessageID)
	// SendError: the broker refused the send. It may have been stored all the
	// same, and refusals come in any order.
	SendError(sequence uint64, err error)
	// BrokerClosed: the broker closed the producer: the topic was sealed,
	// unloaded or deleted, which the next open will tell apart. No send is
	// accepted any more; receipts and errors of earlier ones may still come.
	// Called once at most. The producer stays until Close.
	BrokerClosed(err error)
	// Closed is the last call, always made and only once.
	Closed(err error)
}

// ProducerOptions says what to open.
type ProducerOptions struct {
	Topic string
	// Name is held by one producer of a topic at a time. Empty lets the broker
	// choose one.
	Name string
}

// Outgoing is one entry to publish.
type Outgoing struct {
	// Sequence is the SEND's own sequence id: what receipts are matched by.
	Sequence uint64
	// Highest is the highest sequence id of a batch, 0 for none.
	Highest uint64
	// NumMessages is how many messages the entry holds; 0 is taken as 1.
	NumMessages int
	// Metadata is copied by Send. Payload is not: it must not change while Owner
	// is retained, and without an owner never again.
	Metadata, Payload []byte
	// PayloadCRC is the CRC32C of Payload alone; without HasPayloadCRC Send
	// computes it.
	PayloadCRC    uint32
	HasPayloadCRC bool
	// Marker and Chunk tell the broker that the entry is a marker, or a piece
	// of a chunked message.
	Marker, Chunk bool
	// Owner is retained by Send and released when the entry was written or
	// dropped.
	Owner *frame.Entry
}

// Producer publishes entries to one topic. It is safe for concurrent use; the
// order of sends is that of the Send calls.
type Producer struct {
	conn    *conn
	id      uint64
	topic   string
	name    string
	last    int64
	handler ProducerHandler
	deliver gate

	mu     sync.Mutex
	err    error         // why no send is accepted any more
	fenced bool          // the broker closed it
	gone   chan struct{} // closed when fenced
}

// OpenProducer looks the topic up and opens a producer at its owner, once:
// whether to try again is the caller's decision. If it fails, no call of the
// handler follows. A broker that finds a mute holder of the name holds the call
// for 5 s to probe it (5.0.1, observed).
func (c *Client) OpenProducer(ctx context.Context, o ProducerOptions, h ProducerHandler) (*Producer, error) {
	if err := checkProducer(o); err != nil {
		return nil, err
	}
	conn, err := c.owner(ctx, o.Topic, KindProducer)
	if err != nil {
		return nil, fmt.Errorf("open producer on %s: %w", o.Topic, err)
	}
	p := &Producer{conn: conn, id: c.ids.Add(1), topic: o.Topic, handler: h, gone: make(chan struct{})}
	if err := p.open(ctx, c, o); err != nil {
		return nil, fmt.Errorf("open producer on %s at %s: %w", o.Topic, conn.target, err)
	}
	return p, nil
}

func checkProducer(o ProducerOptions) error {
	if err := checkOpenable(o.Topic); err != nil {
		return err
	}
	if o.Name == "" {
		return nil
	}
	return checkText("producer", o.Name)
}

func (p *Producer) open(ctx context.Context, c *Client, o ProducerOptions) error {
	if err := p.conn.own(func(h *handles) { h.producers[p.id] = p }); err != nil {
		return err
	}
	timeout := max(c.opts.OperationTimeout, leastProducerTimeout)
	_, err := p.conn.request(ctx, timeout, pulsarpb.BaseCommand_PRODUCER_SUCCESS, p.opened, func(id uint64) *pulsarpb.BaseCommand {
		cmd := command(pulsarpb.BaseCommand_PRODUCER)
		cmd.Producer = &pulsarpb.CommandProducer{
			Topic: proto.String(o.Topic), ProducerId: proto.Uint64(p.id), RequestId: proto.Uint64(id),
			UserProvidedProducerName: proto.Bool(o.Name != ""),
		}
		if o.Name != "" {
			cmd.Producer.ProducerName = proto.String(o.Name)
		}
		return cmd
	})
	if err == nil {
		return nil
	}
	p.conn.disown(func(h *handles) { delete(h.producers, p.id) })
	p.deliver.abandon()
	if !isServerError(err) {
		// The broker may yet open it, and would hold the name.
		p.conn.reclose(p.closeCommand)
	}
	return err
}

// opened takes the broker's answer, before any frame that follows it.
func (p *Producer) opened(r result) {
	if r.err != nil {
		return
	}
	s := r.cmd.GetProducerSuccess()
	p.name, p.last = s.GetProducerName(), s.GetLastSequenceId()
	p.deliver.open()
}

// Name is the name the broker knows the producer by.
func (p *Producer) Name() string { return p.name }

// Topic is what the producer was opened on.
func (p *Producer) Topic() string { return p.topic }

// LastSequenceID is the highest sequence id the broker has seen under this
// name on the topic, -1 for none. It says something only where the broker
// deduplicates.
func (p *Producer) LastSequenceID() int64 { return p.last }

// MaxMessageSize is the broker's limit for metadata and payload together.
func (p *Producer) MaxMessageSize() int { return p.conn.info.MaxMessageSize }

// MaxEntrySize is the largest metadata and payload together that Send takes.
func (p *Producer) MaxEntrySize() int { return p.conn.info.MaxMessageSize - sendMargin - 1 }

// Send queues an entry; it never waits for the network. An error means that the
// entry was certainly not sent (ErrNotSent, with the cause: ErrTooLarge,
// ErrClosedByBroker, ErrConnectionLost, ErrClosed). After nil the entry may be
// stored, whatever happens, until its receipt says so.
func (p *Producer) Send(o Outgoing) error {
	size := len(o.Metadata) + len(o.Payload)
	if size > p.MaxEntrySize() {
		return fmt.Errorf("%w: %w: %d bytes, at most %d", ErrNotSent, ErrTooLarge, size, p.MaxEntrySize())
	}
	if !o.HasPayloadCRC {
		o.PayloadCRC = frame.Checksum(0, o.Payload)
	}
	cmd := frame.SendCommand{
		ProducerID: p.id, SequenceID: o.Sequence, NumMessages: int32(max(o.NumMessages, 1)),
		HighestSequenceID: o.Highest, HasHighestSequenceID: o.Highest != 0,
		IsChunk: o.Chunk, Marker: o.Marker,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return notSent(p.err)
	}
	err := p.conn.out.push(o.Payload, o.Owner, func(dst []byte) ([]byte, error) {
		return frame.AppendSend(dst, &cmd, o.Metadata, len(o.Payload), o.PayloadCRC), nil
	})
	if err != nil {
		return notSent(err)
	}
	return nil
}

func notSent(cause error) error { return fmt.Errorf("%w: %w", ErrNotSent, cause) }

// Close ends the producer and waits for the broker to let go of its name, at
// most until ctx ends. Sends that have no receipt yet may still be stored. On
// return Closed has been called. The error is that of the broker or ctx; closing
// what is closed already is none. It must not be called by a handler, nor with a
// lock held that a handler takes.
func (p *Producer) Close(ctx context.Context) error {
	fenced, dead := p.refuse(ErrClosed)
	if dead {
		p.die(ErrClosed) // waits for a Closed that is being called
		return nil
	}
	var err error
	if !fenced {
		ctx, cancel := until(ctx, p.gone, func() error { return ErrClosedByBroker })
		defer cancel()
		_, err = p.conn.request(ctx, p.conn.opts.OperationTimeout, pulsarpb.BaseCommand_SUCCESS, func(r result) {
			if r.err == nil {
				p.die(ErrClosed)
			}
		}, p.closeCommand)
	}
	p.die(ErrClosed)
	if err != nil && !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrClosedByBroker) {
		p.conn.reclose(p.closeCommand)
		return fmt.Errorf("close producer on %s: %w", p.topic, err)
	}
	return nil
}

// refuse ends the accepting of sends. It tells whether the broker had closed
// the producer, and whether it was dead.
func (p *Producer) refuse(err error) (fenced, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dead = p.err != nil && !p.fenced
	if p.err == nil {
		p.err = err
	}
	return p.fenced, dead
}

func (p *Producer) closeCommand(id uint64) *pulsarpb.BaseCommand {
	cmd := command(pulsarpb.BaseCommand_CLOSE_PRODUCER)
	cmd.CloseProducer = &pulsarpb.CommandCloseProducer{ProducerId: proto.Uint64(p.id), RequestId: proto.Uint64(id)}
	return cmd
}

func (p *Producer) receipt(sequence uint64, id MessageID) {
	p.deliver.call(func() { p.handler.Receipt(sequence, id) })
}

func (p *Producer) sendError(sequence uint64, err error) {
	p.deliver.call(func() { p.handler.SendError(sequence, err) })
}

func (p *Producer) brokerClosed(err error) {
	p.mu.Lock()
	known := p.fenced
	if !known {
		p.fenced = true
		close(p.gone)
	}
	if p.err == nil {
		p.err = err
	}
	p.mu.Unlock()
	if !known {
		p.deliver.call(func() { p.handler.BrokerClosed(err) })
	}
}

// die ends the producer: the first call's error is what Closed gets.
func (p *Producer) die(err error) {
	p.refuse(err)
	p.conn.disown(func(h *handles) { delete(h.producers, p.id) })
	p.deliver.close(func() { p.handler.Closed(err) })
}

func isServerError(err error) bool {
	var s *ServerError
	return errors.As(err, &s)
}
