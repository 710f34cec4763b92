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

// Message is one entry delivered to a consumer.
type Message struct {
	ID              MessageID
	RedeliveryCount uint32
	// Entry carries one reference, which is the handler's to release.
	Entry *frame.Entry
	// Info is the scanned metadata; its slices alias the entry's.
	Info frame.Info
	// Err tells that the entry is damaged (frame.ErrChecksum, frame.ErrTruncated)
	// or its metadata undecodable: Info says nothing then.
	Err error
}

// ConsumerHandler is told what happens to a consumer. Calls come from the
// connection's read loop, one at a time, and must not block. They may begin
// before Subscribe returns.
type ConsumerHandler interface {
	Message(Message)
	// ActiveChanged tells a Failover consumer whether it is the one that gets
	// messages. The same news may be repeated.
	ActiveChanged(active bool)
	// EndOfTopic: the topic is terminated and all of it was acknowledged. A
	// hint: it does not come every time (broker 5.0.1, observed).
	EndOfTopic()
	// Closed is the last call, always made and only once. No acknowledgement is
	// pending any more.
	Closed(err error)
}

// Consumer reads one topic through a subscription. It is safe for concurrent
// use.
type Consumer struct {
	conn    *conn
	id      uint64
	topic   string
	handler ConsumerHandler
	deliver gate
	acks    ackBook

	mu   sync.Mutex
	err  error
	dead chan struct{} // closed when err is set
}

// Subscribe looks the topic up and subscribes at its owner, once. No message
// comes before Flow permits it. If Subscribe fails, no call of the handler
// follows, and Closed is not called.
func (c *Client) Subscribe(ctx context.Context, o SubscribeOptions, h ConsumerHandler) (*Consumer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	conn, err := c.owner(ctx, o.Topic, KindConsumer)
	if err != nil {
		return nil, fmt.Errorf("subscribe %s to %s: %w", o.Subscription, o.Topic, err)
	}
	s := &Consumer{conn: conn, id: c.ids.Add(1), topic: o.Topic, handler: h, dead: make(chan struct{})}
	if err := s.open(ctx, c, o); err != nil {
		return nil, fmt.Errorf("subscribe %s to %s at %s: %w", o.Subscription, o.Topic, conn.target, err)
	}
	return s, nil
}

func (s *Consumer) open(ctx context.Context, c *Client, o SubscribeOptions) error {
	// The broker tells who is active before it answers SUBSCRIBE, so the gate
	// is open from the start; a failure closes it without a last call.
	s.deliver.open()
	if err := s.conn.own(func(h *handles) { h.consumers[s.id] = s }); err != nil {
		return err
	}
	_, err := s.conn.request(ctx, c.opts.OperationTimeout, pulsarpb.BaseCommand_SUCCESS, func(r result) {
		if r.err != nil {
			s.abandon(r.err)
		}
	}, func(id uint64) *pulsarpb.BaseCommand { return o.command(s.id, id) })
	if err == nil {
		return nil
	}
	s.abandon(err)
	if !isServerError(err) {
		// The broker may yet subscribe it, and would count it as a consumer.
		s.conn.reclose(s.closeCommand)
	}
	return err
}

// abandon ends a consumer whose opening failed.
func (s *Consumer) abandon(err error) {
	s.deliver.abandon()
	_ = s.kill(err) // it was never open
}

// Topic is what the consumer was subscribed to.
func (s *Consumer) Topic() string { return s.topic }

// Flow permits the broker to deliver that many more messages: messages, not
// entries, and the last entry may overdraw (broker 5.0.1, observed). A permit of
// none is no permit.
func (s *Consumer) Flow(messages uint32) error {
	if messages == 0 {
		return nil
	}
	if err := s.alive(); err != nil {
		return err
	}
	cmd := command(pulsarpb.BaseCommand_FLOW)
	cmd.Flow = &pulsarpb.CommandFlow{ConsumerId: proto.Uint64(s.id), MessagePermits: proto.Uint32(messages)}
	return s.conn.out.command(cmd)
}

// ConsumerStats is what a broker tells of a consumer and its subscription.
type ConsumerStats struct {
	// Backlog counts what is not acknowledged in the whole subscription, in
	// entries, markers included.
	Backlog          int64
	AvailablePermits int64 // may be negative
	Unacked          int64
	Blocked          bool // by the limit of unacknowledged messages
	ConsumerName     string
	Type             string // of the subscription
	ConnectedSince   string
}

