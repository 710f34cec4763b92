package reroute

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// ErrNotMigrated is in the chain of NewLayout's error for a layout with an
// active legacy segment: the synthetic one that brokers answer for a classic
// topic. Its keys are not placed by range, so routing by range would misplace
// them.
var ErrNotMigrated = errors.New("classic topic not migrated to a scalable one")

// Layout is one epoch of a scalable topic's segments. It is immutable and safe
// for concurrent use; so are the segments and slices it hands out, which
// callers must not change.
type Layout struct {
	Topic string
	Epoch uint64

	byID   []*Segment
	active []*Segment // by range start; tiles the ring
}

// NewLayout checks and copies the segments. Active ones must tile 0000-ffff;
// the error names the hole or the overlap. Sealed ones may lie anywhere, and
// their parents may be gone (pruned).
func NewLayout(topic string, epoch uint64, segs []Segment) (*Layout, error) {
	l := &Layout{Topic: topic, Epoch: epoch, byID: make([]*Segment, 0, len(segs))}
	for i := range segs {
		if err := segs[i].validate(); err != nil {
			return nil, fmt.Errorf("layout of %s, epoch %d: %w", topic, epoch, err)
		}
		s := segs[i].clone()
		l.byID = append(l.byID, s)
		if !s.Sealed {
			l.active = append(l.active, s)
		}
	}
	slices.SortFunc(l.byID, func(a, b *Segment) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(l.active, func(a, b *Segment) int { return int(a.Range.Start) - int(b.Range.Start) })
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("layout of %s, epoch %d: %w", topic, epoch, err)
	}
	return l, nil
}

func (l *Layout) check() error {
	for i := 1; i < len(l.byID); i++ {
		if l.byID[i-1].ID == l.byID[i].ID {
			return fmt.Errorf("segment %d is there twice", l.byID[i].ID)
		}
	}
	next := 0 // the first hash not covered yet
	for i, s := range l.active {
		if start := int(s.Range.Start); start > next {
			return fmt.Errorf("no active segment covers %v", HashRange{Start: uint16(next), End: uint16(start - 1)})
		} else if start < next {
			shared := HashRange{Start: s.Range.Start, End: min(s.Range.End, l.active[i-1].Range.End)}
			return fmt.Errorf("active segments %d and %d overlap in %v", l.active[i-1].ID, s.ID, shared)
		}
		next = int(s.Range.End) + 1
	}
	if next <= 0xFFFF {
		return fmt.Errorf("no active segment covers %v", HashRange{Start: uint16(next), End: 0xFFFF})
	}
	return nil
}

// Segments are all segments, sealed ones too, by id.
func (l *Layout) Segments() []*Segment { return l.byID }

// Active are the segments that take new messages, by range start.
func (l *Layout) Active() []*Segment { return l.active }

// Segment is the segment of that id, nil if it is not in the layout (pruned).
func (l *Layout) Segment(id uint64) *Segment {
	i := sort.Search(len(l.byID), func(i int) bool { return l.byID[i].ID >= id })
	if i == len(l.byID) || l.byID[i].ID != id {
		return nil
	}
	return l.byID[i]
}

// ActiveAt is the active segment that takes keys of segment hash h.
func (l *Layout) ActiveAt(h uint16) *Segment { return l.active[l.activeIndex(h)] }

func (l *Layout) activeIndex(h uint16) int {
	return sort.Search(len(l.active), func(i int) bool { return l.active[i].Range.End >= h })
}

// Covering are the active segments that overlap r, by range start; at least
// one, unless r ends before it starts.
func (l *Layout) Covering(r HashRange) []*Segment {
	if r.Start > r.End {
		return nil
	}
	from, to := l.activeIndex(r.Start), l.activeIndex(r.End)
	return l.active[from : to+1 : to+1]
}
