package replicate

import "testing"

// A clean stop: no new entry, all receipts, the record, the acknowledgement, the end.
func TestStop(t *testing.T) {
	r := newRig(t, nil).openOne().give(1, leftKey()).on(evStop).want().state(Draining)
	r.give(2, leftKey()).want()
	if r.receipt(1, 1, 2, 7).want().receipt(1, 1, 1, 6).want("record epoch 1 frontier 1 clean 1@7").state(Settling); r.flows() {
		t.Error("permits while leaving")
	}
	r.stored().want("ack 1").state(Parting)
	r.on(evAcked).want("close clean").state(Closed)
	r.on(evAcked).on(evTick).on(evStop).fails(evSourceClosed).want()
}

// The last acknowledgement is not the only one awaited.
func TestStopAwaitsEachAck(t *testing.T) {
	r := newRig(t, nil).openOne().give(1, leftKey()).receipt(1, 1, 1, 6).on(evTick).stored().want("ack 0")
	r.on(evStop).receipt(1, 1, 2, 7).stored().want("ack 1").state(Parting)
	r.on(evAcked).want().state(Parting).on(evAcked).want("close clean")
}

// A record on its way is followed by the last one.
func TestStopWithRecordOnItsWay(t *testing.T) {
	r := newRig(t, nil).openOne().receipt(1, 1, 1, 6).on(evTick).want("record epoch 1 frontier 0 1@6")
	r.on(evStop).want().state(Settling)
	r.stored().want("ack 0", "record epoch 1 frontier 0 clean 1@6").state(Settling)
	r.stored().want().state(Parting).on(evAcked).want("close clean")
}

// A stop takes the time to bring what is in doubt, or sealed, to its end.
func TestStopThroughTrouble(t *testing.T) {
	r := newRig(t, nil).openOne().on(evStop).doubt(1, 1).want("claim 1 gen 2").state(Draining)
	r.claimed(1, 2, 9).want("scan 1 gen 2 from 5 to 9").scanned(1, 2).want("record epoch 1 frontier -1 1@9")
	r.stored().want("send 1 gen 2 seq 1: 0[*]")
	r.doubt(1, 2).want("claim 1 gen 3").ended(1, 3).want("scan 1 gen 3 from 9 to -1").scanned(1, 3).stored().want("release 1").state(Draining)
	r.layout(splitOne(t)).want("release 1", "claim 2 gen 1", "rerouted 1").state(Draining)
	r.claimed(2, 1, 20).stored().want("send 2 gen 1 seq 1: 0[*]")
	r.receipt(2, 1, 1, 21).state(Settling)
	r.stored().want("ack 0").on(evAcked).want("close clean").state(Closed)
}

// What the holder before left in doubt is clean once all of it was looked for, and came again.
func TestStopAfterUncleanRecord(t *testing.T) {
	unclean := func() *rig {
		r := newRig(t, nil).layout(one(t)).on(evActive).on(evSubscribed)
		r.checkpoint(&Record{Epoch: 3, Frontier: noPosition(), Floors: []Floor{{TargetID: at(1), Pos: placed(5)}}}).stored().want("claim 1 gen 1")
		return r.claimed(1, 1, 9).want("scan 1 gen 1 from 5 to 9").state(Recovering)
	}
	r := unclean()
	r.on(evStop).want("record epoch 4 frontier -1 1@5").state(Settling).stored().want("close clean")

	r = unclean().scanned(1, 1).stored().state(Running)
	r.on(evStop).want("record epoch 4 frontier -1 clean 1@9").state(Settling).stored().want("close clean")

	r = unclean().scanned(1, 1, storedCopy(0, 7, 1)).stored().state(Running)
	r.on(evStop).want("record epoch 4 frontier -1 1@5").state(Settling).stored().want("close clean")

	r = unclean().scanned(1, 1, storedCopy(0, 7, 1)).stored().give(0, leftKey()).want("present 1")
	r.on(evStop).want("record epoch 4 frontier 0 clean 1@9")
}

// A hand-over waits for receipts, and no longer for what is in doubt: the
// successor waits for the names.
func TestHandOver(t *testing.T) {
	r := newRig(t, nil).openOne().on(evInactive).want().state(Draining)
	r.receipt(1, 1, 1, 6).want("record epoch 1 frontier 0 clean 1@6").state(Settling)
	r.stored().want("ack 0").on(evAcked).want("close clean").state(Closed)
}

func TestHandOverInDoubt(t *testing.T) {
	for name, in := range map[string]func(*rig){
		"doubt, then inactive":        func(r *rig) { r.doubt(1, 1).on(evInactive) },
		"inactive, then doubt":        func(r *rig) { r.on(evInactive).doubt(1, 1) },
		"sealed, then inactive":       func(r *rig) { r.doubt(1, 1).ended(1, 2).on(evInactive) },
		"layout, inactive, then ends": func(r *rig) { r.layout(splitOne(r.t)).on(evInactive) },
		"source lost, then doubt":     func(r *rig) { r.fails(evSourceClosed).doubt(1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil).openOne().give(1, leftKey()).receipt(1, 1, 1, 6)
			in(r)
			r.state(Settling)
			last := r.m.written
			if last.Clean || last.Frontier.Entry != 0 {
				t.Errorf("record %s", recordText(last))
			}
			if r.claimed(1, 2, 9).want().stored(); r.m.lost {
				r.want("close: source consumer: connection lost").state(Closed)
				return
			}
			r.want("ack 0").on(evAcked).want("close").state(Closed)
		})
	}
}

// Without the source nothing is acknowledged; the record still counts.
func TestSourceLost(t *testing.T) {
	r := newRig(t, nil).openOne().fails(evSourceClosed).want().state(Draining)
	r.receipt(1, 1, 1, 6).want("record epoch 1 frontier 0 clean 1@6")
	r.stored().want("close clean: source consumer: connection lost").state(Closed)

	r = newRig(t, nil).openOne().on(evStop).receipt(1, 1, 1, 6).fails(evSourceClosed).want().state(Settling)
	r.stored().want("close clean: source consumer: connection lost").state(Closed)

	r = newRig(t, nil).openOne().on(evStop).receipt(1, 1, 1, 6).stored().want("ack 0").state(Parting)
	r.fails(evSourceClosed).want("close clean: source consumer: connection lost").state(Closed)
}

// The last record is written again if its producer is lost, unless somebody else
// opened the lane.
func TestSettlingCheckpointLost(t *testing.T) {
	settling := func() *rig {
		return newRig(t, nil).openOne().on(evStop).receipt(1, 1, 1, 6).state(Settling).fails(evCheckpointLost).want("claim checkpoint")
	}
	r := settling().checkpoint(&Record{Epoch: 1}).want("record epoch 1 frontier 0 clean 1@6").state(Settling)
	r.stored().want("ack 0").state(Parting)
	settling().checkpoint(&Record{Epoch: 2}).want("close deposed: deposed: another instance opened this lane")
}

// Something that the lane cannot work without ends it in any state.
func TestFailed(t *testing.T) {
	newRig(t, nil).openOne().fails(evFailed).want("close: connection lost").state(Closed)
	newRig(t, nil).openOne().on(evStop).fails(evFailed).want("close: connection lost").state(Closed)
}