// Stats asks the broker about the consumer.
func (s *Consumer) Stats(ctx context.Context) (ConsumerStats, error) {
	if err := s.alive(); err != nil {
		return ConsumerStats{}, err
	}
	ctx, cancel := until(ctx, s.dead, s.alive)
	defer cancel()
	reply, err := s.conn.request(ctx, s.conn.opts.OperationTimeout, pulsarpb.BaseCommand_CONSUMER_STATS_RESPONSE, nil, func(id uint64) *pulsarpb.BaseCommand {
		cmd := command(pulsarpb.BaseCommand_CONSUMER_STATS)
		cmd.ConsumerStats = &pulsarpb.CommandConsumerStats{RequestId: proto.Uint64(id), ConsumerId: proto.Uint64(s.id)}
		return cmd
	})
	if err != nil {
		return ConsumerStats{}, fmt.Errorf("consumer stats of %s: %w", s.topic, err)
	}
	r := reply.GetConsumerStatsResponse()
	return ConsumerStats{
		Backlog:          int64(r.GetMsgBacklog()),
		AvailablePermits: int64(r.GetAvailablePermits()),
		Unacked:          int64(r.GetUnackedMessages()),
		Blocked:          r.GetBlockedConsumerOnUnackedMsgs(),
		ConsumerName:     r.GetConsumerName(),
		Type:             r.GetType(),
		ConnectedSince:   r.GetConnectedSince(),
	}, nil
}

// Seek moves the subscription to id; Latest is its end. The broker closes the
// consumer for it (broker 5.0.1, observed), before or after its answer.
func (s *Consumer) Seek(ctx context.Context, id MessageID) error {
	if err := s.alive(); err != nil {
		return err
	}
	_, err := s.conn.request(ctx, s.conn.opts.OperationTimeout, pulsarpb.BaseCommand_SUCCESS, nil, func(request uint64) *pulsarpb.BaseCommand {
		cmd := command(pulsarpb.BaseCommand_SEEK)
		cmd.Seek = &pulsarpb.CommandSeek{ConsumerId: proto.Uint64(s.id), RequestId: proto.Uint64(request), MessageId: wireID(id)}
		return cmd
	})
	if err != nil {
		return fmt.Errorf("seek %s to %s: %w", s.topic, id, err)
	}
	return nil
}

// Close ends the consumer and waits for the broker to let go of it, at most
// until ctx ends. On return Closed has been called, and acknowledgements whose
// receipt did not come have failed with ErrClosed, though they may count all the
// same. Closing what is closed already is no error. It must not be called by a
// handler, nor with a lock held that a handler takes.
func (s *Consumer) Close(ctx context.Context) error {
	if s.alive() != nil {
		s.die(ErrClosed) // waits for a Closed that is being called
		return nil
	}
	ctx, cancel := until(ctx, s.dead, s.alive)
	defer cancel()
	_, err := s.conn.request(ctx, s.conn.opts.OperationTimeout, pulsarpb.BaseCommand_SUCCESS, func(r result) {
		if r.err == nil {
			s.die(ErrClosed)
		}
	}, s.closeCommand)
	died := s.alive() != nil // while the broker was asked
	s.die(ErrClosed)
	if err != nil && !died && !errors.Is(err, ErrConnectionLost) {
		s.conn.reclose(s.closeCommand)
		return fmt.Errorf("close consumer of %s: %w", s.topic, err)
	}
	return nil
}

func (s *Consumer) closeCommand(id uint64) *pulsarpb.BaseCommand {
	cmd := command(pulsarpb.BaseCommand_CLOSE_CONSUMER)
	cmd.CloseConsumer = &pulsarpb.CommandCloseConsumer{ConsumerId: proto.Uint64(s.id), RequestId: proto.Uint64(id)}
	return cmd
}

// alive returns why the consumer is dead, nil while it is not.
func (s *Consumer) alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Consumer) message(m Message) {
	taken := false
	s.deliver.call(func() {
		taken = true
		s.handler.Message(m)
	})
	if !taken {
		m.Entry.Release()
	}
}

func (s *Consumer) activeChanged(active bool) {
	s.deliver.call(func() { s.handler.ActiveChanged(active) })
}

func (s *Consumer) endOfTopic() { s.deliver.call(s.handler.EndOfTopic) }

// kill takes the consumer off its connection and fails what is pending. It
// reports the error that counts: the first one's.
func (s *Consumer) kill(err error) error {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
		close(s.dead)
	}
	err = s.err
	s.mu.Unlock()
	s.conn.disown(func(h *handles) { delete(h.consumers, s.id) })
	s.deliver.hold(func() { s.acks.fail(err) })
	return err
}

func (s *Consumer) die(err error) {
	err = s.kill(err)
	s.deliver.close(func() { s.handler.Closed(err) })
}
