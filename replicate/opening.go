package replicate

import "fmt"

// onSubscribed: the broker's word on who is active may have come before.
func (m *Machine) onSubscribed(Event) {
	m.enter(Standby)
	if m.active {
		m.begun()
	}
}

func (m *Machine) onPassive(Event) { m.active = false }

func (m *Machine) onActive(Event) {
	m.active = true
	if m.state == Standby {
		m.begun()
	}
}

// begun: the segment is ours; its parents come first.
func (m *Machine) begun() {
	if m.parentsDone {
		m.claimCheckpoint()
		return
	}
	m.enter(Waiting)
}

func (m *Machine) onParentsDone(Event) {
	m.parentsDone = true
	if m.state == Waiting {
		m.claimCheckpoint()
	}
}

func (m *Machine) claimCheckpoint() {
	m.enter(Claiming)
	m.takeCheckpoint()
}

// takeCheckpoint asks for the producer N(L) on the checkpoint topic. One claim is on its way at most.
func (m *Machine) takeCheckpoint() {
	m.emit(Effect{Kind: efClaimCheckpoint, Gen: m.claimGen + 1})
}

// onFirstClaim opens the lane: the epoch rises, and nothing is read before the
// record under it has its receipt.
func (m *Machine) onFirstClaim(ev Event) {
	m.claimGen = ev.Gen
	switch {
	case ev.Record != nil:
		m.record = ev.Record.clone()
	case ev.Begun:
		m.record = Record{Frontier: noPosition(), Clean: true}
	case !m.loseRecord():
		return
	default: // what was acknowledged was copied, as far as anybody can tell
		m.record = Record{Frontier: noPosition(), Clean: true, Passed: &ev.Pos}
	}
	if m.record.Finished {
		// Read to its end before; its record waits for the segment to leave the
		// layout. The source's cursor may have rolled back since.
		m.result = Result{Finished: true, Clean: true}
		m.enter(Parting)
		m.ack(m.record.Frontier)
		if m.acks == 0 {
			m.close(m.result)
		}
		return
	}
	m.held, m.trouble = true, nil
	if m.unsure = !m.record.Clean; !m.unsure {
		m.record.Parked = nil // of older versions
	}
	m.record.Epoch++
	m.record.Clean = false
	m.entries.frontier = m.record.Frontier
	m.beginAt(ev.Pos)
	m.enter(Recording)
	m.write()
}

func (m *Machine) onOpened(ev Event) {
	if !m.answered(ev) {
		return
	}
	m.recordStored()
	m.enter(Recovering)
	m.recover(true)
}

func (m *Machine) onSealed(Event) { m.sealed = true }

// onSourceClosed: nothing more can be read or acknowledged in this session.
func (m *Machine) onSourceClosed(ev Event) {
	m.lost = true
	m.result.Err = fmt.Errorf("source consumer: %w", ev.Err)
	switch m.state {
	case Recording, Recovering, Running:
		m.handover = true
		m.drain()
	case Draining, Settling: // the record still counts
	default:
		m.result.Clean = m.result.Clean || m.state < Recording
		m.close(m.result)
	}
}
