package replicate

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/reroute"
)

// guard moves the guard subscription of a mapping along the floors of its
// lanes, so that the target keeps the evidence of what was stored there, and no
// more. On each target segment one instance's Failover consumer, without
// permits, is the one that acknowledges.
type guard struct {
	env  *Env
	log  *slog.Logger
	held map[TargetID]*guardHold
	// high is the highest floor that any lane ever listed for a segment, as far
	// as this instance saw: a lower bound of its end.
	high map[TargetID]Position
	// ahead: others moved the guard beyond a floor, as far as it was looked at.
	ahead  atomic.Bool
	rounds int
	// released are the sealed segments whose end the guard has reached.
	released map[TargetID]bool
	idle     map[TargetID]bool // sealed, and not listed in the last round
	again    atomic.Bool       // it was recorded anew, and begins at the earliest of each segment
}

type guardHold struct {
	consumer *pulsar.Consumer
	closed   chan struct{}
	acked    Position
	failed   atomic.Bool // the last acknowledgement
}

func newGuard(env *Env) *guard {
	return &guard{
		env: env, log: env.Log.With("guard", GuardName(env.Subscription)),
		held: map[TargetID]*guardHold{}, high: map[TargetID]Position{}, released: map[TargetID]bool{}, idle: map[TargetID]bool{},
	}
}

// guardInterval is how often the guard is moved.
const guardInterval = 5 * time.Second

func (g *guard) run(ctx context.Context) {
	defer g.closeAll()
	t := time.NewTicker(guardInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.move(ctx)
		}
	}
}

// move acknowledges every segment of the target's layout to below the lowest floor
// of the lanes that list it, or to the end as far as it was seen if none does.
// A sealed segment that no lane lists takes nothing any more: the guard goes to
// its end for good, whoever wrote there last, and lets it be pruned.
func (g *guard) move(ctx context.Context) {
	snap := g.env.Target.Layout.Snapshot()
	if snap.State != layoutcache.Live {
		return
	}
	// First the layout, then the records to their end: whatever was sent to a
	// segment before it was sealed is declared in what is read now.
	reading, cancel := context.WithTimeout(ctx, guardInterval)
	defer cancel()
	marks := g.marks(reading)
	low, high, err := g.env.floors(reading)
	if err != nil {
		g.log.Debug("guard not moved", "error", err)
		return
	}
	for id, p := range high {
		if p.Compare(g.highest(id)) > 0 {
			g.high[id] = p
		}
	}
	if g.again.Swap(false) {
		clear(g.released)
	}
	g.compare(marks, low)
	for _, s := range snap.Layout.Segments() {
		id := targetID(s)
		to, listed := low[id]
		if !listed {
			to = g.highest(id)
		}
		switch {
		case s.Sealed && !listed:
			if g.idle[id] { // the record of a lane that knew it as active may have been on its way the first time
				g.release(ctx, s)
			}
			g.idle[id] = true
		case listed:
			delete(g.idle, id)
			g.ack(ctx, s, below(to))
		case to != noPosition():
			g.ack(ctx, s, to)
		}
	}
	g.forget(snap.Layout)
}

// floors is the lowest and the highest floor of each target segment that records
// of this mapping list.
func (e *Env) floors(ctx context.Context) (low, high map[TargetID]Position, err error) {
	low, high = map[TargetID]Position{}, map[TargetID]Position{}
	source := e.Source.Layout.Snapshot().Layout
	err = e.Records.Each(ctx, func(_ string, rec Record) {
		if !e.keeps(rec, source) {
			return
		}
		for _, f := range rec.Floors {
			if f.Topic != e.Target.Topic {
				continue
			}
			if l, ok := low[f.TargetID]; !ok || f.Pos.Compare(l) < 0 {
				low[f.TargetID] = f.Pos
			}
			if h, ok := high[f.TargetID]; !ok || f.Pos.Compare(h) > 0 {
				high[f.TargetID] = f.Pos
			}
		}
	})
	return low, high, err
}

// lookRounds: where the guard stands is asked for every so many rounds.
const lookRounds = 6

