package replicate

import "slices"

// settled: each part sent here has its receipt, or is known to be stored or not.
func (t *target) settled() bool { return t.sent == 0 && !t.unsettled }

// scan asks what of this lane is stored in a target between its floor and pos:
// SETTLE. Nothing older can land there any more.
func (m *Machine) scan(t *target, pos Position) {
	t.state, t.suspected = targetScanning, false
	ef := Effect{Kind: efScan, Target: t.id, Segment: t.segment, Gen: t.gen, From: noPosition(), Pos: pos}
	if f := m.record.floor(t.id); f != nil {
		ef.From = f.Pos
	}
	if t.before != nil {
		ef.From = t.before.Pos
	}
	m.emit(ef)
}

// onScanned: now everything is known. Parts that were found have arrived; those
// that were not go out again, when the record that proves the epoch is stored.
func (m *Machine) onScanned(ev Event) {
	t := m.targets[ev.Target]
	if t == nil || t.state != targetScanning || ev.Gen != t.gen {
		return
	}
	e := evidence{doubt: !t.settled(), there: true, remade: t.before != nil, begins: ev.Pos, floor: ev.Pos}
	if f := m.record.floor(t.id); f != nil {
		e.floor = f.Pos
	}
	if e.lost() {
		m.suspect(t, whyTrimmed, func() { m.settled(t, ev) })
		return
	}
	m.settled(t, ev)
}

// settled: what is stored in a target is known.
func (m *Machine) settled(t *target, ev Event) {
	m.inherited(t, ev.Pos)
	n := 0
	for i := range ev.Found {
		n += m.found(t, &ev.Found[i])
	}
	if n > 0 {
		m.emit(Effect{Kind: efPresent, N: n})
	}
	t.unsettled, t.sent, t.trouble = false, 0, nil
	m.declare(t)
	m.adopt()
	m.progress()
}

// found takes one stored part that a scan met; it returns the number of its
// messages that need not be sent again in this session.
func (m *Machine) found(t *target, f *found) int {
	if f.source.Compare(m.entries.frontier) <= 0 {
		return 0
	}
	i := slices.IndexFunc(t.queue[:t.sent], f.holds)
	switch {
	case i >= 0:
		n := t.queue[i].messages
		m.landed(t, i, f.at)
		return n
	case t.unsettled: // of an earlier session; its entry comes again
		m.present.add(*f)
		t.landed = append(t.landed, landing{f.source, f.at})
		t.see(f.at)
	}
	return 0 // known already
}
