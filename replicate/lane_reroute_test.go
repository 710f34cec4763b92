package replicate

import "testing"

// A target that is sealed: what it accepted stays, the rest is cut again and
// sent, in source order, before anything newer.
func TestRerouteSealed(t *testing.T) {
	l, r := leftKey(), rightKey()
	rig := newRig(t, nil).openOne().give(1, r, l).want("send 1 gen 1 seq 2: 1[*]").give(2, l).give(3, r)
	rig.receipt(1, 1, 1, 6).doubt(1, 1).want("claim 1 gen 2")
	rig.give(4, l).want()
	// The layout may come before the claim is answered, or after.
	rig.layout(splitOne(t)).want()
	rig.ended(1, 2).want("scan 1 gen 2 from 5 to -1")
	rig.scanned(1, 2).want("record epoch 1 frontier 0 1@6", "release 1", "claim 3 gen 1", "claim 2 gen 1", "rerouted 4")
	rig.give(5, r).want().stored().want("ack 0")
	rig.claimed(2, 1, 20).stored().want("send 2 gen 1 seq 1: 1[1]", "send 2 gen 1 seq 2: 2[*]", "send 2 gen 1 seq 3: 4[*]")
	rig.claimed(3, 1, 30).stored().want("send 3 gen 1 seq 1: 1[0]", "send 3 gen 1 seq 2: 3[*]", "send 3 gen 1 seq 3: 5[*]")
	// What the segment answers now has no meaning any more.
	rig.receipt(1, 1, 2, 7).want().receipt(1, 2, 1, 7).want().doubt(1, 2).want()
	rig.receipt(2, 1, 1, 21).receipt(3, 1, 1, 31).on(evTick).want("record epoch 1 frontier 1 2@21 3@31")
}

func TestRerouteClaimAnsweredFirst(t *testing.T) {
	rig := newRig(t, nil).openOne().doubt(1, 1).ended(1, 2).scanned(1, 2).stored().want("release 1")
	rig.give(1, rightKey()).want()
	if why := rig.m.Why(); why != "target segment 1 is sealed; waits for the newer layout" {
		t.Errorf("why: %q", why)
	}
	rig.layout(splitOne(t)).want("release 1", "claim 2 gen 1", "claim 3 gen 1", "rerouted 2")
	rig.claimed(2, 1, 20).stored().want("send 2 gen 1 seq 1: 0[*]")
}

// While sends to the old segment may still be answered, nothing goes to the new ones.
func TestRerouteWaitsForReceipts(t *testing.T) {
	rig := newRig(t, nil).openOne().layout(splitOne(t)).want("claim 1 gen 2")
	rig.give(1, leftKey()).want()
	rig.receipt(1, 1, 1, 6).want("release 1", "claim 2 gen 1", "rerouted 1")
	rig.ended(1, 2).want()
	rig.claimed(2, 1, 20).stored().want("ack 0", "send 2 gen 1 seq 1: 1[*]")
}

// With nothing on its way a newer layout is taken at once.
func TestRerouteIdle(t *testing.T) {
	rig := newRig(t, nil).openOne().receipt(1, 1, 1, 6).layout(splitOne(t)).want("release 1")
	rig.give(1, rightKey()).want("claim 3 gen 1")
}

// A merge waits for both of its segments: a key of one may not overtake itself.
func TestRerouteMerge(t *testing.T) {
	l, r := leftKey(), rightKey()
	rig := newRig(t, nil).open(splitOne(t)).give(0, l).give(1, r)
	rig.claimed(2, 1, 5).stored().claimed(3, 1, 6).stored().want("send 3 gen 1 seq 1: 1[*]")
	rig.receipt(2, 1, 1, 7).layout(merged(t)).want("claim 3 gen 2")
	rig.give(2, l).want().give(3, r).want()
	rig.ended(3, 2).scanned(3, 2).stored().want("ack 0")
	rig.claimed(4, 1, 9).want("record epoch 1 frontier 0 4@9!")
	rig.stored().want("send 4 gen 1 seq 1: 1[*]", "send 4 gen 1 seq 2: 2[*]", "send 4 gen 1 seq 3: 3[*]")
}

// Layouts may change again while parts wait for the first change.
func TestRerouteTwice(t *testing.T) {
	rig := newRig(t, nil).openOne().give(1, rightKey()).doubt(1, 1)
	rig.layout(splitOne(t)).layout(merged(t)).want()
	rig.ended(1, 2).scanned(1, 2).want("record epoch 1 frontier -1 1@5", "release 1", "claim 4 gen 1", "rerouted 2")
	rig.stored().claimed(4, 1, 9).stored().want("send 4 gen 1 seq 1: 0[*]", "send 4 gen 1 seq 2: 1[*]")
}

// Children that are sealed before they were ours: what was meant for them moves on.
func TestRerouteBeforeClaimed(t *testing.T) {
	rig := newRig(t, nil).open(splitOne(t)).give(0, leftKey()).give(1, rightKey()).want("claim 3 gen 1")
	rig.layout(merged(t))
	rig.claimed(2, 1, 5).want().claimed(3, 1, 5).want()
	rig.claimed(4, 1, 9).stored().want("send 4 gen 1 seq 1: 0[*]", "send 4 gen 1 seq 2: 1[*]")
}

// The same segments under a newer epoch end nothing.
func TestRerouteSameSegments(t *testing.T) {
	rig := newRig(t, nil).openOne().layout(one(t)).want().give(1, leftKey()).want("send 1 gen 1 seq 2: 1[*]")
	rig.receipt(1, 1, 1, 6).receipt(1, 1, 2, 7).on(evTick).want("record epoch 1 frontier 1 1@7")
}
