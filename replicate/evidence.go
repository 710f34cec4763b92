package replicate

import (
	"fmt"

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
	return e.begins.Ledger > e.floor.Ledger // logs are trimmed by whole ledgers
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
