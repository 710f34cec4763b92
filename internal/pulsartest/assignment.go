package pulsartest

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// assigned is one segment of a consumer's assignment: its own, or shared by bucket.
type assigned struct {
	segment *Segment
	shared  bool
}

// assignable are the segments that a group may read now, by range: not the drained
// sealed ones, and nothing before all its ancestors are drained (facts 3.3). Those
// that were pruned count as drained.
func assignable(l *Layout, drained map[uint64]bool) []*Segment {
	var all []*Segment
	for i := range l.Segments {
		s := &l.Segments[i]
		if (!s.Sealed || !drained[s.ID]) && ancestorsDrained(l, s, drained) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *Segment) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.ID, b.ID))
	})
	return all
}

func ancestorsDrained(l *Layout, s *Segment, drained map[uint64]bool) bool {
	for _, id := range s.Parents {
		if parent := l.find(id); parent != nil && (!drained[id] || !ancestorsDrained(l, parent, drained)) {
			return false
		}
	}
	return true
}

// divide gives each of the consumers, which come in order, its segments (facts 4.1).
// As long as there are enough of them, segments go round, whole. Else those with
// more buckets take more consumers, one after the other, each at most as many as it
// has buckets; whoever is left gets nothing.
func divide(segments []*Segment, consumers []string) map[string][]assigned {
	given := map[string][]assigned{}
	if len(consumers) == 0 {
		return given
	}
	if len(consumers) <= len(segments) {
		for i, s := range segments {
			name := consumers[i%len(consumers)]
			given[name] = append(given[name], assigned{segment: s})
		}
		return given
	}
	for i, n := range sharers(segments, len(consumers)) {
		for _, name := range consumers[:n] {
			given[name] = []assigned{{segments[i], n > 1}}
		}
		consumers = consumers[n:]
	}
	return given
}

// sharers is how many consumers each segment gets.
func sharers(segments []*Segment, consumers int) []int {
	counts := make([]int, len(segments))
	for more := true; more && consumers > 0; {
		more = false
		for i, s := range segments {
			if consumers > 0 && counts[i] < s.Buckets() {
				counts[i]++
				consumers--
				more = true
			}
		}
	}
	return counts
}

func assignmentOf(l *Layout, own []assigned) *pulsarpb.ScalableConsumerAssignment {
	a := &pulsarpb.ScalableConsumerAssignment{LayoutEpoch: proto.Uint64(l.Epoch)}
	for _, o := range own {
		s := &pulsarpb.ScalableAssignedSegment{
			SegmentId: proto.Uint64(o.segment.ID), HashStart: proto.Uint32(uint32(o.segment.Start)), HashEnd: proto.Uint32(uint32(o.segment.End)),
			SegmentTopic: proto.String(o.segment.Topic(l.Topic)),
		}
		if o.shared {
			for _, b := range bucketsOf(o.segment.Splits) {
				s.BucketRanges = append(s.BucketRanges, &pulsarpb.IntRange{Start: proto.Int32(int32(b.start)), End: proto.Int32(int32(b.end))})
			}
		}
		a.Segments = append(a.Segments, s)
	}
	return a
}

// Buckets is how many entry buckets the segment has.
func (s *Segment) Buckets() int { return len(s.Splits) + 1 }

// bucket is a range of the hashes that stamps are made of, inclusive.
type bucket struct{ start, end uint16 }

func bucketsOf(splits []uint16) []bucket {
	all := make([]bucket, 0, len(splits)+1)
	start := uint16(0)
	for _, split := range splits {
		all = append(all, bucket{start, split - 1})
		start = split
	}
	return append(all, bucket{start, 0xffff})
}

// names are the keys of a map, in order.
func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
