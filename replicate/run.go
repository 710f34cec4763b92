package replicate

import (
	"fmt"
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
