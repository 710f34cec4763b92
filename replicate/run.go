package replicate

import (
	"fmt"
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// recordBytes: a record is written when this much was receipted since the last
// one, even before the checkpoint interval is over.
const recordBytes = 8 << 20

// unrecordedBytes: while no record gets its receipt, reading ends here.
const unrecordedBytes = 8 * recordBytes

// onEntry takes one source entry, in the order of the segment.
func (m *Machine) onEntry(ev Event) {
	e := ev.Entry
	m.flow.arrived(e.raw.Held(), e.messages())
	if e.pos.Compare(m.entries.last) <= 0 {
		m.drop(e) // delivered again; it is in flight or complete
		m.refill()
		return
	}
	m.starved = 0
	m.rest = max(m.rest-1, 0)
	m.follows(e.pos)
	m.dirty = true // the record says what is known to exist
	m.entries.push(e)
	m.progress()
}

// progress does what has become possible: the frontier passes complete entries,
// the next entries are cut, permits are given.
func (m *Machine) progress() {
	m.pump()
	if m.entries.advance(m.done) {
		m.moved++
		m.dirty = true
	}
	if m.bytesSince >= recordBytes && !m.writing && m.state != Settling {
		m.write()
	}
	switch m.state {
	case Running:
		m.refill()
	case Draining:
		m.settle()
	}
}

// drop lets an entry go that was not begun.
func (m *Machine) drop(e *entry) {
	m.flow.released(e.raw.Held())
	m.emit(Effect{Kind: efDrop, Entry: e})
}

func (m *Machine) done(e *entry) {
	m.flow.released(e.raw.Held())
	m.emit(Effect{Kind: efDone, Entry: e})
}

func (m *Machine) refill() {
	if m.hold != "" || m.bytesSince >= unrecordedBytes {
		return
	}
	if n := m.flow.refill(); n > 0 {
		m.emit(Effect{Kind: efFlow, N: n})
	}
}

// pump cuts the entries that wait, in source order.
func (m *Machine) pump() {
	if m.state != Running || m.layout == nil || m.looking > 0 && m.cfg.StopGap {
		return
	}
	for m.hold == "" && m.entries.uncut < len(m.entries.queue) {
		e := m.entries.queue[m.entries.uncut]
		if !m.begin(e) {
			return
		}
		m.entries.uncut++
	}
}

// begin routes one entry; false: the lane must not go past it.
func (m *Machine) begin(e *entry) bool {
	if e.pos.Compare(m.record.Frontier) <= 0 {
		e.cut, e.outcome = true, Outcome{outcomeSkipped, "present"}
		return true
	}
	if e.bad != nil && e.pos != m.cfg.Tolerate {
		// Perhaps only this delivery is damaged: a new session reads it again.
		m.result.Bad = &e.pos
		m.result.Err = fmt.Errorf("entry %v: %w", e.pos, e.bad)
		m.drain()
		return false
	}
	include, present := m.present[e.pos].missing(e.messages())
	if present == e.messages() {
		delete(m.present, e.pos)
		m.emit(Effect{Kind: efPresent, N: present})
		e.cut, e.outcome = true, Outcome{outcomeSkipped, "present"}
		return true
	}
	switch v, reason := m.cut.judge(e); v {
	case verdictSkip:
		e.cut, e.outcome = true, Outcome{outcomeSkipped, reason}
		return true
	case verdictHold:
		m.stopAt(e, reason)
		return false
	}
	c := m.cut.cut(m.layout, e, include)
	if len(c.poison) > 0 && m.cfg.StopPoison {
		m.stopAtPoison(e, c.poison[0])
		return false
	}
	if present > 0 {
		delete(m.present, e.pos)
		m.emit(Effect{Kind: efPresent, N: present})
	}
	m.take(e, c)
	return true
}

// forgetPresent: the source has nothing more, so the entries of what was found
// never come again: somebody else acknowledged them, or they expired.
func (m *Machine) forgetPresent() {
	if len(m.present) == 0 {
		return
	}
	clear(m.present)
	for _, t := range m.targets {
		t.landed = nil
	}
	m.dirty = true
}

func (m *Machine) stopAt(e *entry, why string) {
	m.hold = fmt.Sprintf("entry %v: %s", e.pos, why)
}

func (m *Machine) stopAtPoison(e *entry, p poison) {
	m.stopAt(e, "unroutable ("+p.reason+"), and on_unroutable is stop")
}

// take hands the parts of an entry to their targets, and its poison to the
// parking topic.
func (m *Machine) take(e *entry, c cuts) {
	e.cut = true
	if e.outcome.Outcome != outcomeSplit {
		e.outcome = c.outcome
	}
	e.opened = e.opened || c.opened
	e.left += len(c.parts) + len(c.poison)
	for _, p := range c.parts {
		t := m.target(p.segment)
		t.queue = append(t.queue, p)
		m.flush(t)
	}
	for _, p := range c.poison {
		m.park(p)
	}
	e.shut()
}

// onLayout takes a newer layout of the target. It is adopted only when the
// segments that it ends are settled: a key moves to a newer segment after all
// its parts in the old one.
func (m *Machine) onLayout(ev Event) {
	m.missing = nil
	if m.handover {
		return // the successor's concern
	}
	switch {
	case m.state == Recovering && len(m.targets) == 0:
		m.layout, m.pending = ev.Layout, nil
		m.recover(false)
		return
	case m.layout == nil:
		m.layout = ev.Layout
	default:
		m.pending = ev.Layout
	}
	m.adopt()
	m.recovered()
	m.progress()
}

// ending reports whether a newer layout ends the target.
func (m *Machine) ending(id TargetID) bool {
	return m.pending != nil && !activeIn(m.pending, id)
}

func activeIn(l *reroute.Layout, id TargetID) bool {
	s := l.Segment(id.Segment)
	return s != nil && !s.Sealed && s.CreatedAtMs == id.CreatedAtMs
}

// adopt switches to the newer layout once what it ends is settled, and cuts
// what waited there again, before anything newer.
func (m *Machine) adopt() {
	if m.pending == nil {
		return
	}
	var ends []*target
	ready := true
	for _, t := range m.targets {
		if !m.ending(t.id) || t.state == targetEnded && len(t.queue) == 0 {
			continue
		}
		ends = append(ends, t)
		if !t.settled() {
			ready = false
			if t.state == targetOpen {
				m.claim(t) // answers "terminated" once no receipt can come any more
			}
		}
	}
	if !ready {
		return
	}
	m.layout, m.pending = m.pending, nil
	m.moved++
	m.dirty = m.dirty || len(ends) > 0 // the guard keeps what ends for as long as the record lists it
	var moved []*part
	for _, t := range ends {
		moved = append(moved, t.queue...)
		t.queue, t.state = nil, targetEnded
		t.gen++ // a claim on its way has no meaning any more
		m.emit(Effect{Kind: efRelease, Target: t.id})
	}
	m.recut(moved)
}

// recut routes parts again under the present layout, in source order.
func (m *Machine) recut(moved []*part) {
	slices.SortStableFunc(moved, func(a, b *part) int {
		if a.entry.order != b.entry.order {
			return int(int64(a.entry.order) - int64(b.entry.order))
		}
		return firstIndex(a) - firstIndex(b)
	})
	for _, p := range moved {
		c := m.cut.cut(m.layout, p.entry, p.indices)
		if len(c.poison) > 0 && m.cfg.StopPoison {
			m.stopAtPoison(p.entry, c.poison[0]) // it stays incomplete, and so do all after it
			return
		}
		p.entry.left--
		m.take(p.entry, c)
	}
	if len(moved) > 0 {
		m.emit(Effect{Kind: efRerouted, N: len(moved)})
	}
}

func firstIndex(p *part) int {
	if p.whole() {
		return 0
	}
	return p.indices[0]
}

// onTargetMissing: the topic is gone, and a segment of it that still answers is
// an orphan whose receipts are worth nothing (observed, broker 5.0.1). The
// session ends; the next one waits for the topic.
func (m *Machine) onTargetMissing(ev Event) {
	m.missing = ev.Err
	if m.state >= Recovering && len(m.targets) > 0 {
		m.close(Result{Err: ev.Err})
		return
	}
	m.layout, m.pending = nil, nil
}

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
