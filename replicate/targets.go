package replicate

import (
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// targetState is where a target segment stands for one lane.
type targetState int

const (
	targetClaiming  targetState = iota // its producer is being opened; nothing may be sent
	targetScanning                     // claimed or terminated; its log is read for what nobody knows of
	targetDeclaring                    // the record that lists it, or proves the scan, has no receipt yet
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

	// landed are the stored parts of entries above the frontier, in the order
	// of their positions; the floor rises as the frontier passes them.
	landed []landing
	high   Position // the highest position seen here

	trouble    error    // why it is claimed again, or could not be claimed yet
	unsettled  bool     // parts that this session knows nothing of may be stored above the floor
	terminated bool     // it takes no more entries
	before     *Floor   // as the record lists it, from before its topic was made again
	lost       bool     // the evidence of what is in doubt here is gone, and the lane holds
	suspected  bool     // it seems so; the record's receipt will tell
	low        Position // of the last part that the frontier has passed
	declaredBy uint64   // the version of the record that declares or proves the claim
}

// landing is a stored part: its source entry, and where it is.
type landing struct{ source, pos Position }

// settled: each part sent here has its receipt, or is known to be stored or not.
func (t *target) settled() bool { return t.sent == 0 && !t.unsettled }

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
	t.state, t.suspected = targetClaiming, false
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
// What has no receipt by now is looked for below it.
func (m *Machine) onClaimed(ev Event) {
	t := m.claiming(ev)
	if t == nil {
		return
	}
	t.trouble, t.nextSeq = nil, ev.Seq
	if m.record.floor(t.id) == nil {
		m.record.Floors = append(m.record.Floors, Floor{Topic: m.cfg.TargetTopic, TargetID: t.id, Pos: ev.Pos, Fresh: true})
	}
	t.see(ev.Pos)
	if !t.settled() {
		m.scan(t, ev.Pos)
		return
	}
	m.declare(t)
	m.adopt()
}

// declare writes the record: a new target is listed before its first part, and
// one that was claimed again or read proves by the same write that the epoch is
// still ours. Proven before the scan it would be worth nothing: a successor may
// have moved floors and guard meanwhile.
func (m *Machine) declare(t *target) {
	t.state = targetDeclaring
	t.declaredBy = m.writeNow()
}

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

// onEnded: the segment takes no more. What has no receipt is looked for up to
// its end; what is not there waits for a layout that covers the segment.
func (m *Machine) onEnded(ev Event) {
	t := m.claiming(ev)
	if t == nil {
		return
	}
	t.terminated, t.trouble = true, nil
	switch {
	case m.state == Draining && m.handover:
		m.emit(Effect{Kind: efRelease, Target: t.id})
		m.abandon(t)
	case !t.settled():
		m.scan(t, noPosition())
		return
	default:
		m.end(t)
	}
	m.adopt()
	m.recovered()
	m.progress()
}

// give is for a target whose evidence is gone, in a lane that holds: the record
// stays as it is, and a lane that leaves does not wait.
func (m *Machine) give(t *target) {
	t.lost, t.unsettled = true, true
	if m.state == Draining {
		m.abandon(t)
		m.progress()
	}
}

func (m *Machine) end(t *target) {
	t.state = targetEnded
	m.dirty = true
	m.emit(Effect{Kind: efRelease, Target: t.id})
}

// onGone: a segment that is not there. If a newer layout ends it, it was sealed,
// drained and pruned meanwhile, which the guard allows only where no record lists
// it. Else the driver goes on trying, and has the layout looked up again.
func (m *Machine) onGone(ev Event) {
	t := m.targets[ev.Target]
	if !m.ending(ev.Target) || t == nil || t.state == targetScanning && ev.Gen != t.gen ||
		t.state != targetScanning && (t.state != targetClaiming || ev.Gen != t.gen+1) {
		m.onTargetTrouble(ev)
		return
	}
	if gone := (evidence{doubt: !t.settled()}); gone.lost() {
		if !left(m.pending, t.id) {
			m.onTargetTrouble(ev) // one answer proves nothing
			return
		}
		m.suspect(t, whyPruned, func() { m.pruned(t, ev.Gen) })
		return
	}
	m.pruned(t, ev.Gen)
}

// pruned: a target is gone, as a newer layout says too.
func (m *Machine) pruned(t *target, gen int) {
	t.gen, t.terminated, t.unsettled, t.sent = gen, true, false, 0
	if m.end(t); m.state == Draining && m.handover {
		m.abandon(t)
	}
	m.adopt()
	m.recovered()
	m.progress()
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

// onTargetTrouble only keeps the reason; the driver goes on trying.
func (m *Machine) onTargetTrouble(ev Event) {
	t := m.targets[ev.Target]
	if t != nil && (t.state == targetClaiming && ev.Gen == t.gen+1 || t.state == targetScanning && ev.Gen == t.gen) {
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
	m.abandoned = m.abandoned || len(t.queue) > 0
	t.unsettled = t.unsettled || t.sent > 0
	t.state, t.sent, t.queue = targetEnded, 0, nil
}

// raise brings the floor of a target up to date: the last part of an entry at
// or before the frontier, but below the first part above it; with none above
// it, the highest position seen, so that an idle lane pins nothing. It reports
// whether the floor is needed no longer.
func (m *Machine) raise(t *target) (over bool) {
	for len(t.landed) > 0 && t.landed[0].source.Compare(m.entries.frontier) <= 0 {
		if p := t.landed[0].pos; p.Compare(t.low) > 0 {
			t.low = p
		}
		t.landed = t.landed[1:]
	}
	f := m.record.floor(t.id)
	switch {
	case f == nil:
		return t.state == targetEnded && len(t.queue) == 0
	case t.unsettled:
		return false
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
