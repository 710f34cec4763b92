package replicate

import "github.com/geobridge/geobridge/reroute"

// inherit is for a topic that was made again. Brokers give it what is left of the one
// before, where a segment's name is the same (scenario RecreateOverOrphans): what was
// stored there last may be there still. Else nothing is found. Until that is known,
// the record lists the segment as it was.
func (m *Machine) inherit(f Floor, heir *reroute.Segment) {
	t := m.target(heir)
	t.unsettled = true
	t.see(f.Pos)
	switch {
	case t.before == nil:
		t.before = &f
	case f.Pos.Compare(t.before.Pos) < 0:
		m.record.dropFloor(t.before.TargetID)
		t.before = &f
	default:
		m.record.dropFloor(f.TargetID)
	}
}

// inherited: it is known now, and the record lists the segment as it is. Its log
// begins after a position: a new one, far above what was listed.
func (m *Machine) inherited(t *target, begins Position) {
	if t.before == nil {
		return
	}
	pos := t.before.Pos
	if begins.Compare(pos) > 0 {
		pos = begins
	}
	m.record.dropFloor(t.before.TargetID)
	m.record.dropFloor(t.id)
	m.record.Floors = append(m.record.Floors, Floor{Topic: m.cfg.TargetTopic, TargetID: t.id, Pos: pos})
	t.before = nil
}
