package replicate

import (
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// targetState is where a target segment stands for one lane.
type targetState int

const (
	targetClaiming  targetState = iota // its producer is being opened; nothing may be sent
	targetDeclaring                    // claimed; the record that lists it has no receipt yet
	targetOpen                         // parts go out as they come
	targetEnded                        // terminated, or gone: takes no more
)

// target is one target segment as the lane uses it.
type target struct {
	id      TargetID
	segment *reroute.Segment
	state   targetState
	gen     int // of the present claim; events of older ones are stale
	nextSeq uint64

	queue []*part // in source order: first the sent ones without receipt, then the unsent
	sent  int

	// landed are the receipted parts of entries above the frontier, in the
	// order of their positions; the floor rises as the frontier passes them.
	landed []landing
	high   Position // the highest position seen here

	trouble    error    // why it is claimed again, or could not be claimed yet
	inherited  bool     // the record listed it when the lane was opened
	pinned     bool     // its floor must not rise in this session
	doubtful   uint64   // entries of a smaller order may be stored here without a receipt
	low        Position // of the last part that the frontier has passed
	declaredBy uint64   // the version of the record that declares or proves the claim
}

type landing struct {
	order uint64
	pos   Position
}

// settled: each part sent here has its receipt, or is known not to be stored.
func (t *target) settled() bool { return t.sent == 0 }

// target returns the lane's view of a segment; a new one is claimed first.
func (m *Machine) target(seg *reroute.Segment) *target {
	id := targetID(seg)
	t := m.targets[id]
	if t == nil {
		t = &target{id: id, segment: seg, high: noPosition(), low: noPosition()}
		m.targets[id] = t
		m.claim(t)
	}
	return t
}

// claim asks for the producer N(L) on the segment. Until it is ours nothing is
// sent there; receipts of the generation before are welcome until then.
func (m *Machine) claim(t *target) {
	t.state = targetClaiming
	m.emit(Effect{Kind: efClaim, Target: t.id, Segment: t.segment, Gen: t.gen + 1})
}

// claiming returns the target whose claim the event answers, or nil.
func (m *Machine) claiming(ev Event) *target {
	t := m.targets[ev.Target]
	if t == nil || t.state != targetClaiming || ev.Gen != t.gen+1 {
		return nil
	}
	t.gen = ev.Gen
	return t
}

// onClaimed: the barrier has its receipt, so nothing older can land above it.
// A new target is declared before its first part; one that is claimed again
// proves by the same write that the epoch is still ours. What has no receipt by
// now goes out again.
func (m *Machine) onClaimed(ev Event) {
	t := m.claiming(ev)
	if t == nil {
		return
	}
	t.suspend()
	t.trouble, t.nextSeq, t.state = nil, ev.Seq, targetDeclaring
	if m.record.floor(t.id) == nil {
		m.record.Floors = append(m.record.Floors, Floor{Topic: m.cfg.TargetTopic, TargetID: t.id, Pos: ev.Pos, Fresh: true})
	}
	t.see(ev.Pos)
	t.declaredBy = m.writeNow()
	m.adopt()
}

// onEnded: the segment takes no more. As a rule what is stored at a seal was
// receipted (observed, broker 5.0.1), so what has no receipt is taken for not
// stored; it waits for a layout that covers the segment.
func (m *Machine) onEnded(ev Event) {
	t := m.claiming(ev)
	if t == nil {
		return
	}
	t.state, t.sent = targetEnded, 0
	m.emit(Effect{Kind: efRelease, Target: t.id})
	if m.state == Draining && m.handover {
		m.abandon(t)
	}
	m.adopt()
	m.recovered()
	m.progress()
}

// onGone: a segment that is not there. If a newer layout ends it, it was sealed,
// drained and pruned meanwhile: that is its end. Else the driver goes on trying,
// and has the layout looked up again.
func (m *Machine) onGone(ev Event) {
	if m.ending(ev.Target) {
		m.onEnded(ev)
		return
	}
	m.onTargetTrouble(ev)
}

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
	p := t.queue[i]
	t.remove(i)
	t.landed = append(t.landed, landing{order: p.entry.order, pos: ev.Pos})
	t.see(ev.Pos)
	p.entry.left--
	m.bytesSince += p.size
	m.emit(Effect{Kind: efReceipted, Target: t.id, Part: p})
	if !t.settled() || m.pending == nil {
		m.progress()
		return
	}
	m.adopt()
	m.progress()
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

// onTargetTrouble only keeps the reason; the driver goes on trying.
func (m *Machine) onTargetTrouble(ev Event) {
	if t := m.targets[ev.Target]; t != nil && t.state == targetClaiming && ev.Gen == t.gen+1 {
		t.trouble = ev.Err
	}
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

// abandon forgets what has no receipt: it may be stored, so the record is not
// clean, and the floor stays where it is.
func (m *Machine) abandon(t *target) {
	if len(t.queue) > 0 {
		m.abandoned, t.pinned = true, true
	}
	t.state, t.sent, t.queue = targetEnded, 0, nil
}

// suspend keeps the floor below what may be stored without a receipt, until the
// frontier has passed it.
func (t *target) suspend() {
	for _, p := range t.queue[:t.sent] {
		t.doubtful = max(t.doubtful, p.entry.order+1)
	}
	t.sent = 0
}

// raise brings the floor of a target up to date: the last part of an entry at
// or before the frontier, but below the first part above it; with none above
// it, the highest position seen, so that an idle lane pins nothing. It reports
// whether the floor is needed no longer.
func (m *Machine) raise(t *target) (over bool) {
	for len(t.landed) > 0 && t.landed[0].order < m.entries.passed {
		if p := t.landed[0].pos; p.Compare(t.low) > 0 {
			t.low = p
		}
		t.landed = t.landed[1:]
	}
	f := m.record.floor(t.id)
	switch {
	case f == nil:
		return t.state == targetEnded && len(t.queue) == 0
	case t.pinned, t.inherited && !m.wasClean, t.doubtful > m.entries.passed:
		return false // something above the floor may be stored that nobody knows of
	}
	pos := t.low
	if len(t.landed) == 0 && t.sent == 0 {
		pos = t.high
	}
	if pos.Compare(f.Pos) > 0 {
		f.Pos, f.Fresh = pos, false
	}
	return t.state == targetEnded && len(t.landed) == 0 && len(t.queue) == 0
}
