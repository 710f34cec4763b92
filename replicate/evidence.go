package replicate

import (
	"fmt"
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// evidence is what is known of a target segment's log when a lane has to find
// out there what is stored.
type evidence struct {
	doubt  bool     // parts may be stored above the floor that nobody knows of
	there  bool     // the segment is
	remade bool     // its topic was deleted and made again since
	begins Position // the log's first entry comes after it
	floor  Position
}

// lost reports whether the log cannot tell any more. The guard stays below the
// floors of all records, so nothing above one is trimmed, and no segment that is
// listed is pruned, unless somebody else moved or deleted the guard, or there is
// none. Whether somebody did does not count: what is still there is evidence.
func (e evidence) lost() bool {
	switch {
	case !e.doubt:
		return false // nothing is looked for
	case e.remade:
		return false // all that was stored went with the topic
	case !e.there:
		return true
	}
	// Logs are trimmed by whole ledgers. Of an empty one the beginning is its end.
	return e.begins.Compare(e.floor) > 0
}

// remade reports whether a layout is of another topic of the same name than a
// segment: ids begin again there.
func remade(l *reroute.Layout, id TargetID) bool {
	for _, s := range l.Segments() {
		if s.ID <= id.Segment && s.CreatedAtMs > id.CreatedAtMs {
			return true
		}
	}
	return false
}

// proof is what a receipt of the record, or of a later one, allows: this holder was
// not deposed before.
type proof struct {
	by   uint64
	then func()
}

// prove writes the record, and acts when its receipt comes. A holder that was deposed
// and does not know it finds the log trimmed, or the segment pruned, because its
// successor has moved on: that is no loss, and no alarm.
func (m *Machine) prove(then func()) {
	m.proofs = append(m.proofs, proof{m.writeNow(), then})
}

// proven acts on what the record's receipt has proven.
func (m *Machine) proven() {
	done := m.proofs
	i := slices.IndexFunc(done, func(p proof) bool { return p.by > m.version })
	if i < 0 {
		i = len(done)
	}
	m.proofs = slices.Clone(done[i:])
	for _, p := range done[:i] {
		if m.state == Recovering || m.state == Running || m.state == Draining {
			p.then()
		}
	}
}

// suspect is for a target whose evidence seems to be gone: that is so if the lane is
// not deposed. What to do then is asked of the same state of the target only.
func (m *Machine) suspect(t *target, why string, goOn func()) {
	if t.suspected {
		return
	}
	t.suspected = true
	state, gen := t.state, t.gen
	m.prove(func() {
		if m.targets[t.id] != t || !t.suspected || t.state != state || t.gen != gen {
			return
		}
		if t.suspected = false; m.lose(t.id, why) {
			goOn()
		} else {
			m.give(t)
		}
	})
}

// lose decides what a lane does whose evidence is gone: on_lost_evidence. It
// reports whether it goes on, with what is in doubt sent again.
func (m *Machine) lose(id TargetID, why string) bool {
	return m.loses(id, fmt.Sprintf("evidence lost: target segment %d: %s", id.Segment, why))
}

// loseRecord is for a lane without a record, on a checkpoint topic that nobody began.
func (m *Machine) loseRecord() bool { return m.loses(TargetID{}, "evidence lost: "+whyNoRecords) }

func (m *Machine) loses(id TargetID, why string) bool {
	goOn := !m.cfg.StopEvidence || m.cfg.Accept && m.state < Running
	if !goOn {
		m.hold, m.loss = why+evidenceRemedy, true
	}
	ef := Effect{Kind: efEvidenceLost, Target: id, Why: why, N: 1}
	if m.cfg.Accept && goOn && m.cfg.StopEvidence {
		ef.N, ef.Why = 0, "accepted: "+why
	}
	m.emit(ef)
	return goOn
}

// evidenceRemedy tells an operator what to do about a lane that holds.
const evidenceRemedy = "; what was in flight may arrive twice: accept that with `geobridge resume MAPPING --accept-gap`, or set on_lost_evidence: at_least_once"

const (
	whyNoRecords = "the checkpoint topic was deleted: what it knew of the lane is gone"
	whyTrimmed   = "its log was trimmed above what the record needs, though the guard should have kept it (a TTL, an evicting backlog quota, guard: false, or an operator)"
	whyPruned    = "it is gone, though the guard should have kept it (a TTL, an evicting backlog quota, guard: false, or an operator)"
)
