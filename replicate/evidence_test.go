package replicate

import (
	"strings"
	"testing"

	"github.com/geobridge/geobridge/reroute"
)

func TestEvidence(t *testing.T) {
	floor := Position{Ledger: 5, Entry: 10}
	for _, row := range []struct {
		name string
		evidence
		want bool
	}{
		{"the floor's ledger is there", evidence{doubt: true, there: true, begins: Position{Ledger: 5, Entry: -1}, floor: floor}, false},
		{"older ledgers, too", evidence{doubt: true, there: true, begins: Position{Ledger: 2, Entry: -1}, floor: floor}, false},
		{"trimmed", evidence{doubt: true, there: true, begins: Position{Ledger: 8, Entry: -1}, floor: floor}, true},
		{"trimmed, and nothing in doubt", evidence{there: true, begins: Position{Ledger: 8, Entry: -1}, floor: floor}, false},
		{"trimmed, and empty since", evidence{doubt: true, there: true, begins: Position{Ledger: 5, Entry: 14}, floor: floor}, true},
		{"empty, and the floor was its end", evidence{doubt: true, there: true, begins: floor, floor: floor}, false},
		{"pruned", evidence{doubt: true, floor: floor}, true},
		{"pruned, and nothing in doubt", evidence{floor: floor}, false},
		{"gone with its topic", evidence{doubt: true, remade: true, floor: floor}, false},
	} {
		if got := row.lost(); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

func TestRemade(t *testing.T) {
	l := mustLayout(t, 1, reroute.Segment{ID: 2, CreatedAtMs: 12, Range: leftHalf}, reroute.Segment{ID: 3, CreatedAtMs: 13, Range: rightHalf})
	for id, want := range map[TargetID]bool{{1, 11}: false, {2, 12}: false, {3, 13}: false, {2, 5}: true, {7, 5}: true, {7, 17}: false} {
		if got := remade(l, id); got != want {
			t.Errorf("%+v: %v", id, got)
		}
	}
}

// stops is a session of on_lost_evidence: stop.
func stops(cfg *MachineConfig) { cfg.StopEvidence = true }

// trimmed answers a scan of a log that begins above its floor.
func (r *rig) trimmed(segment uint64, gen int) *rig {
	return r.step(Event{Kind: evScanned, Target: at(segment), Gen: gen, Pos: Position{Ledger: 200, Entry: -1}})
}

func unclean(f ...Floor) *Record { return &Record{Epoch: 1, Frontier: noPosition(), Floors: f} }

func (r *rig) recovering(rec *Record) *rig {
	return r.layout(splitOne(r.t)).on(evActive).on(evSubscribed).checkpoint(rec).stored()
}

func (r *rig) holds(want string) *rig {
	r.t.Helper()
	if why := r.m.Why(); !strings.Contains(why, want) || !strings.Contains(why, "resume MAPPING --accept-gap") {
		r.t.Errorf("why: %q, want %q and the remedy", why, want)
	}
	if s := showState(r.m); s != ShowStopped {
		r.t.Errorf("shown as %s", s)
	}
	return r
}

// The log of a target was trimmed above the floor of an unclean record: the lane
// holds with nothing sent, or sends what is in doubt again.
func TestTrimmedAtOpening(t *testing.T) {
	floor := Floor{TargetID: at(2), Pos: placed(9)}
	r := newRig(t, nil).recovering(unclean(floor)).claimed(2, 1, 20).trimmed(2, 1).want("record epoch 2 frontier -1 2@9")
	r.stored().want("evidence lost 2", "record epoch 2 frontier -1 2@20").stored().state(Running)

	r = newRig(t, stops).recovering(unclean(floor)).claimed(2, 1, 20).trimmed(2, 1).want("record epoch 2 frontier -1 2@9")
	r.stored().want("evidence lost 2").state(Recovering).holds("target segment 2: its log was trimmed")
	r.layout(splitOne(t)).on(evTick).want().state(Recovering)
	// It leaves at once, and the record is as unclean as before.
	r.on(evStop).want("record epoch 2 frontier -1 2@9").stored().state(Closed)

	// What an operator accepts is what the opening finds, and no more.
	r = newRig(t, func(cfg *MachineConfig) { cfg.StopEvidence, cfg.Accept = true, true }).recovering(unclean(floor))
	r.claimed(2, 1, 20).trimmed(2, 1).stored().want("evidence lost 2", "record epoch 2 frontier -1 2@20").stored().state(Running)
	r.give(0, leftKey()).want("send 2 gen 1 seq 1: 0[*]").doubt(2, 1).claimed(2, 2, 30).trimmed(2, 2).stored()
	r.want("evidence lost 2").holds("target segment 2: its log was trimmed")
}

// A segment that an unclean record lists is gone, and its topic is not.
func TestPrunedAtOpening(t *testing.T) {
	floor := Floor{TargetID: at(0), Pos: placed(9)}
	newRig(t, nil).recovering(unclean(floor)).want("evidence lost 0").state(Running)
	r := newRig(t, stops).recovering(unclean(floor)).want("evidence lost 0").state(Recovering).holds("target segment 0: it is gone")
	r.on(evStop).want("record epoch 2 frontier -1 0@9").stored().state(Closed)

	clean := unclean(floor)
	clean.Clean = true
	newRig(t, stops).recovering(clean).want().state(Running)
	newRig(t, stops).recovering(unclean(Floor{TargetID: TargetID{Segment: 7, CreatedAtMs: 1}, Pos: placed(9)})).want().state(Running)
}

// A record may know a younger layout than this session.
func TestRecordKnowsMore(t *testing.T) {
	r := newRig(t, stops).layout(one(t)).on(evActive).on(evSubscribed).checkpoint(unclean(Floor{TargetID: at(3), Pos: placed(9)})).stored()
	r.want().state(Recovering)
	if want := "waits for a layout that has target segment 3"; r.m.Why() != want {
		t.Errorf("why: %q", r.m.Why())
	}
	r.layout(splitOne(t)).want("claim 3 gen 1").claimed(3, 1, 20).want("scan 3 gen 1 from 9 to 20").scanned(3, 1).stored().state(Running)
}

// Sends in doubt, and the log trimmed or the segment pruned before it was read.
func TestEvidenceLostInDoubt(t *testing.T) {
	r := newRig(t, stops).openOne().doubt(1, 1).claimed(1, 2, 9).trimmed(1, 2).stored().want("evidence lost 1").holds("target segment 1: its log was trimmed")
	r.give(1, leftKey()).want().on(evStop).want("drop 1", "record epoch 1 frontier -1 1@5").stored().state(Closed)

	r = newRig(t, nil).openOne().doubt(1, 1).claimed(1, 2, 9).trimmed(1, 2)
	r.stored().want("evidence lost 1", "record epoch 1 frontier -1 1@9").stored().want("send 1 gen 2 seq 1: 0[*]")

	gone := func(edit func(*MachineConfig)) *rig {
		r := newRig(t, edit).openOne().doubt(1, 1).layout(splitOne(t))
		// One answer proves nothing, as long as the layout has it.
		r.step(Event{Kind: evGone, Target: at(1), Gen: 2, Err: errLost}).want()
		r.layout(merged(t))
		r.step(Event{Kind: evGone, Target: at(1), Gen: 2, Err: errLost}).want("record epoch 1 frontier -1 1@5")
		r.step(Event{Kind: evGone, Target: at(1), Gen: 2, Err: errLost}).want() // the driver goes on asking
		return r.stored()
	}
	gone(stops).holds("target segment 1: it is gone")
	gone(nil).want("evidence lost 1", "release 1", "release 1", "claim 4 gen 1", "rerouted 1")

	// Nothing in doubt: nothing lost.
	r = newRig(t, stops).openOne().receipt(1, 1, 1, 6).doubt(1, 1)
	r.step(Event{Kind: evGone, Target: at(1), Gen: 2, Err: errLost}).want().layout(splitOne(t)).want("release 1")
}

// A holder that was deposed meanwhile finds trimmed or pruned what its successor has
// moved on from: no loss, no alarm, and nothing to hold for. Found by the model.
func TestDeposedRaisesNoAlarm(t *testing.T) {
	taken := Record{Epoch: 2, Frontier: Position{Ledger: 7, Entry: 5}}
	r := newRig(t, stops).openOne().doubt(1, 1).claimed(1, 2, 9).trimmed(1, 2).want("record epoch 1 frontier -1 1@5")
	r.fails(evCheckpointLost).want("claim checkpoint").checkpoint(&taken)
	r.want("close deposed: deposed: another instance opened this lane")

	r = newRig(t, stops).openOne().doubt(1, 1).layout(merged(t))
	r.step(Event{Kind: evGone, Target: at(1), Gen: 2, Err: errLost}).want("record epoch 1 frontier -1 1@5")
	r.fails(evCheckpointLost).checkpoint(&taken).want("close deposed: deposed: another instance opened this lane")

	// It opened without a layout, and the first one that it sees is its successor's.
	r = newRig(t, stops).on(evActive).on(evSubscribed).checkpoint(unclean(Floor{TargetID: at(0), Pos: placed(9)})).stored().want()
	r.layout(splitOne(t)).want("record epoch 2 frontier -1 0@9").state(Recovering)
	r.fails(evCheckpointLost).checkpoint(&Record{Epoch: 3}).want("close deposed: deposed: another instance opened this lane")
}

// What a newer layout shows is not proven by a record that was on its way before it.
func TestProofIsOfWhatWasSeen(t *testing.T) {
	r := newRig(t, stops).on(evActive).on(evSubscribed).checkpoint(unclean(Floor{TargetID: at(0), Pos: placed(9)}, Floor{TargetID: at(2), Pos: placed(9)})).stored()
	r.layout(splitOne(t)).want("record epoch 2 frontier -1 0@9 2@9")
	later := mustLayout(t, 3, reroute.Segment{ID: 4, CreatedAtMs: 14, Range: leftHalf}, reroute.Segment{ID: 3, CreatedAtMs: 13, Range: rightHalf})
	r.layout(later).want().stored().want("record epoch 2 frontier -1 0@9 2@9").state(Recovering)
	r.stored().want("evidence lost 0").holds("target segment 0: it is gone")
}

// The receipt of a record that was on its way before the proof opens nothing: the lane
// has not looked yet for what is stored.
func TestProofComesAfterTheRecordOnItsWay(t *testing.T) {
	rec := unclean(Floor{TargetID: at(0), Pos: placed(9)}, Floor{TargetID: at(2), Pos: placed(9)})
	rec.Frontier = Position{Ledger: 7, Entry: 0}
	r := newRig(t, nil).on(evActive).on(evSubscribed)
	r.gen = r.asked
	r.step(Event{Kind: evCheckpointClaimed, Gen: r.gen, Record: rec, Begun: true, Pos: Position{Ledger: 7, Entry: 3}})
	r.want("look 0 to 3", "record epoch 2 frontier 0 0@9 2@9").stored().state(Recovering)
	r.step(Event{Kind: evLooked, Hole: hole{after: rec.Frontier, upTo: Position{Ledger: 7, Entry: 3}, opening: true}})
	r.on(evTick).want("record epoch 2 frontier 0 0@9 2@9").layout(splitOne(t)).want()
	r.stored().want("record epoch 2 frontier 0 0@9 2@9").state(Recovering)
	r.stored().want("evidence lost 0", "claim 2 gen 1").claimed(2, 1, 20).want("scan 2 gen 1 from 9 to 20")
	r.scanned(2, 1).stored().state(Running)
}

// A segment that seemed to be pruned answers after all, and its log is trimmed: the
// second suspicion counts as the first one did.
func TestSuspectedTwice(t *testing.T) {
	r := newRig(t, stops).openOne().doubt(1, 1).layout(merged(t))
	r.step(Event{Kind: evGone, Target: at(1), Gen: 2, Err: errLost}).want("record epoch 1 frontier -1 1@5")
	r.claimed(1, 2, 9).want("scan 1 gen 2 from 5 to 9").stored().trimmed(1, 2).stored()
	r.want("evidence lost 1").holds("target segment 1: its log was trimmed")
}

// What was never sent to a target needs no evidence, and no floor.
func TestUnsentIsNotInDoubt(t *testing.T) {
	r := newRig(t, nil).openOne().receipt(1, 1, 1, 6).layout(splitOne(t)).give(1, rightKey()).on(evTick).stored()
	r.claimed(3, 1, 5).want("record epoch 1 frontier 0 3@5!").step(Event{Kind: evDoubt, Target: at(3), Gen: 1, Err: errLost}).want("claim 3 gen 2")
	r.ended(3, 2).want("release 3").on(evInactive).stored().want("record epoch 1 frontier 0").stored().on(evAcked).want("close")
}
