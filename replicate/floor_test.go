package replicate

import "testing"

// Hand-over while a newer layout waits for one of two segments: parts that wait in the other
// (settled, open, ending) are sent, since nobody else brings them to an end.
func TestHandOverSendsWhatWaits(t *testing.T) {
	l, k := leftKey(), rightKey()
	r := newRig(t, nil).open(splitOne(t)).give(0, l).give(1, k)
	r.claimed(2, 1, 5).stored().claimed(3, 1, 6).stored()
	r.receipt(3, 1, 1, 7).layout(merged(t)).want("claim 2 gen 2")
	r.give(2, k).want()
	r.on(evInactive).on(evTick)
	if len(r.m.targets[at(3)].queue) > 0 && r.m.targets[at(3)].sent == 0 {
		t.Errorf("state %v, a part waits in segment 3 for ever", r.m.state)
	}
}

// Fresh must go once a part was sent above the floor.
func TestFreshGoesWithTheFirstPart(t *testing.T) {
	r := newRig(t, nil).openOne() // entry 0 was sent to segment 1, above its barrier
	r.layout(one(t)).fails(evCheckpointLost).checkpoint(&Record{Epoch: 1, Frontier: noPosition()})
	for _, f := range r.m.written.Floors {
		if f.Fresh {
			t.Errorf("record %s: said to be fresh with a part sent above it", recordText(r.m.written))
		}
	}
}

// What a hand-over leaves in doubt may be stored; the record must go on listing the segment,
// at a floor below it (invariants Declare and Floor), or no SETTLE will ever look there, and the
// guard lets a sealed one go.
func TestAbandonedFloorStays(t *testing.T) {
	r := newRig(t, nil).openOne().give(1, leftKey()).receipt(1, 1, 1, 6).on(evInactive).doubt(1, 1).state(Settling)
	if f := r.m.written.floor(at(1)); f == nil || f.Pos.Compare(placed(6)) > 0 {
		t.Errorf("last record %q, with entry 1 in doubt on segment 1 above 6", recordText(r.m.written))
	}
}

// A claim after a doubt must not raise the floor to its own barrier, past parts that may be stored below it.
func TestDoubtKeepsTheFloor(t *testing.T) {
	r := newRig(t, nil).openOne().doubt(1, 1).claimed(1, 2, 20)
	if f := r.m.written.floor(at(1)); f == nil || f.Pos.Compare(placed(5)) > 0 {
		t.Errorf("record %q, with entry 0 in doubt between 5 and 20", recordText(r.m.written))
	}
}
