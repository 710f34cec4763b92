package replicate

import (
	"errors"
	"testing"

	"github.com/geobridge/geobridge/reroute"
)

// stuck compares what the lane waits for that nothing else ends.
func (r *rig) stuck(want string) *rig {
	r.t.Helper()
	if got := r.m.stuck(); got != want {
		r.t.Errorf("stuck: %q, want %q", got, want)
	}
	return r
}

// moves reports whether the step was progress.
func (r *rig) moves(ev Event) bool {
	before := r.m.moved
	r.step(ev)
	return r.m.moved != before
}

var errStill = errors.New("no progress for 2m0s")

func TestStuckWithoutReceipt(t *testing.T) {
	r := newRig(t, nil).openOne().stuck("target segment 1 gives no receipt")
	// What comes after the one that waits is no progress; the frontier's step is.
	r.give(1, leftKey())
	if r.moves(Event{Kind: evReceipt, Target: at(1), Gen: 1, Seq: 2, Pos: placed(7)}) {
		t.Error("a receipt above the gap counts as progress")
	}
	r.stuck("target segment 1 gives no receipt")
	if !r.moves(Event{Kind: evReceipt, Target: at(1), Gen: 1, Seq: 1, Pos: placed(6)}) {
		t.Error("the frontier's step is no progress")
	}
	// A claim that is tried again has its own reason.
	newRig(t, nil).openOne().doubt(1, 1).stuck("")
	// The lane opens anew; what has no receipt may be stored.
	newRig(t, nil).openOne().step(Event{Kind: evStalled, Err: errStill}).want("close: no progress for 2m0s").state(Closed)
}

func TestStuckAtASeal(t *testing.T) {
	r := newRig(t, nil).openOne().doubt(1, 1)
	r.ended(1, 2).stuck("").scanned(1, 2).stored().stuck("target segment 1 is sealed, and no newer layout comes")
	if !r.moves(Event{Kind: evLayout, Layout: splitOne(t)}) {
		t.Error("a newer layout is no progress")
	}
}

// An idle lane moves by the source's word that there is nothing.
func TestStuckIdle(t *testing.T) {
	r := newRig(t, nil).open(one(t)).stuck("the source does not tell whether it has more")
	if !r.moves(Event{Kind: evBacklog}) {
		t.Error("an empty backlog is no progress")
	}
	if r.moves(Event{Kind: evBacklog, Err: errLost}) {
		t.Error("no answer is progress")
	}
	r.stuck("the source does not tell whether it has more: connection lost")
	if r.moves(Event{Kind: evBacklog, N: 3}) {
		t.Error("a backlog that is not delivered is progress")
	}
	r.stuck("the source has a backlog of 3 and delivers nothing")
	r.step(Event{Kind: evStalled, Err: errStill}).stored().want("close clean: no progress for 2m0s")
	// A lane that stops by policy waits for people.
	held := newRig(t, nil).open(one(t))
	held.m.stopAt(&entry{}, "policy")
	held.stuck("")
}

// The news of an election may be lost: somebody has to copy.
func TestStuckStandby(t *testing.T) {
	r := newRig(t, nil).on(evSubscribed).state(Standby).stuck("")
	if !r.moves(Event{Kind: evBacklog, N: 3}) || !r.moves(Event{Kind: evBacklog, N: 2}) {
		t.Error("a backlog that changes is no progress")
	}
	if r.moves(Event{Kind: evBacklog, N: 2}) {
		t.Error("a backlog that stays is progress")
	}
	r.stuck("the source has a backlog of 2, and nobody copies it")
	r.step(Event{Kind: evStalled, Err: errStill}).want("close clean: no progress for 2m0s")
	newRig(t, nil).on(evSubscribed).step(Event{Kind: evBacklog}).stuck("")
}

// A segment that is sealed, drained and pruned while its claim is under way is at
// its end, and no reason to end the session undrained.
func TestGoneIsAnEnd(t *testing.T) {
	r := newRig(t, nil).open(one(t)).give(0, leftKey()).want("claim 1 gen 1")
	gone := Event{Kind: evGone, Target: at(1), Gen: 1, Err: errLost}
	r.step(gone).want().state(Running)
	if got := r.m.Why(); got != "takes target segment 1: connection lost" {
		t.Errorf("why: %q", got)
	}
	r.layout(splitOne(t)).want("release 1", "claim 2 gen 1", "rerouted 1")
}

// A hand-over has given up the first entry, whose target was being taken: it waits for
// receipts of what comes behind it all the same.
func TestStuckInAHandOver(t *testing.T) {
	r := newRig(t, nil).open(mustLayout(t, 2, reroute.Segment{ID: 2, CreatedAtMs: 12, Range: leftHalf}, reroute.Segment{ID: 3, CreatedAtMs: 13, Range: rightHalf}))
	r.give(0, rightKey()).want("claim 3 gen 1").give(1, leftKey()).want("claim 2 gen 1")
	r.claimed(2, 1, 5).stored().want("send 2 gen 1 seq 1: 1[*]").stuck("")
	r.on(evInactive).want().state(Draining).stuck("target segment 2 gives no receipt")
	r.step(Event{Kind: evStalled, Err: errStill}).want("close: no progress for 2m0s").state(Closed)
}
