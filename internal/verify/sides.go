package verify

import (
	"context"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
)

// SourceCounts says what was read of the source. All but Entries and Bytes count messages.
type SourceCounts struct {
	Entries      int64 `json:"entries"`
	Bytes        int64 `json:"bytes"`
	Compared     int64 `json:"compared"`
	NotForwarded int64 `json:"not_forwarded"` // replicated ones, those for other clusters
	Parked       int64 `json:"parked"`
	// Trimmed come before the first that the target holds of their lane and range.
	Trimmed int64 `json:"trimmed_at_target"`
	// InFlight counts entries above what the lanes' records say that is copied, at most.
	InFlight int64 `json:"in_flight_entries"`
}

func (c *SourceCounts) add(o *SourceCounts) {
	c.Entries += o.Entries
	c.Bytes += o.Bytes
	c.Compared += o.Compared
	c.NotForwarded += o.NotForwarded
	c.Parked += o.Parked
	c.Trimmed += o.Trimmed
	c.InFlight += o.InFlight
}

// TargetCounts says what was read of the target. All but Entries and Bytes count messages.
type TargetCounts struct {
	Entries  int64 `json:"entries"`
	Bytes    int64 `json:"bytes"`
	Compared int64 `json:"compared"`
	Foreign  int64 `json:"foreign"` // without an identity of the source cluster
	// Other have an identity of the source cluster, of no lane that the source has:
	// of other mappings, and of source segments that are gone.
	Other      int64 `json:"other_lanes"`
	Trimmed    int64 `json:"trimmed_at_source"`
	Parked     int64 `json:"parked"`
	InFlight   int64 `json:"in_flight"`
	Early      int64 `json:"early"`              // keyless, from before the target holds all of their lane
	Unreadable int64 `json:"unreadable_entries"` // damaged: whose they are is not known
}

func (c *TargetCounts) add(o *TargetCounts) {
	c.Entries += o.Entries
	c.Bytes += o.Bytes
	c.Compared += o.Compared
	c.Foreign += o.Foreign
	c.Other += o.Other
	c.Trimmed += o.Trimmed
	c.Parked += o.Parked
	c.InFlight += o.InFlight
	c.Early += o.Early
	c.Unreadable += o.Unreadable
}

// sourceSegment takes the entries of one source segment, in their order.
type sourceSegment struct {
	rules  *replicate.Rules
	lanes  *lanes
	lane   int32
	bounds *bounds
	digest *digester
	visit  func(*message)
	// found, if set, tells whether the target holds a message that is not expected there.
	found func(*message) bool
	// left, if set, is told of those that are not.
	left func(*message)

	counts SourceCounts
}

func messagesOf(m *pulsar.Message) int64 { return int64(max(m.Info.NumMessages, 1)) }

// take compares an entry, which may mean to wait for the target.
func (s *sourceSegment) take(ctx context.Context, m *pulsar.Message) error {
	s.counts.Entries++
	s.counts.Bytes += int64(m.Entry.Size())
	if m.Err == nil {
		if _, skip := s.rules.Skips(&m.Info, m.Entry.Metadata); skip {
			s.counts.NotForwarded += messagesOf(m)
			return nil
		}
	}
	from := origin{lane: s.lane, name: s.lanes.all[s.lane].name, pos: m.ID, total: int(messagesOf(m))}
	all := s.digest.messages(m, from)
	for i := range all {
		x := &all[i]
		if s.lanes.isParked(x.ident) {
			s.counts.Parked += int64(x.n)
			continue
		}
		held, err := s.bounds.holds(ctx, x)
		switch {
		case err != nil:
			return err
		case !held && (s.found == nil || !s.found(x)):
			s.counts.Trimmed += int64(x.n)
			if s.left != nil {
				s.left(x)
			}
		default:
			s.counts.Compared += int64(x.n)
			s.visit(x)
		}
	}
	return nil
}

// targetSegment takes the entries of one target segment, in their order.
type targetSegment struct {
	cluster string // of the source
	lanes   *lanes
	index   int
	segment uint64
	bounds  *bounds
	digest  *digester
	visit   func(*message, place)

	seen    map[int32]bool // lanes; nil: their bounds are known
	only    map[block]bool // what is asked for; nil: all
	indices []int          // memory of the last identity's
	counts  TargetCounts
}

func (t *targetSegment) take(m *pulsar.Message) {
	t.counts.Entries++
	t.counts.Bytes += int64(m.Entry.Size())
	n := messagesOf(m)
	if m.Err != nil {
		t.counts.Unreadable++
		return
	}
	id, err := replicate.ParseIdentityInto(t.indices, m.Info.Identity)
	if id.Indices != nil {
		t.indices = id.Indices
	}
	if m.Info.Identity == nil || err != nil || id.Cluster != t.cluster {
		t.counts.Foreign += n
		return
	}
	lane, known := t.lanes.byName[id.Lane]
	if !known {
		t.counts.Other += n
		return
	}
	if t.seen != nil && !t.seen[lane] {
		t.seen[lane] = true
		t.bounds.saw(lane, t.index, id.Pos)
	}
	l := &t.lanes.all[lane]
	switch {
	case id.Pos.Compare(l.frontier) > 0:
		t.counts.InFlight += n
		return
	case id.Pos.Compare(l.first) < 0:
		t.counts.Trimmed += n
		return
	}
	if t.only != nil && !t.only[blockOf(ident{lane: lane, pos: id.Pos})] {
		return
	}
	at := place{t.segment, m.ID}
	from := origin{lane: lane, name: id.Lane, pos: id.Pos, indices: id.Indices, total: id.Total}
	all := t.digest.messages(m, from)
	for i := range all {
		x := &all[i]
		if t.lanes.isParked(x.ident) {
			t.counts.Parked += int64(x.n)
			continue
		}
		t.counts.Compared += int64(x.n)
		t.visit(x, at)
	}
}