// marks asks where the guard stands, before the records are read: what it may have
// been moved to by us, they hold already. nil: not now.
func (g *guard) marks(ctx context.Context) map[TargetID]Position {
	if g.rounds++; g.rounds%lookRounds != 1 {
		return nil
	}
	marks := map[TargetID]Position{}
	for id, h := range g.held {
		if isClosed(h.closed) {
			continue
		}
		if p, err := markOf(ctx, h.consumer); err == nil {
			marks[id] = p
		} else {
			g.log.Debug("cannot see where the guard stands", "segment", id.Segment, "error", err)
		}
	}
	return marks
}

// compare tells when somebody else has moved the guard.
func (g *guard) compare(marks, low map[TargetID]Position) {
	if marks == nil {
		return
	}
	ahead := false
	for id, mark := range marks {
		floor, listed := low[id]
		if !listed || mark.Compare(floor) < 0 {
			continue
		}
		if ahead = true; !g.ahead.Load() {
			g.log.Error("the guard was moved beyond what the records need: what a crash leaves in doubt now may not be found (a TTL, an evicting backlog quota, or an operator)",
				"segment", id.Segment, "stands", mark, "needed", floor)
		}
	}
	g.ahead.Store(ahead)
}

// below is the position before an entry. The guard never goes as far as a floor: a
// subscription that has acknowledged a whole ledger does not keep it, and then
// nobody could tell whether what lay above the floor is trimmed, too.
func below(p Position) Position { return Position{Ledger: p.Ledger, Entry: max(p.Entry-1, -1)} }

func (g *guard) highest(id TargetID) Position {
	if p, ok := g.high[id]; ok {
		return p
	}
	return noPosition()
}

func (g *guard) ack(ctx context.Context, s *reroute.Segment, to Position) {
	h := g.hold(ctx, s)
	if h == nil || to.Compare(h.acked) <= 0 && !h.failed.Swap(false) {
		return
	}
	h.acked = to
	h.consumer.AckCumulative(to, func(err error) {
		if err = ackError(err); err != nil {
			h.failed.Store(true)
			g.log.Debug("guard not moved", "segment", s.ID, "to", to, "error", err)
		}
	})
}

// release moves the guard to the end of a sealed segment, once. A lane that
// still may have parts there above its frontier lists it in its record.
func (g *guard) release(ctx context.Context, s *reroute.Segment) {
	id := targetID(s)
	if g.released[id] {
		return
	}
	h := g.hold(ctx, s)
	if h == nil {
		return
	}
	if err := h.consumer.Seek(ctx, pulsar.Latest()); err != nil {
		g.log.Debug("guard not released, trying again", "segment", s.ID, "error", err)
		return
	}
	g.released[id] = true
	g.log.Info("guard released a sealed segment", "segment", s.ID)
}

// hold returns the consumer on a segment, attached anew if it died.
func (g *guard) hold(ctx context.Context, s *reroute.Segment) *guardHold {
	id := targetID(s)
	if h := g.held[id]; h != nil {
		if !isClosed(h.closed) {
			return h
		}
		delete(g.held, id)
	}
	h := &guardHold{closed: make(chan struct{}), acked: noPosition()}
	consumer, err := subscribeSegment(ctx, g.env.Target.Client, s.Topic(g.env.Target.Topic), s.Sealed,
		GuardName(g.env.Subscription), g.env.Instance, guardEvents{hold: h})
	if err != nil {
		g.log.Debug("guard not attached", "segment", s.ID, "error", err)
		return nil
	}
	h.consumer = consumer
	g.held[id] = h
	return h
}

// forget lets go of segments that left the layout.
func (g *guard) forget(l *reroute.Layout) {
	gone := func(id TargetID) bool {
		s := l.Segment(id.Segment)
		return s == nil || s.CreatedAtMs != id.CreatedAtMs
	}
	for id, h := range g.held {
		if gone(id) {
			h.consumer.Leave()
			delete(g.held, id)
		}
	}
	maps.DeleteFunc(g.high, func(id TargetID, _ Position) bool { return gone(id) })
	maps.DeleteFunc(g.released, func(id TargetID, _ bool) bool { return gone(id) })
	maps.DeleteFunc(g.idle, func(id TargetID, _ bool) bool { return gone(id) })
}

func (g *guard) closeAll() {
	var closing sync.WaitGroup
	for _, h := range g.held {
		closing.Go(h.consumer.Leave)
	}
	closing.Wait()
}

type guardEvents struct {
	deaf
	hold *guardHold
}

func (e guardEvents) Closed(error) { close(e.hold.closed) }
