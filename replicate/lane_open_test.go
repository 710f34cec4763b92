package replicate

import "testing"

func TestAttaching(t *testing.T) {
	r := newRig(t, nil)
	r.on(evEntry).want().on(evActive).want().state(Attaching)
	r.on(evSubscribed).want("claim checkpoint").state(Claiming)

	r = newRig(t, nil)
	r.on(evActive).on(evInactive).on(evSubscribed).want().state(Standby)
	r.on(evActive).want("claim checkpoint").state(Claiming)

	newRig(t, nil).on(evStop).want("close clean").state(Closed)
	newRig(t, nil).fails(evFailed).want("close clean: connection lost").state(Closed)
	newRig(t, nil).fails(evSourceClosed).want("close clean: source consumer: connection lost").state(Closed)
}

func TestStandby(t *testing.T) {
	r := newRig(t, nil).on(evSubscribed)
	r.on(evInactive).on(evTick).on(evCheckpointClaimed).layout(one(t)).want().state(Standby)
	r.on(evStop).want("close clean").state(Closed)
	r.on(evActive).on(evStop).want().state(Closed)
}

// Nothing of a child is begun before each parent is finished or gone.
func TestWaiting(t *testing.T) {
	unready := func() *rig {
		r := newRig(t, func(cfg *MachineConfig) { cfg.ParentsDone = false })
		return r.layout(one(t)).on(evSubscribed).on(evActive).want().state(Waiting)
	}
	r := unready()
	if r.m.Why() != "a parent segment is not finished" {
		t.Errorf("why: %q", r.m.Why())
	}
	r.on(evParentsDone).want("claim checkpoint").state(Claiming)
	r.on(evParentsDone).want().state(Claiming)
	unready().on(evInactive).want("close clean").state(Closed)
	unready().on(evStop).want("close clean").state(Closed)

	// Known before this instance is elected.
	r = newRig(t, func(cfg *MachineConfig) { cfg.ParentsDone = false }).on(evSubscribed)
	r.on(evParentsDone).want().state(Standby).on(evActive).want("claim checkpoint")
}

func TestClaiming(t *testing.T) {
	claiming := func() *rig { return newRig(t, nil).on(evActive).on(evSubscribed).state(Claiming) }
	claiming().checkpoint(nil).want("record epoch 1 frontier -1").state(Recording)
	rec := Record{Epoch: 6, Frontier: Position{Ledger: 7, Entry: 3}, Clean: true, Floors: []Floor{{TargetID: at(1), Pos: placed(9)}}}
	claiming().checkpoint(&rec).want("record epoch 7 frontier 3 1@9").state(Recording)
	if rec.Epoch != 6 || !rec.Clean {
		t.Errorf("the record that was found changed: %+v", rec)
	}
	rec.Finished = true
	// The source's cursor may have rolled back since: it is moved once more.
	claiming().checkpoint(&rec).want("ack 3").state(Parting).on(evAcked).want("close clean finished").state(Closed)
	claiming().on(evInactive).want("close clean").state(Closed)
}

// Permits are given only after the first record has its receipt; the source is
// acknowledged to what the record says, since its cursor may have rolled back.
func TestRecording(t *testing.T) {
	rec := Record{Epoch: 6, Frontier: Position{Ledger: 7, Entry: 3}, Clean: true}
	recording := func() *rig {
		r := newRig(t, nil).layout(one(t)).on(evActive).on(evSubscribed).checkpoint(&rec).state(Recording)
		if r.flows() {
			t.Error("permits before the receipt")
		}
		return r
	}
	if r := recording().on(evTick).want().stored().want("ack 3").state(Running); !r.flows() {
		t.Error("no permits after it")
	}
	// The epoch is not ours before its record has its receipt.
	recording().fails(evCheckpointLost).want("close: connection lost").state(Closed)

	r := recording().on(evStop).want().state(Settling)
	r.stored().want("ack 3", "record epoch 7 frontier 3 clean").state(Settling)
	r.stored().want().state(Parting).on(evAcked).want("close clean").state(Closed)
}

