package replicate

import (
	"errors"
	"fmt"
)

// write sends the record as it stands; it returns the version.
func (m *Machine) write() uint64 {
	m.record.Frontier = m.entries.frontier
	switch last := m.entries.last; {
	case last.Compare(m.entries.frontier) <= 0:
		m.record.Seen = nil
	case m.looking == 0: // else it stays: what lies before the last may be nothing
		m.record.Seen = &last
	}
	for id, t := range m.targets {
		if m.raise(t) {
			m.record.dropFloor(id)
			delete(m.targets, id)
		}
	}
	m.version++
	m.written = m.record.clone()
	m.writing, m.dirty, m.rewrite, m.bytesSince = true, false, false, 0
	if m.held {
		m.emit(Effect{Kind: efWriteRecord, Record: m.written})
	}
	return m.version
}

// writeNow returns the version that will hold what the record holds now.
func (m *Machine) writeNow() uint64 {
	if !m.writing {
		return m.write()
	}
	m.rewrite = true
	return m.version + 1
}

// answered reports whether the event is the receipt of the record on its way. A
// receipt from a producer that was lost since does not count: the record is
// written again.
func (m *Machine) answered(ev Event) bool {
	return m.writing && m.held && ev.Gen == m.claimGen
}

// recordStored: what the record says is safe, so the source may forget it.
func (m *Machine) recordStored() {
	m.writing, m.opened, m.trouble = false, true, nil
	m.ack(m.written.Frontier)
	for _, t := range m.targets {
		if t.state != targetDeclaring || t.declaredBy > m.version {
			continue
		}
		if t.terminated {
			m.end(t)
			continue
		}
		t.state = targetOpen
		m.flush(t)
	}
	m.parkingStored()
	m.proven()
	if m.rewrite && !m.writing {
		m.write()
	}
}

func (m *Machine) onRecordStored(ev Event) {
	if !m.answered(ev) {
		return
	}
	m.recordStored()
	m.adopt()
	m.recovered()
	if m.state == Draining {
		m.settle()
	}
}

// ack acknowledges the source up to pos, once.
func (m *Machine) ack(pos Position) {
	if m.lost || pos.Compare(m.acked) <= 0 {
		return
	}
	m.acked = pos
	m.acks++
	m.emit(Effect{Kind: efAck, Pos: pos})
}

// onAcked: an acknowledgement that failed is made again with the next tick.
func (m *Machine) onAcked(ev Event) {
	m.acks--
	if ev.Err != nil {
		m.acked = noPosition()
	}
}

// onLastAcked ends the session once each acknowledgement was answered.
func (m *Machine) onLastAcked(Event) {
	if m.acks--; m.acks == 0 {
		m.close(m.result)
	}
}

// onTick writes what changed, asks whether a sealed segment is at its end, and
// renews permits.
func (m *Machine) onTick(ev Event) {
	if ev.Window > 0 {
		m.flow.window = ev.Window
	}
	switch {
	case m.writing:
	case m.dirty:
		m.write()
	case m.acks == 0 && m.version > 0:
		m.ack(m.written.Frontier) // again, if it failed
	}
	if m.state != Running {
		return
	}
	m.refill()
	if m.sealed && m.quiet() {
		m.emit(Effect{Kind: efProbe})
	}
}

// starvedProbes: a sealed source that has a backlog and gives nothing is attached
// to anew after so many answers in a row. Of an active one an open transaction is
// as likely the cause: it has stall_timeout.
const starvedProbes = 6

// onBacklog hears what the source says it still has for the lane, while the lane
// has nothing in flight.
func (m *Machine) onBacklog(ev Event) {
	if m.hear(ev); ev.Err != nil {
		return
	}
	switch {
	case ev.Early || !m.quiet() || m.pending != nil:
		m.starved = 0 // it was asked too early
	case ev.N > 0:
		m.rest = ev.N
		m.starve(ev.N)
	case ev.Sealed:
		m.record.Finished, m.result.Finished = true, true
		m.finish()
	default:
		m.starved, m.rest = 0, 0
		m.forgetPresent()
	}
}

// starve opens the lane anew when the broker does not deliver what it has: a
// cursor that waited at the end while its segment was sealed may never be woken
// (observed, broker 5.0.1).
func (m *Machine) starve(backlog int64) {
	if m.starved++; m.starved < starvedProbes || !m.sealed {
		return
	}
	m.result.Err = fmt.Errorf("the source has a backlog of %d and delivers nothing", backlog)
	m.drain()
}

// onCheckpointLost: somebody may have deposed this holder; only the topic knows.
func (m *Machine) onCheckpointLost(ev Event) {
	if !m.held || ev.Gen != m.claimGen {
		return // known already
	}
	m.held = false
	if !m.opened {
		// The epoch is not ours before its record has its receipt: another may take
		// the same one, and be taken for us. Nothing was begun.
		m.close(Result{Err: ev.Err, Clean: m.state != Recording})
		return
	}
	m.trouble = ev.Err
	m.takeCheckpoint()
}

// onCheckpointTrouble only keeps the reason; the driver goes on trying. A successor
// does not wait for that: it finds what has no record.
func (m *Machine) onCheckpointTrouble(ev Event) {
	m.trouble = ev.Err
	if m.state == Settling && m.handover {
		m.close(Result{Err: ev.Err})
	}
}

var errDeposed = errors.New("deposed: another instance opened this lane")

// onReclaim: the checkpoint is ours again. Another's epoch means that this
// holder was deposed; else the record on its way is written again.
func (m *Machine) onReclaim(ev Event) {
	m.claimGen = ev.Gen
	if ev.Record == nil && !ev.Begun {
		m.close(Result{Err: errors.New(whyNoRecords)})
		return
	}
	if ev.Record == nil || ev.Record.Epoch != m.record.Epoch {
		m.close(Result{Deposed: true, Err: errDeposed})
		return
	}
	m.held, m.trouble = true, nil
	if m.writing {
		m.emit(Effect{Kind: efWriteRecord, Record: m.written})
		return
	}
	m.write()
}
