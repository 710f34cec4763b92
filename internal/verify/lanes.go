package verify

import (
	"cmp"
	"maps"
	"slices"

	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// lane is one source segment, as geobridge copies it.
type lane struct {
	name    string // N(L)
	segment *reroute.Segment
	rank    int // rises along the lineage
	// frontier is what the lane's record says that is copied, nothing above it.
	frontier replicate.Position
	// first is the first entry that the source still holds.
	first replicate.Position
	// parked are the messages that geobridge set aside, by entry; nil: all of it.
	parked map[replicate.Position][]int
}

// lanes are those of a mapping's source layout. They do not change while a side is read.
type lanes struct {
	all    []lane
	byName map[string]int32
}

// newLanes lists the segments of the source. Nothing is copied until a record says so.
func newLanes(l *reroute.Layout, id func(*reroute.Segment) replicate.LaneID) *lanes {
	out := &lanes{byName: map[string]int32{}}
	ranks := generations(l)
	for _, s := range l.Segments() {
		name := id(s).Name()
		out.byName[name] = int32(len(out.all))
		out.all = append(out.all, lane{name: name, segment: s, rank: ranks[s.ID], frontier: before(), first: after(), parked: map[replicate.Position][]int{}})
	}
	return out
}

// before sorts before every entry, after behind.
func before() replicate.Position { return replicate.Position{Ledger: -1, Entry: -1} }
func after() replicate.Position {
	return replicate.Position{Ledger: 1<<63 - 1, Entry: 1<<63 - 1}
}

// generations numbers segments so that children come after their parents.
func generations(l *reroute.Layout) map[uint64]int {
	depth := map[uint64]int{}
	var of func(s *reroute.Segment) int
	of = func(s *reroute.Segment) int {
		if d, known := depth[s.ID]; known {
			return d
		}
		depth[s.ID] = 0 // ends a cycle, which no broker makes
		d := 0
		for _, id := range s.Parents {
			if p := l.Segment(id); p != nil {
				d = max(d, of(p)+1)
			}
		}
		depth[s.ID] = d
		return d
	}
	for _, s := range l.Segments() {
		of(s)
	}
	ids := slices.SortedFunc(maps.Keys(depth), func(a, b uint64) int { return cmp.Or(cmp.Compare(depth[a], depth[b]), cmp.Compare(a, b)) })
	ranks := make(map[uint64]int, len(ids))
	for rank, id := range ids {
		ranks[id] = rank
	}
	return ranks
}

// less reports whether a stands before b at the source.
func (l *lanes) less(a, b ident) bool {
	return cmp.Or(cmp.Compare(l.all[a.lane].rank, l.all[b.lane].rank), a.pos.Compare(b.pos), cmp.Compare(a.index, b.index)) < 0
}

// park notes what an entry of the parking topic says of a lane.
func (l *lanes) park(id replicate.Identity) {
	n, ours := l.byName[id.Lane]
	if !ours {
		return
	}
	parked := l.all[n].parked
	if old, known := parked[id.Pos]; id.Indices == nil || known && old == nil {
		parked[id.Pos] = nil
		return
	}
	parked[id.Pos] = append(parked[id.Pos], id.Indices...)
}

// isParked reports whether a message was set aside.
func (l *lanes) isParked(id ident) bool {
	indices, known := l.all[id.lane].parked[id.pos]
	return known && (indices == nil || slices.Contains(indices, int(id.index)))
}
