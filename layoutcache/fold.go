package layoutcache

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// Fold applies one update to a snapshot (nil: nothing known yet). It answers the
// next snapshot and whether its contents differ; if not, next is prev itself,
// since brokers repeat updates at will (facts 2.4). An update applies if its
// epoch is at least the last one's: same-epoch updates carry news. An older one
// of the same incarnation is ignored and noted in Err. An update that cannot be
// a layout leaves the last layout in place, with the reason in Err.
func Fold(prev *Snapshot, u Update) (next *Snapshot, changed bool) {
	if prev == nil {
		prev = &Snapshot{}
	}
	switch {
	case errors.Is(u.Err, ErrTopicNotFound) && prev.State == Missing && errors.Is(prev.Err, ErrTopicNotFound):
		return prev, false // found missing again, in whatever words
	case errors.Is(u.Err, ErrTopicNotFound):
		next = prev.missing(u.Err)
	case u.Err != nil:
		next = prev.failed(u.Err)
	default:
		next = prev.apply(u)
	}
	if next.equal(prev) {
		return prev, false
	}
	return next, true
}

func (s *Snapshot) apply(u Update) *Snapshot {
	topic := u.Topic
	if topic == "" {
		topic = s.Topic
	}
	layout, err := reroute.NewLayout(topic, u.Epoch, u.Segments)
	if err != nil {
		return s.failed(err)
	}
	next := &Snapshot{Topic: topic, State: Live, Incarnation: s.Incarnation,
		Brokers: maps.Clone(u.Brokers), ControllerURL: u.ControllerURL}
	switch relate(s, layout) {
	case stale:
		return s.failed(fmt.Errorf("%w: epoch %d after %d", ErrStaleLayout, u.Epoch, s.last.Epoch))
	case another:
		next.Incarnation++
	case same:
		if equalLayouts(s.last, layout) {
			layout = s.last
		}
	}
	next.Layout, next.last = layout, layout
	return next
}

// relation is what an arriving layout is to the last one.
type relation int

const (
	same    relation = iota // of the same incarnation, and not older
	stale                   // of the same incarnation, and older
	another                 // of another incarnation, or the first
)

// relate tells incarnations apart by what a recreated topic cannot keep: the
// creation time of a segment id, and the order of ids, which only grow with the
// epoch. Creation times are compared for equality, except for an older epoch
// without any segment in common: there a layout with something created later
// than all that is known is another topic, not an old view of this one.
func relate(prev *Snapshot, next *reroute.Layout) relation {
	last := prev.last
	if last == nil {
		return another
	}
	shared := false
	for _, s := range next.Segments() {
		known := last.Segment(s.ID)
		if known == nil {
			continue
		}
		if known.CreatedAtMs != s.CreatedAtMs {
			return another
		}
		shared = true
	}
	switch {
	case prev.State == Missing && shared:
		return same // a false alarm: whatever the epoch, it was looked up anew
	case prev.State == Missing, !shared && next.Epoch == last.Epoch:
		return another
	case next.Epoch >= last.Epoch:
		if newestID(next) < newestID(last) {
			return another
		}
		return same
	case newestID(next) > newestID(last), !shared && newestTime(next) > newestTime(last):
		return another
	}
	return stale
}

func newestID(l *reroute.Layout) uint64 {
	segs := l.Segments()
	return segs[len(segs)-1].ID
}

func newestTime(l *reroute.Layout) (ms int64) {
	for _, s := range l.Segments() {
		ms = max(ms, s.CreatedAtMs)
	}
	return ms
}

func equalLayouts(a, b *reroute.Layout) bool {
	return a.Topic == b.Topic && a.Epoch == b.Epoch &&
		slices.EqualFunc(a.Segments(), b.Segments(), equalSegments)
}

func equalSegments(a, b *reroute.Segment) bool {
	return a.ID == b.ID && a.Range == b.Range && a.Sealed == b.Sealed && a.LegacyTopic == b.LegacyTopic &&
		a.CreatedAtMs == b.CreatedAtMs && a.SealedAtMs == b.SealedAtMs && slices.Equal(a.Splits, b.Splits) &&
		slices.Equal(a.Parents, b.Parents) && slices.Equal(a.Children, b.Children)
}
