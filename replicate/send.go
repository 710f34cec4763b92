package replicate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// claimTarget claims a target segment beside the driver, for as long as it
// takes: CLAIM(T) of design 3.3.
func (s *session) claimTarget(ef Effect) {
	h := s.targets[ef.Target]
	if h == nil {
		h = &handle{topic: ef.Segment.Topic(s.lane.env.Target.Topic)}
		s.targets[ef.Target] = h
	}
	old, wait := h.producer, h.refused
	h.producer = nil
	if old != nil && wait == nil {
		h.refused = newBackoff() // until a receipt comes, the next claim waits
	}
	s.work(h, func(ctx context.Context) {
		// Of a producer that the broker has not closed, the last receipts come
		// before the answer to its close; at a seal they come before the broker's.
		old.Leave()
		if wait != nil {
			pause(ctx, wait.NextBackOff())
		}
		s.claimUntil(ctx, ef.Target, ef.Gen, h)
	})
}

// work runs the one operation that a handle has on its way, and gives up the one
// before.
func (s *session) work(h *handle, do func(context.Context)) {
	h.abandon()
	aborted := make(chan struct{})
	h.abort = aborted
	s.op(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-aborted:
				cancel()
			case <-ctx.Done():
			}
		}()
		do(ctx)
	})
}

// scanTarget reads a claimed or terminated segment beside the driver: SETTLE(T).
func (s *session) scanTarget(ef Effect) {
	h := s.targets[ef.Target]
	follow := func(r *reading) { s.lane.metrics.readings.follow(s.lane.name, ef.Target, r) }
	s.work(h, func(ctx context.Context) {
		wait := newBackoff()
		for {
			all, begins, err := s.lane.env.Scans.find(ctx, h.topic, s.lane.name, ef.From, ef.Pos, follow)
			follow(nil)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				s.box.post(Event{Kind: evScanned, Target: ef.Target, Gen: ef.Gen, Found: all, Pos: begins})
				return
			}
			s.log.Warn("cannot read target segment, trying again", "topic", h.topic, "error", err)
			s.box.post(Event{Kind: s.absent(err), Target: ef.Target, Gen: ef.Gen, Err: err})
			pause(ctx, wait.NextBackOff())
		}
	})
}

// absent says what an error of a target segment tells. One that is not there may
// have left the layout: it is looked up again.
func (s *session) absent(err error) EventKind {
	if !notFound(err) {
		return evTargetTrouble
	}
	s.lane.env.Target.Layout.Refresh()
	return evGone
}

// abandon gives up the operation on its way, if there is one.
func (h *handle) abandon() {
	if h.abort != nil {
		close(h.abort)
		h.abort = nil
	}
}

func (s *session) claimUntil(ctx context.Context, id TargetID, gen int, h *handle) {
	wait := newBackoff()
	for {
		c, err := claim(ctx, s.lane.env.Target.Client, h.topic, s.lane.name, s.targetSink(id, gen))
		switch {
		case err == nil:
			s.lane.metrics.claims.Inc()
			s.box.put(letter{
				ev: Event{Kind: evClaimed, Target: id, Gen: gen, Pos: c.barrier, Seq: c.next},
				do: func() { s.keep(id, h, c, gen) },
			})
			return
		case terminated(err):
			s.box.post(Event{Kind: evEnded, Target: id, Gen: gen})
			return
		case ctx.Err() != nil:
			return
		}
		s.log.Warn("cannot take target segment, trying again", "topic", h.topic, "error", err)
		s.box.post(Event{Kind: s.absent(err), Target: id, Gen: gen, Err: err})
		if errors.Is(err, pulsar.ErrProducerBusy) && s.deposed() {
			s.box.post(Event{Kind: evFailed, Err: errDeposed})
			return
		}
		pause(ctx, wait.NextBackOff())
	}
}

// keep stores a claimed producer, unless the machine gave the target up while
// it was being claimed.
func (s *session) keep(id TargetID, h *handle, c claimed, gen int) {
	if s.targets[id] != h {
		s.op(func(context.Context) { c.producer.Leave() })
		return
	}
	h.producer, h.gen = c.producer, gen
}

// deposed reports whether the checkpoint topic, as far as it was read, knows a
// newer epoch of the lane.
func (s *session) deposed() bool {
	rec, ok := s.lane.env.Records.Record(s.lane.name)
	return ok && rec.Epoch > s.lane.epoch.Load()
}

func (s *session) targetSink(id TargetID, gen int) sink {
	return sink{
		receipt: func(seq uint64, pos Position) {
			s.box.post(Event{Kind: evReceipt, Target: id, Gen: gen, Seq: seq, Pos: pos})
		},
		doubt: func(err error) {
			s.box.post(Event{Kind: evDoubt, Target: id, Gen: gen, Err: err})
		},
	}
}

