package status

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// TickLimit is how old the last tick of a part may be before the process counts as unhealthy.
const TickLimit = 60 * time.Second

// Options names what a Board shows from the start.
type Options struct {
	// Version of geobridge, and the hash of its configuration.
	Version, ConfigHash   string
	Group, Instance, Pair string
	// Clusters and Mappings need their names and ends only.
	Clusters []Cluster
	Mappings []Mapping
	// Now is the clock, for tests; nil is [time.Now]. It is used for display and for ticks.
	Now func() time.Time
}

// Board is the state of everything. All methods may be called concurrently. What is reported about a name that was not
// in Options is ignored: it went with a reload.
type Board struct {
	now func() time.Time

	mu       sync.Mutex
	head     Report
	clusters []*Cluster
	mappings []*mapping
	ticks    map[string]time.Time
	latched  bool
}

type mapping struct {
	Mapping
	own   bool // State was reported for the mapping as a whole
	lanes map[string]*Lane
}

// NewBoard returns a board on which clusters are connecting and mappings are starting.
func NewBoard(o Options) *Board {
	b := &Board{now: o.Now, ticks: map[string]time.Time{}}
	if b.now == nil {
		b.now = time.Now
	}
	now := b.now()
	b.head = Report{
		Schema: Schema, Version: o.Version, ConfigHash: o.ConfigHash,
		Group: o.Group, Instance: o.Instance, Pair: o.Pair, Started: now,
	}
	for _, c := range o.Clusters {
		c.State, c.Since = Connecting, now
		b.clusters = append(b.clusters, &c)
	}
	for _, m := range o.Mappings {
		m.State, m.Since, m.Lanes = Starting, now, nil
		b.mappings = append(b.mappings, &mapping{Mapping: m, own: true, lanes: map[string]*Lane{}})
	}
	return b
}

// SetCluster reports how a cluster is reached. The reason stays empty when it is connected.
func (b *Board) SetCluster(name string, s ClusterState, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.clusters {
		if c.Name != name {
			continue
		}
		if c.State != s {
			c.Since = b.now()
		}
		c.State, c.Reason = s, reason
		c.EverConnected = c.EverConnected || s == Connected
	}
}

// SetMapping reports about a mapping as a whole, which then hides its lanes' states until [Board.ClearMapping].
func (b *Board) SetMapping(name string, s State, reason string) {
	b.withMapping(name, func(m *mapping) {
		if !m.own || m.State != s {
			m.Since = b.now()
		}
		m.own, m.State, m.Reason = true, s, reason
	})
}

// ClearMapping leaves it to the lanes to say how the mapping does.
func (b *Board) ClearMapping(name string) {
	b.withMapping(name, func(m *mapping) {
		if m.own {
			m.own, m.Since = false, b.now()
		}
	})
}

// maxNotes is how many notes of a mapping are kept.
const maxNotes = 20

// Note keeps something that happened to a mapping and is over.
func (b *Board) Note(name, text string) {
	b.withMapping(name, func(m *mapping) {
		m.Notes = append(m.Notes, Note{b.now(), text})
		m.Notes = m.Notes[max(len(m.Notes)-maxNotes, 0):]
	})
}

// SetLane reports about a lane, which is new if its id is.
func (b *Board) SetLane(mappingName, id string, s State, reason string, facts LaneFacts) {
	b.withMapping(mappingName, func(m *mapping) {
		l := m.lanes[id]
		if l == nil {
			l = &Lane{ID: id}
			m.lanes[id] = l
		}
		if l.State != s {
			l.Since = b.now()
		}
		l.State, l.Reason, l.LaneFacts = s, reason, facts
	})
}

// RemoveLane forgets a lane that is finished or gone.
func (b *Board) RemoveLane(mappingName, id string) {
	b.withMapping(mappingName, func(m *mapping) { delete(m.lanes, id) })
}

func (b *Board) withMapping(name string, do func(*mapping)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.mappings {
		if m.Name == name {
			do(m)
		}
	}
}

// SetStopping reports that the process drains and ends; there is no way back.
func (b *Board) SetStopping() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.head.Stopping = true
}

// Tick says that a part (the supervisor, a lane's driver) goes round. A part that has ticked once must go on at
// intervals well below [TickLimit], until [Board.Untick].
func (b *Board) Tick(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ticks[part] = b.now()
}

// Untick forgets a part that has ended as it should.
func (b *Board) Untick(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ticks, part)
}

// Report returns a copy of everything.
func (b *Board) Report() Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.head
	r.Clusters, r.Mappings = []Cluster{}, []Mapping{}
	for _, c := range b.clusters {
		r.Clusters = append(r.Clusters, *c)
	}
	for _, m := range b.mappings {
		r.Mappings = append(r.Mappings, m.report())
	}
	r.Ready = b.readyLocked(r)
	r.Healthy = len(b.silentLocked()) == 0
	return r
}

// report returns the mapping with its lanes in order, and with the worst lane's state where it has none of its own.
func (m *mapping) report() Mapping {
	out := m.Mapping
	out.Lanes, out.Notes = []Lane{}, slices.Clone(m.Notes)
	for _, l := range m.lanes {
		out.Lanes = append(out.Lanes, *l)
	}
	slices.SortFunc(out.Lanes, func(a, b Lane) int { return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.ID, b.ID)) })
	if m.own {
		return out
	}
	out.State, out.Reason = Starting, ""
	for i, l := range out.Lanes {
		if i == 0 || worse(l.State, out.State) {
			out.State, out.Reason, out.Since = l.State, l.Reason, l.Since
		}
	}
	return out
}

// silentLocked lists the parts that have not ticked for too long.
func (b *Board) silentLocked() []string {
	now := b.now()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.ticks)), func(part string) bool {
		return now.Sub(b.ticks[part]) <= TickLimit
	})
}
