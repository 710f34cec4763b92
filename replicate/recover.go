package replicate

import "slices"

// recover claims every target that the record lists and the layout still has,
// sealed ones too where parts may be stored there that nobody knows of. What seems
// to be gone is believed once it is proven that nobody has deposed this holder.
func (m *Machine) recover(proven bool) {
	if m.layout == nil || m.hold != "" {
		return
	}
	if m.behind = m.unknown(); m.behind != nil {
		return
	}
	if !proven && slices.ContainsFunc(m.record.Floors, m.misses) {
		seen := m.layout // of a newer one the receipt says nothing
		m.prove(func() {
			if m.state == Recovering && len(m.targets) == 0 && m.layout == seen {
				m.recover(true)
			}
		})
		return
	}
	for _, f := range slices.Clone(m.record.Floors) {
		s := m.layout.Segment(f.Segment)
		switch {
		case s != nil && m.unsure && s.CreatedAtMs != f.CreatedAtMs && remade(m.layout, f.TargetID):
			m.inherit(f, s)
			continue
		case m.misses(f) && !m.lose(f.TargetID, whyPruned):
			return
		case s == nil || s.CreatedAtMs != f.CreatedAtMs || s.Sealed && !m.unsure:
			m.record.dropFloor(f.TargetID)
			continue
		}
		t := m.target(s)
		t.unsettled = m.unsure
		t.see(f.Pos)
	}
	m.reclaimed = true
	m.recoverParked()
	m.recovered()
}

// misses reports whether evidence is gone with a segment that the record lists.
func (m *Machine) misses(f Floor) bool {
	s := m.layout.Segment(f.Segment)
	gone := evidence{doubt: m.unsure, there: s != nil && s.CreatedAtMs == f.CreatedAtMs, floor: f.Pos, remade: remade(m.layout, f.TargetID)}
	return !gone.there && gone.lost()
}

// unknown returns a segment that the record lists and the layout has not heard of
// yet: whoever wrote the record knew a newer one.
func (m *Machine) unknown() *Floor {
	for i, f := range m.record.Floors {
		s := m.layout.Segment(f.Segment)
		if (s == nil || s.CreatedAtMs != f.CreatedAtMs) && !left(m.layout, f.TargetID) {
			return &m.record.Floors[i]
		}
	}
	return nil
}

// recovered starts the copy when no claim is outstanding.
func (m *Machine) recovered() {
	if m.state != Recovering || m.layout == nil || !m.reclaimed || m.behind != nil || m.hold != "" {
		return
	}
	for _, t := range m.targets {
		if t.state == targetClaiming || t.state == targetScanning || t.state == targetDeclaring {
			return
		}
	}
	if m.parking.state == parkingTaking || m.parking.state == parkingDeclaring {
		return
	}
	m.unsure = false
	m.enter(Running)
	m.progress()
}
