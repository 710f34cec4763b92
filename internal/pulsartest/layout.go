package pulsartest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Segment is one segment of a scalable topic's layout.
type Segment struct {
	ID                        uint64
	Start, End                uint16 // inclusive
	Sealed                    bool
	Parents, Children         []uint64
	CreatedEpoch, SealedEpoch uint64
	Created, SealedAt         time.Time
	Splits                    []uint16 // start hashes of buckets 1..N-1
}

// Topic is the name of the topic that stores the segment.
func (s *Segment) Topic(scalable string) string {
	return fmt.Sprintf("segment://%s/%04x-%04x-%d", strings.TrimPrefix(scalable, "topic://"), s.Start, s.End, s.ID)
}

// Layout is all segments of a scalable topic at one moment.
type Layout struct {
	Topic    string
	Epoch    uint64
	Segments []Segment // by id
}

// Active are the segments that take entries, by range.
func (l *Layout) Active() []Segment {
	var active []Segment
	for _, s := range l.Segments {
		if !s.Sealed {
			active = append(active, s)
		}
	}
	slices.SortFunc(active, func(a, b Segment) int { return int(a.Start) - int(b.Start) })
	return active
}

func (l *Layout) find(id uint64) *Segment {
	i := slices.IndexFunc(l.Segments, func(s Segment) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &l.Segments[i]
}

func (l *Layout) clone() Layout {
	c := *l
	c.Segments = slices.Clone(l.Segments)
	for i, s := range c.Segments {
		c.Segments[i].Parents, c.Segments[i].Children = slices.Clone(s.Parents), slices.Clone(s.Children)
	}
	return c
}

// bucketSplits are the boundaries of n equal buckets (facts 2.2).
func bucketSplits(n int) []uint16 {
	var splits []uint16
	for i := 1; i < n; i++ {
		splits = append(splits, uint16(i*(1<<16)/n))
	}
	return splits
}

// bucketBudget is what the segments of a new topic share (facts 2.2).
const bucketBudget = 4

// initialSegments are n segments of equal width.
func initialSegments(n int, now time.Time) []Segment {
	var segs []Segment
	for i := range n {
		segs = append(segs, Segment{
			ID: uint64(i), Start: uint16(i * (1 << 16) / n), End: uint16((i+1)*(1<<16)/n - 1),
			Created: now, Splits: bucketSplits(bucketBudget / n),
		})
	}
	return segs
}

// plan is a change of a layout: parents are sealed, children take their place.
type plan struct {
	parents  []uint64
	children []Segment // ID, epochs and parents are not set
}

func (l *Layout) active(id uint64) (*Segment, error) {
	s := l.find(id)
	if s == nil {
		return nil, fmt.Errorf("segment %d of %s: not there", id, l.Topic)
	}
	if s.Sealed {
		return nil, fmt.Errorf("segment %d of %s: sealed already", id, l.Topic)
	}
	return s, nil
}

// planSplit halves a segment and its buckets (facts 2.2).
func (l *Layout) planSplit(id uint64) (plan, error) {
	s, err := l.active(id)
	if err != nil {
		return plan{}, err
	}
	if s.Start == s.End {
		return plan{}, fmt.Errorf("segment %d of %s: one hash cannot be split", id, l.Topic)
	}
	middle := s.Start + (s.End-s.Start)/2
	buckets := max((len(s.Splits)+1)/2, 1)
	return plan{[]uint64{id}, []Segment{
		{Start: s.Start, End: middle, Splits: bucketSplits(buckets)},
		{Start: middle + 1, End: s.End, Splits: bucketSplits(buckets)},
	}}, nil
}

// planMerge joins two neighbours; their buckets add up (facts 2.2).
func (l *Layout) planMerge(a, b uint64) (plan, error) {
	left, err := l.active(a)
	if err != nil {
		return plan{}, err
	}
	right, err := l.active(b)
	if err != nil {
		return plan{}, err
	}
	if left.Start > right.Start {
		left, right = right, left
	}
	if int(left.End)+1 != int(right.Start) {
		return plan{}, fmt.Errorf("segments %d and %d of %s are no neighbours", a, b, l.Topic)
	}
	buckets := len(left.Splits) + len(right.Splits) + 2
	return plan{[]uint64{a, b}, []Segment{{Start: left.Start, End: right.End, Splits: bucketSplits(buckets)}}}, nil
}

// planRebucket gives a segment a successor of the same range (facts 13).
func (l *Layout) planRebucket(id uint64, buckets int) (plan, error) {
	s, err := l.active(id)
	if err != nil {
		return plan{}, err
	}
	if buckets < 1 || buckets > 1024 {
		return plan{}, fmt.Errorf("%d buckets: want 1 to 1024", buckets)
	}
	return plan{[]uint64{id}, []Segment{{Start: s.Start, End: s.End, Splits: bucketSplits(buckets)}}}, nil
}

// apply makes the next layout; first is the id of the first child.
func (l *Layout) apply(p plan, first uint64, now time.Time) {
	l.Epoch++
	for i, child := range p.children {
		child.ID, child.Parents = first+uint64(i), slices.Clone(p.parents)
		child.CreatedEpoch, child.Created = l.Epoch, now
		l.Segments = append(l.Segments, child)
		for _, id := range p.parents {
			parent := l.find(id)
			parent.Sealed, parent.SealedEpoch, parent.SealedAt = true, l.Epoch, now
			parent.Children = append(parent.Children, child.ID)
		}
	}
}

// remove drops a pruned segment, and what names it (facts 2.4).
func (l *Layout) remove(id uint64) {
	l.Epoch++
	l.Segments = slices.DeleteFunc(l.Segments, func(s Segment) bool { return s.ID == id })
	for i := range l.Segments {
		s := &l.Segments[i]
		s.Parents = slices.DeleteFunc(s.Parents, func(p uint64) bool { return p == id })
		s.Children = slices.DeleteFunc(s.Children, func(p uint64) bool { return p == id })
	}
}
