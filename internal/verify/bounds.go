package verify

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// bounds tell from where on the target holds what a lane has copied. Of each
// target segment the beginning may be trimmed, and a segment may be gone: what a
// lane's first message in a segment says is where comparing begins, for the keys
// of that segment. A key's message counts if any segment of its hash begins at or
// before it. Keyless messages went to any segment, so they count from where all do.
//
// Of what was lost, this hides what comes before a lane's first message in a target
// segment; nobody can tell it from what was trimmed. Where it is known that nothing
// was, untrimmed says so.
//
// Readers of the target fill the bounds while readers of the source ask, who wait
// for an answer as long as there is none. Readers of the target wait for nobody.
type bounds struct {
	untrimmed bool
	sources   []reroute.HashRange // of the lanes
	targets   []reroute.HashRange
	clear     []atomic.Pointer[replicate.Position] // of each lane: from here on everything counts

	mu      sync.RWMutex
	first   [][]replicate.Position // by lane and target; after(): none seen
	done    []bool                 // targets read to the end
	changed chan struct{}          // closed, and made anew, by news
}

func newBounds(sources, targets []*reroute.Segment, untrimmed bool) *bounds {
	b := &bounds{untrimmed: untrimmed, clear: make([]atomic.Pointer[replicate.Position], len(sources)),
		done: make([]bool, len(targets)), changed: make(chan struct{})}
	for _, s := range sources {
		r := s.Range
		if s.Legacy() {
			r = reroute.FullRange() // its keys are anywhere
		}
		b.sources = append(b.sources, r)
		b.first = append(b.first, slices.Repeat([]replicate.Position{after()}, len(targets)))
	}
	for _, s := range targets {
		b.targets = append(b.targets, s.Range)
	}
	for i := range sources {
		b.settle(int32(i))
	}
	return b
}

// saw notes the first message of a lane in a target segment.
func (b *bounds) saw(lane int32, target int, pos replicate.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first[lane][target] = pos
	b.settle(lane)
	b.news()
}

// finished notes that a target segment was read to its end.
func (b *bounds) finished(target int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[target] = true
	b.news()
}

func (b *bounds) news() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// settle finds from where on all messages of a lane count, wherever they went.
func (b *bounds) settle(lane int32) {
	all := b.sources[lane]
	clear := before()
	for at := int(all.Start); at <= int(all.End); {
		first, next := after(), int(all.End)+1
		for t, r := range b.targets {
			switch {
			case r.Contains(uint16(at)):
				if b.first[lane][t].Compare(first) < 0 {
					first = b.first[lane][t]
				}
				next = min(next, int(r.End)+1)
			case int(r.Start) > at:
				next = min(next, int(r.Start))
			}
		}
		if first.Compare(clear) > 0 {
			clear = first
		}
		at = next
	}
	b.clear[lane].Store(&clear)
}

// holds reports whether a message of the source can be expected at the target.
func (b *bounds) holds(ctx context.Context, m *message) (bool, error) {
	for {
		if b.isClear(m) {
			return true, nil
		}
		b.mu.RLock()
		held, decided := b.ask(m)
		changed := b.changed
		b.mu.RUnlock()
		if decided {
			return held, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// counts reports whether all of its lane is known to count from there on.
func (b *bounds) counts(id ident) bool {
	return b.untrimmed || id.pos.Compare(*b.clear[id.lane].Load()) >= 0
}

// isClear is the answer for almost every message.
func (b *bounds) isClear(m *message) bool {
	return b.counts(m.ident) && (b.untrimmed || m.rng == keyless || b.sources[m.lane].Contains(m.hash))
}

// ask goes through the segments that a message may have gone to.
func (b *bounds) ask(m *message) (held, decided bool) {
	if b.isClear(m) {
		return true, true
	}
	decided = true
	for t, r := range b.targets {
		if m.rng == keyless && !r.Overlaps(b.sources[m.lane]) || m.rng != keyless && !r.Contains(m.hash) {
			continue
		}
		first := b.first[m.lane][t]
		if m.rng != keyless && first.Compare(m.pos) <= 0 {
			return true, true
		}
		decided = decided && (b.done[t] || first != after())
	}
	return false, decided
}