// send hands one part to the producer. The payload of a whole entry goes out as
// it came in, with the checksum of its bytes carried over.
func (s *session) send(ef Effect) {
	h, p := s.targets[ef.Target], ef.Part
	if h == nil || h.producer == nil || h.gen != ef.Gen {
		return // its doubt is in the mailbox
	}
	// A part's payload may lie in the entry's memory, too.
	out := pulsar.Outgoing{Sequence: p.seq, NumMessages: p.messages, Owner: p.entry.raw}
	if p.metadata != nil {
		out.Metadata, out.Payload = p.metadata, p.payload
	} else {
		patch := s.machine.cut.patch(p.entry, nil, p.stamp, p.setStamp)
		s.scratch = frame.AppendPatched(s.scratch[:0], p.entry.raw.Metadata, &patch)
		out.Metadata, out.Payload = s.scratch, p.entry.raw.Payload
		out.PayloadCRC, out.HasPayloadCRC = p.entry.raw.PayloadCRC, true
	}
	if err := h.producer.Send(out); err != nil {
		s.box.post(Event{Kind: evDoubt, Target: ef.Target, Gen: ef.Gen, Err: err})
	}
}

func (s *session) release(id TargetID) {
	h := s.targets[id]
	if h == nil {
		return
	}
	h.abandon()
	delete(s.targets, id)
	s.op(func(context.Context) { h.producer.Leave() })
}

// claimCheckpoint takes the checkpoint topic as N(L) and reads it up to the
// barrier: step 2 of OPEN, and what follows the loss of the producer.
func (s *session) claimCheckpoint(ctx context.Context, gen int) {
	env := s.lane.env
	wait := newBackoff()
	for {
		c, err := claim(ctx, env.Target.Client, env.CheckpointTopic, s.lane.name, s.checkpointSink(gen))
		if err == nil {
			var found *Record
			var begun bool
			mark := noPosition()
			may := true
			if found, begun, err = env.Records.Find(ctx, s.lane.name, env.genesis().Key(), c.barrier); err == nil && gen == 1 {
				may, err = s.lane.mayOpen(ctx, c.barrier)
			}
			if !may && err == nil {
				c.producer.Leave()
				s.box.post(Event{Kind: evFailed, Err: errors.New("a parent segment is not finished any more: it was rewound")})
				return
			}
			if err == nil && gen == 1 {
				if mark, err = s.mark(ctx); err != nil && ctx.Err() == nil {
					c.producer.Leave()
					s.box.post(Event{Kind: evSourceClosed, Err: fmt.Errorf("where the subscription stands: %w", err)})
					return // a broker never answers for a consumer that it does not know
				}
			}
			if err == nil {
				s.box.put(letter{ev: Event{Kind: evCheckpointClaimed, Gen: gen, Record: found, Begun: begun, Pos: mark}, do: func() { s.checkpoint, s.checkpointGen = &c, gen }})
				return
			}
			c.producer.Leave()
		}
		if ctx.Err() != nil {
			return
		}
		if gen > 1 && errors.Is(err, pulsar.ErrProducerBusy) && s.deposed() {
			s.box.post(Event{Kind: evFailed, Err: errDeposed})
			return
		}
		s.log.Warn("cannot take the checkpoint topic, trying again", "error", err)
		s.box.post(Event{Kind: evCheckpointTrouble, Err: err})
		pause(ctx, wait.NextBackOff())
	}
}

func (s *session) checkpointSink(gen int) sink {
	return sink{
		receipt: func(uint64, Position) {
			s.lane.metrics.lastCheckpoint.Set(seconds(time.Now()))
			s.box.post(Event{Kind: evRecordStored, Gen: gen})
		},
		doubt: func(err error) { s.loseCheckpoint(gen, err) },
	}
}

// loseCheckpoint tells the machine that a checkpoint producer died, and closes it.
func (s *session) loseCheckpoint(gen int, err error) {
	s.box.put(letter{ev: Event{Kind: evCheckpointLost, Gen: gen, Err: err}, do: func() {
		if c := s.checkpoint; c != nil && s.checkpointGen == gen {
			s.checkpoint = nil
			s.op(func(context.Context) { c.producer.Leave() })
		}
	}})
}

// writeRecord stores a record under the key N(L).
func (s *session) writeRecord(rec Record) {
	c := s.checkpoint
	if c == nil {
		return // its loss is in the mailbox
	}
	s.lane.epoch.Store(rec.Epoch)
	rec.Lane = &s.lane.id
	s.wrote = time.Now()
	md, err := keyed(s.lane.name, s.lane.name, c.next)
	if err == nil {
		err = c.producer.Send(pulsar.Outgoing{Sequence: c.next, NumMessages: 1, Metadata: md, Payload: rec.Encode()})
	}
	c.next++
	if err != nil {
		s.loseCheckpoint(s.checkpointGen, fmt.Errorf("record: %w", err))
	}
}

// keyed is the metadata of an entry of geobridge's own on a regular topic.
func keyed(producer, key string, seq uint64, properties ...*pulsarpb.KeyValue) ([]byte, error) {
	return proto.Marshal(&pulsarpb.MessageMetadata{
		ProducerName: proto.String(producer),
		SequenceId:   proto.Uint64(seq),
		PublishTime:  proto.Uint64(uint64(time.Now().UnixMilli())),
		PartitionKey: proto.String(key),
		Properties:   properties,
	})
}
