package replicate

import (
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

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
