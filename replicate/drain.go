package replicate

// drain stops reading. Entries that were begun are brought to their end; those
// that were not are left to whoever opens the lane next.
func (m *Machine) drain() {
	for _, e := range m.entries.queue[m.entries.uncut:] {
		m.drop(e)
	}
	m.entries.queue = m.entries.begun()
	m.enter(Draining)
	for _, t := range m.targets {
		if t.lost {
			m.abandon(t)
		}
	}
	if m.handover {
		m.pending = nil
		// The successor waits for the names: a lost connection or a seal ends the wait.
		for _, t := range m.targets {
			if t.state != targetOpen && (t.state != targetDeclaring || t.terminated) {
				m.abandon(t)
			}
			m.flush(t)
		}
	}
	m.progress()
}

// onResume ends a session that holds by policy. The next one is told what an
// operator accepts.
func (m *Machine) onResume(Event) {
	switch {
	case !m.loss:
	case m.state == Claiming:
		m.leave(Event{})
	default:
		m.drain()
	}
}

// settle goes on when nothing is on its way any more.
func (m *Machine) settle() {
	if waiting := len(m.parking.waiting) > 0; waiting && m.handover {
		m.abandoned = true // what is not parked yet is parked by the successor
	} else if waiting || m.pending != nil {
		return
	}
	for _, t := range m.targets {
		if len(t.queue) > 0 {
			return
		}
	}
	m.finish()
}

// finish writes the last record: clean only if nothing above the frontier is
// stored, and nothing was left in doubt, now or by an earlier holder.
func (m *Machine) finish() {
	m.enter(Settling)
	if m.record.Finished {
		m.record.Floors = nil // nothing is above the frontier any more
	}
	if m.record.Clean = m.clean() || m.record.Finished; m.record.Clean {
		m.record.Parked = nil
	}
	m.writeNow()
}

// clean: nothing above the frontier is stored at the target, or parked.
func (m *Machine) clean() bool {
	for _, t := range m.targets {
		if !t.settled() {
			return false
		}
	}
	return !m.unsure && !m.abandoned && len(m.entries.queue) == 0 && len(m.present) == 0
}

// onSettled: the last record is safe; the last acknowledgement follows.
func (m *Machine) onSettled(ev Event) {
	if !m.answered(ev) {
		return
	}
	m.recordStored()
	if m.writing {
		return
	}
	m.result.Clean = m.record.Clean || !m.abandoned
	if m.lost || m.acks == 0 {
		m.close(m.result)
		return
	}
	m.enter(Parting)
}
