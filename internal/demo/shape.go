package demo

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/geobridge/geobridge/internal/pulsartest"
)

// bounds keep a layout readable.
type bounds struct {
	least, most int // active segments
	buckets     int // of all of them together
	rebuckets   []int
}

// step is a change of a layout that could be made.
type step struct {
	kind    string // split, merge or rebucket
	id      uint64
	other   uint64 // of merge
	buckets int    // of rebucket
}

// steps lists what keeps an active layout in its bounds.
func (b bounds) steps(active []pulsartest.Segment) (out []step) {
	total := 0
	for _, s := range active {
		total += len(s.Splits) + 1
	}
	for i, s := range active {
		own := len(s.Splits) + 1
		halves := 2 * max(own/2, 1)
		if len(active) < b.most && s.End-s.Start > 0x0fff && total-own+halves <= b.buckets {
			out = append(out, step{kind: "split", id: s.ID})
		}
		if i+1 < len(active) && len(active) > b.least {
			out = append(out, step{kind: "merge", id: s.ID, other: active[i+1].ID})
		}
		for _, n := range b.rebuckets {
			if n != own && total-own+n <= b.buckets {
				out = append(out, step{kind: "rebucket", id: s.ID, buckets: n})
			}
		}
	}
	return out
}

// choose picks the kind first, since there are more ways to rebucket than to
// merge.
func choose(rng *rand.Rand, all []step) (step, bool) {
	byKind := map[string][]step{}
	var kinds []string
	for _, s := range all {
		if byKind[s.kind] == nil {
			kinds = append(kinds, s.kind)
		}
		byKind[s.kind] = append(byKind[s.kind], s)
	}
	if len(kinds) == 0 {
		return step{}, false
	}
	some := byKind[kinds[rng.IntN(len(kinds))]]
	return some[rng.IntN(len(some))], true
}

// apply makes the change. What a user changed a moment ago may refuse it.
func (s step) apply(c *pulsartest.Cluster, topic string) error {
	switch s.kind {
	case "split":
		return c.Split(topic, s.id)
	case "merge":
		return c.Merge(topic, s.id, s.other)
	}
	return c.Rebucket(topic, s.id, s.buckets)
}

const (
	// changeEvery is the mean time between two changes, of either side.
	changeEvery = 2 * time.Second
	// pruneEvery is how often drained segments go; a real broker takes 60 s.
	pruneEvery = 7 * time.Second
)

// reshape changes the layouts, now of one side, now of the other, until ctx ends.
func reshape(ctx context.Context, seed uint64, sides ...*side) {
	rng := rand.New(rand.NewPCG(seed, 2))
	for n := 0; ; n++ {
		if pause(ctx, changeEvery/2+time.Duration(rng.Int64N(int64(changeEvery)))) != nil {
			return
		}
		s := sides[n%len(sides)]
		l, err := s.cluster.Layout(topic)
		if err != nil {
			continue
		}
		if next, ok := choose(rng, s.bounds.steps(l.Active())); ok {
			_ = next.apply(s.cluster, topic) // it was possible a moment ago
		}
	}
}

// prune lets drained segments go, until ctx ends.
func prune(ctx context.Context, sides ...*side) {
	for pause(ctx, pruneEvery) == nil {
		for _, s := range sides {
			_, _ = s.cluster.Prune(topic) // a topic that a user deleted has none
		}
	}
}
