package verify

import (
	"sync"
	"sync/atomic"

	"github.com/geobridge/geobridge/replicate"
)

// place is where an entry is stored at the target.
type place struct {
	segment uint64
	pos     replicate.Position
}

// order checks, for each key, that identities rise at the target. The order of a
// key at the source is that of its lanes along the lineage, and in each of them
// that of positions and indices, so the source need not be read for it. Segments
// of the target must be given parents first; others may be given at the same time.
//
// It follows the keys of some ranges. Where those are too many, it lets go of
// whole ranges, from the last one down: pending tells which, for another order to
// follow.
type order struct {
	lanes  *lanes
	limit  int64 // keys
	keys   atomic.Int64
	shards [keyless]orderShard

	mu   sync.Mutex
	last int           // the highest range that is followed; -1: none
	gone [keyless]bool // let go of
}

type orderShard struct {
	mu       sync.Mutex
	followed bool
	keys     map[uint64]standing
	late     int64 // messages
}

// standing is how far a key is.
type standing struct {
	ident
	at place
}

// newOrder follows the keys of ranges, of at most limit keys at a time.
func newOrder(l *lanes, limit int64, follow func(rng int) bool) *order {
	o := &order{lanes: l, limit: limit, last: -1}
	for i := range o.shards {
		if follow(i) {
			o.shards[i] = orderShard{followed: true, keys: map[uint64]standing{}}
			o.last = i
		}
	}
	return o
}

// see takes the next message of its key. It reports false, and what the key was
// at, if that should have come after the message.
func (o *order) see(m *message, at place) (before standing, ok bool) {
	if m.rng == keyless {
		return before, true
	}
	before, known, ok := o.place(m, at)
	if !known && ok && o.keys.Load() > o.limit {
		o.shrink()
	}
	return before, ok
}

func (o *order) place(m *message, at place) (before standing, known, ok bool) {
	key := m.key
	if !o.lanes.all[m.lane].segment.Range.Contains(m.hash) {
		// In a segment that is not its own, a key has no order beyond that one.
		key ^= 0x9e3779b97f4a7c15 * uint64(m.lane+1)
	}
	s := &o.shards[m.rng]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.followed {
		return before, true, true
	}
	before, known = s.keys[key]
	if known && !o.lanes.less(before.ident, m.ident) {
		s.late++
		return before, true, false
	}
	if !known {
		o.keys.Add(1)
	}
	s.keys[key] = standing{m.ident, at}
	return before, known, true
}

// shrink lets go of ranges until the keys are few enough, but never of the last.
func (o *order) shrink() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.keys.Load() > o.limit {
		next := o.last - 1
		for next >= 0 && !o.follows(next) {
			next--
		}
		if next < 0 {
			return
		}
		s := &o.shards[o.last]
		s.mu.Lock()
		o.keys.Add(-int64(len(s.keys)))
		s.followed, s.keys, s.late = false, nil, 0
		s.mu.Unlock()
		o.gone[o.last] = true
		o.last = next
	}
}

func (o *order) follows(rng int) bool {
	s := &o.shards[rng]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followed
}

// pending reports whether a range was let go of.
func (o *order) pending(rng int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone[rng]
}
