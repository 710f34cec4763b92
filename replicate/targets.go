package replicate

import (
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

// onTargetTrouble only keeps the reason; the driver goes on trying.
func (m *Machine) onTargetTrouble(ev Event) {
	t := m.targets[ev.Target]
	if t != nil && (t.state == targetClaiming && ev.Gen == t.gen+1 || t.state == targetScanning && ev.Gen == t.gen) {
		t.trouble = ev.Err
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
