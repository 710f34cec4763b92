package pulsar

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// maxAckIDs bounds the positions of one ACK, so that its frame stays small.
const maxAckIDs = 1000

// AckCumulative acknowledges everything up to and including id. Where done is
// set, the broker is asked for a receipt, and done is called once: with nil, the
// broker's refusal, ErrTimeout (a broker never answers for a consumer it no
// longer knows), or the error that ended the consumer. It is called like the
// handler, never beside it, and before Closed; or, when it is clear at once that
// nothing was sent (ErrNotSent), before AckCumulative returns. It must not
// block. A Key_Shared subscription answers well and ignores a cumulative
// acknowledgement (broker 5.0.1, observed).
func (s *Consumer) AckCumulative(id MessageID, done func(error)) {
	s.ack(pulsarpb.CommandAck_Cumulative, []MessageID{id}, done)
}

// AckIndividual acknowledges just the given positions; done as in
// AckCumulative, once for all of them: with the first error there is.
func (s *Consumer) AckIndividual(ids []MessageID, done func(error)) {
	if len(ids) <= maxAckIDs {
		s.ack(pulsarpb.CommandAck_Individual, ids, done)
		return
	}
	join := joinDone(done, (len(ids)+maxAckIDs-1)/maxAckIDs)
	for len(ids) > 0 {
		n := min(len(ids), maxAckIDs)
		s.ack(pulsarpb.CommandAck_Individual, ids[:n], join)
		ids = ids[n:]
	}
}

// joinDone calls done once, after n calls, with the first error.
func joinDone(done func(error), n int) func(error) {
	if done == nil {
		return nil
	}
	var mu sync.Mutex
	var first error
	return func(err error) {
		mu.Lock()
		n--
		if first == nil {
			first = err
		}
		last, err := n == 0, first
		mu.Unlock()
		if last {
			done(err)
		}
	}
}

func (s *Consumer) ack(t pulsarpb.CommandAck_AckType, ids []MessageID, done func(error)) {
	if len(ids) == 0 {
		if done != nil {
			done(nil)
		}
		return
	}
	ack := &pulsarpb.CommandAck{ConsumerId: proto.Uint64(s.id), AckType: t.Enum()}
	for _, id := range ids {
		ack.MessageId = append(ack.MessageId, wireID(id))
	}
	cmd := command(pulsarpb.BaseCommand_ACK)
	cmd.Ack = ack
	if done == nil {
		if s.alive() == nil {
			_ = s.conn.out.command(cmd) // lost with the connection, redelivered then
		}
		return
	}
	request := s.conn.ids.Add(1)
	ack.RequestId = proto.Uint64(request)
	if err := s.acks.add(request, time.Now().Add(s.conn.opts.OperationTimeout), done); err != nil {
		done(notSent(err))
		return
	}
	if err := s.conn.out.command(cmd); err != nil {
		s.acks.finish(request, notSent(err))
	}
}

// acked matches a receipt with its acknowledgement.
func (s *Consumer) acked(request uint64, err error) {
	s.deliver.hold(func() { s.acks.finish(request, err) })
}

func (s *Consumer) expire(now time.Time) {
	s.deliver.hold(func() { s.acks.expire(now) })
}

// ackBook holds the acknowledgements that wait for a receipt, oldest first.
// Its zero value is ready.
type ackBook struct {
	mu      sync.Mutex
	err     error
	waiting map[uint64]func(error)
	order   []dueAck // by deadline; some may be answered already
}

type dueAck struct {
	request uint64
	at      time.Time
}

func (b *ackBook) add(request uint64, at time.Time, done func(error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	if b.waiting == nil {
		b.waiting = map[uint64]func(error){}
	}
	b.waiting[request] = done
	b.order = append(b.order, dueAck{request, at})
	return nil
}

// finish ends an acknowledgement, if it still waits.
func (b *ackBook) finish(request uint64, err error) {
	b.mu.Lock()
	done := b.waiting[request]
	delete(b.waiting, request)
	if len(b.waiting) == 0 {
		b.order = b.order[:0]
	}
	b.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// expire fails what is due.
func (b *ackBook) expire(now time.Time) {
	b.mu.Lock()
	var late []func(error)
	n := 0
	for ; n < len(b.order); n++ {
		due := b.order[n]
		done := b.waiting[due.request]
		if done != nil && now.Before(due.at) {
			break
		}
		if done != nil {
			late = append(late, done)
			delete(b.waiting, due.request)
		}
	}
	b.order = append(b.order[:0], b.order[n:]...)
	b.mu.Unlock()
	for _, done := range late {
		done(ErrTimeout)
	}
}

// fail fails all that wait, oldest first, and all that come later.
func (b *ackBook) fail(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	waiting, order := b.waiting, b.order
	b.waiting, b.order = nil, nil
	b.mu.Unlock()
	for _, due := range order {
		if done := waiting[due.request]; done != nil {
			done(err)
		}
	}
}
