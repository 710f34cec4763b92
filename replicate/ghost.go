package replicate

import (
	"context"
	"fmt"
	"sync"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// A topic that was deleted leaves orphan segments, which go on giving good receipts
// (observed, broker 5.0.1). So no record rests on receipts alone: the topic is looked
// up after them, and is the one that they are from. What has receipts and no record
// when the topic is found gone is the most that a ghost can have taken; the source
// still has it.

// ghosts adds up what the sessions of a mapping gave to a topic that is gone. The
// zero value is ready, and it is safe for concurrent use.
type ghosts struct {
	mu  sync.Mutex
	all map[uint64]*ghost // by the topic's incarnation
}

type ghost struct {
	writers  int // sessions that have receipts, and have not heard of the end
	messages int
}

func (g *ghosts) join(incarnation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[uint64]*ghost{}
	}
	if g.all[incarnation] == nil {
		g.all[incarnation] = &ghost{}
	}
	g.all[incarnation].writers++
}

// leave takes what a session has to tell; the last one is given the sum.
func (g *ghosts) leave(incarnation uint64, messages int) (sum int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.all[incarnation]
	all.messages += messages
	if all.writers--; all.writers > 0 {
		return 0
	}
	delete(g.all, incarnation)
	return all.messages
}

// tally is what a session knows of its receipts.
type tally struct {
	messages    int    // that the topic has given a receipt for, or was found to hold
	proved      int    // of them, when the topic was last seen to be there
	incarnation uint64 // of the topic, once there are any
	proving     bool   // a record waits for the topic to be seen
	writes      int    // records asked for; a later one takes the place of one that waits
}

// count adds messages that the target has.
func (s *session) count(messages int) {
	t := &s.tally
	if t.incarnation == 0 {
		t.incarnation = s.layoutSeen
		s.lane.env.ghosts.join(t.incarnation)
	}
	t.messages += messages
}

// gone: the target topic is not there, or another one is.
func (s *session) gone(err error) {
	s.settleGhost(true)
	s.step(Event{Kind: evTargetMissing, Err: err})
	if s.tally.proving && !s.over {
		s.step(Event{Kind: evFailed, Err: err}) // the record that waits would wait for ever
	}
}

// settleGhost ends the count: of a topic that is gone, or of one that this session
// leaves. Whoever is the last of the mapping tells.
func (s *session) settleGhost(gone bool) {
	t, env := &s.tally, s.lane.env
	if t.incarnation == 0 {
		return
	}
	took := 0
	if gone {
		took = t.messages - t.proved
		env.metrics.ghostReceipts.Add(float64(took))
	}
	t.proved = t.messages
	sum := env.ghosts.leave(t.incarnation, took)
	t.incarnation = 0
	if sum == 0 {
		return
	}
	text := fmt.Sprintf("target topic %s was deleted: it has given receipts for %d messages since it was last seen to be there, so these may be a ghost's; they are still at the source, and are sent again when the topic is there", env.Target.Topic, sum)
	env.Log.Error(text)
	env.Board.Note(env.Mapping, text)
}

// record writes a record, when the topic was seen to be there after the receipts
// that it rests on.
func (s *session) record(rec Record) {
	t := &s.tally
	t.writes++
	if t.messages == t.proved {
		t.proving = false
		s.writeRecord(rec)
		return
	}
	t.proving = true
	write, mark, incarnation := t.writes, t.messages, t.incarnation
	s.op(func(ctx context.Context) {
		if !s.prove(ctx, incarnation) {
			return
		}
		s.box.put(letter{ev: Event{Kind: evNothing}, do: func() {
			t.proved = max(t.proved, mark)
			if write == t.writes && !s.over {
				t.proving = false
				s.writeRecord(rec)
			}
		}})
	})
}

// prove tries until the target topic is seen to be there; false: the session ends.
// That it is not there is for the cache to say.
func (s *session) prove(ctx context.Context, incarnation uint64) bool {
	wait := newBackoff()
	for {
		err := s.confirm(ctx, incarnation)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		err = fmt.Errorf("cannot see that the target topic is there: %w", err)
		s.log.Warn("record not written, trying again", "error", err)
		s.box.post(Event{Kind: evCheckpointTrouble, Err: err})
		pause(ctx, wait.NextBackOff())
	}
}

func (s *session) confirm(ctx context.Context, incarnation uint64) error {
	target := s.lane.env.Target
	ctx, cancel := context.WithTimeoutCause(ctx, target.Client.OperationTimeout(), pulsar.ErrTimeout)
	defer cancel()
	err := target.Layout.Confirm(ctx, incarnation)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
