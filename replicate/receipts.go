package replicate

import "slices"

// landing is a stored part: its source entry, and where it is.
type landing struct{ source, pos Position }

// onReceipt completes one part.
func (m *Machine) onReceipt(ev Event) {
	t := m.targets[ev.Target]
	if t == nil || ev.Gen != t.gen {
		return
	}
	i := slices.IndexFunc(t.queue[:t.sent], func(p *part) bool { return p.seq == ev.Seq })
	if i < 0 {
		return
	}
	m.landed(t, i, ev.Pos)
	if t.settled() && m.pending != nil {
		m.adopt()
	}
	m.progress()
}

// landed completes the sent part i: it is stored at pos.
func (m *Machine) landed(t *target, i int, pos Position) {
	p := t.queue[i]
	t.remove(i)
	t.landed = append(t.landed, landing{p.entry.pos, pos})
	t.see(pos)
	p.entry.left--
	m.bytesSince += p.size
	m.emit(Effect{Kind: efReceipted, Target: t.id, Part: p, Pos: pos})
}

// remove takes the sent part i out of the queue; the first one, nearly always.
func (t *target) remove(i int) {
	t.sent--
	if i == 0 {
		t.queue[0] = nil
		t.queue = t.queue[1:]
		return
	}
	t.queue = slices.Delete(t.queue, i, i+1)
}

// onDoubt: neither an error nor silence says whether a send is stored. The
// target stops and is claimed again.
func (m *Machine) onDoubt(ev Event) {
	t := m.targets[ev.Target]
	if t == nil || ev.Gen != t.gen || t.state == targetClaiming || t.state == targetEnded {
		return
	}
	if m.state == Draining && m.handover {
		m.abandon(t)
		m.progress()
		return
	}
	m.claim(t)
	t.trouble = ev.Err
}

// flush sends what waits for an open target.
func (m *Machine) flush(t *target) {
	if t.state != targetOpen || m.ending(t.id) {
		return
	}
	if f := m.record.floor(t.id); f != nil && t.sent < len(t.queue) {
		f.Fresh = false
	}
	for _, p := range t.queue[t.sent:] {
		p.seq = t.nextSeq
		t.nextSeq++
		m.emit(Effect{Kind: efSend, Target: t.id, Gen: t.gen, Part: p})
	}
	t.sent = len(t.queue)
}

func (t *target) see(p Position) {
	if p.Compare(t.high) > 0 {
		t.high = p
	}
}