// Each target of the record is taken, and proven by a write, before anything is read.
func TestRecovering(t *testing.T) {
	rec := Record{Epoch: 1, Frontier: Position{Ledger: 7, Entry: 3}, Clean: true, Floors: []Floor{{TargetID: at(2), Pos: placed(9)}, {TargetID: at(3), Pos: placed(8)}}}
	r := newRig(t, nil).layout(splitOne(t)).on(evActive).on(evSubscribed).checkpoint(&rec)
	r.stored().want("ack 3", "claim 2 gen 1", "claim 3 gen 1").state(Recovering)
	r.claimed(2, 1, 20).want("record epoch 2 frontier 3 2@20 3@8").state(Recovering)
	r.claimed(3, 1, 30).want().state(Recovering)
	if r.stored().want("record epoch 2 frontier 3 2@20 3@30").state(Recovering); r.flows() {
		t.Error("permits while a claim is not proven")
	}
	if r.stored().want().state(Running); !r.flows() {
		t.Error("no permits")
	}
	// At or before the record's frontier: acknowledged only.
	r.give(3, leftKey()).want()
	r.give(4, leftKey()).want("send 2 gen 1 seq 1: 4[*]")
}

func TestRecoveringWithoutLayout(t *testing.T) {
	rec := Record{Epoch: 1, Frontier: noPosition(), Floors: []Floor{{TargetID: at(1), Pos: placed(9)}}}
	r := newRig(t, nil).on(evActive).on(evSubscribed).checkpoint(&rec).stored().want().state(Recovering)
	if r.m.Why() != "the target's layout is not known yet" {
		t.Errorf("why: %q", r.m.Why())
	}
	r.fails(evTargetMissing).want().state(Recovering)
	if r.m.Why() != "connection lost" {
		t.Errorf("why: %q", r.m.Why())
	}
	r.layout(one(t)).want("claim 1 gen 1").claimed(1, 1, 10).want("scan 1 gen 1 from 9 to 10").scanned(1, 1).stored().state(Running)
}

// A record that is not clean may hide parts above its frontier in a segment that
// was sealed since: it is read to its end, and its floor stays until what was
// found there has come again. After a clean one there is nothing to look for.
func TestRecoveringSealed(t *testing.T) {
	floors := []Floor{{TargetID: at(1), Pos: placed(9)}}
	open := func(clean bool) *rig {
		return newRig(t, nil).layout(splitOne(t)).on(evActive).on(evSubscribed).
			checkpoint(&Record{Epoch: 1, Frontier: noPosition(), Clean: clean, Floors: floors}).stored()
	}
	r := open(false).want("claim 1 gen 1").ended(1, 1).want("scan 1 gen 1 from 9 to -1").state(Recovering)
	r.scanned(1, 1, storedCopy(1, 12, 2, 0)).want("record epoch 2 frontier -1 1@9")
	r.stored().want("release 1").state(Running)
	r.give(0, leftKey()).want("claim 2 gen 1").claimed(2, 1, 5).stored().receipt(2, 1, 1, 10)
	r.on(evTick).want("record epoch 2 frontier 0 1@9 2@10").stored()
	r.give(1, rightKey(), leftKey()).want("present 1", "send 2 gen 1 seq 2: 1[1]").receipt(2, 1, 2, 11)
	r.on(evTick).want("record epoch 2 frontier 1 2@11")

	r = open(true).state(Running)
	r.give(0, leftKey()).want("claim 2 gen 1").claimed(2, 1, 5).stored().receipt(2, 1, 1, 10)
	r.on(evTick).want("record epoch 2 frontier 0 2@10")
}

// The entries of what was found may never come again: the source has nothing more.
func TestPresentForgotten(t *testing.T) {
	r := newRig(t, nil).layout(one(t)).on(evActive).on(evSubscribed)
	r.checkpoint(&Record{Epoch: 3, Frontier: noPosition(), Floors: []Floor{{TargetID: at(1), Pos: placed(5)}}}).stored().claimed(1, 1, 9)
	r.scanned(1, 1, storedCopy(0, 7, 1)).stored().state(Running)
	r.on(evTick).want().on(evBacklog).on(evTick).want("record epoch 4 frontier -1 1@9")
	r.stored().on(evStop).want("record epoch 4 frontier -1 clean 1@9")
}
