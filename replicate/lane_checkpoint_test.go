package replicate

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// A lost checkpoint producer is taken again; the record on its way is written
// again; the lane copies on meanwhile, but acknowledges nothing.
func TestCheckpointReclaimed(t *testing.T) {
	r := newRig(t, nil).openOne().receipt(1, 1, 1, 6).on(evTick).want("record epoch 1 frontier 0 1@6")
	r.fails(evCheckpointLost).want("claim checkpoint")
	r.give(1, leftKey()).want("send 1 gen 1 seq 2: 1[*]").receipt(1, 1, 2, 7).on(evTick).want()
	r.checkpoint(&Record{Epoch: 1, Frontier: noPosition()}).want("record epoch 1 frontier 0 1@6")
	r.stored().want("ack 0").on(evTick).want("record epoch 1 frontier 1 1@7")
}

// With none on its way it is written all the same: the topic may have lost one.
func TestCheckpointReclaimedIdle(t *testing.T) {
	r := newRig(t, nil).openOne().fails(evCheckpointLost).want("claim checkpoint")
	r.checkpoint(&Record{Epoch: 1, Frontier: noPosition()})
	if len(r.last) != 1 || r.last[0].Kind != efWriteRecord {
		t.Errorf("effects %v", r.last)
	}
	r.stored().want().state(Running)
}

// Another epoch, or none: somebody else opened the lane.
func TestCheckpointDeposed(t *testing.T) {
	for _, rec := range []*Record{nil, {Epoch: 2}, {Epoch: 0}} {
		r := newRig(t, nil).openOne().receipt(1, 1, 1, 6).fails(evCheckpointLost)
		r.checkpoint(rec).want("close deposed: deposed: another instance opened this lane").state(Closed)
		r.receipt(1, 1, 2, 7).on(evTick).stored().want()
	}
}

// Nothing is written while the checkpoint is not ours, whatever waits for it.
func TestCheckpointAwaited(t *testing.T) {
	r := newRig(t, nil).open(one(t)).give(0, leftKey()).fails(evCheckpointLost)
	r.claimed(1, 1, 5).want()
	r.checkpoint(&Record{Epoch: 1, Frontier: noPosition()}).want("record epoch 1 frontier -1 1@5!")
	r.stored().want("send 1 gen 1 seq 1: 0[*]")
}

// The end of a producer is told more than once, and late: it is not that of its successor.
func TestCheckpointLostTwice(t *testing.T) {
	r := newRig(t, nil).openOne().fails(evCheckpointLost).want("claim checkpoint").fails(evCheckpointLost).want()
	old := r.gen
	r.checkpoint(&Record{Epoch: 1, Frontier: noPosition()}).stored()
	r.step(Event{Kind: evCheckpointLost, Gen: old, Err: errLost}).want()
	r.receipt(1, 1, 1, 6).on(evTick).want("record epoch 1 frontier 0 1@6")
	r.step(Event{Kind: evRecordStored, Gen: old}).want() // its receipts are not the successor's, either
	r.stored().want("ack 0")
}

// An epoch is ours when the first record under it has its receipt, not before: a
// session that loses the checkpoint without, even while it drains, must not take it
// again. Another instance may have taken the same epoch meanwhile, and its record
// would be taken for ours. Found by the model: a frontier fell back from 9 to -1.
func TestEpochUnproven(t *testing.T) {
	for _, leave := range []EventKind{evInactive, evStop} {
		r := newRig(t, nil).layout(one(t)).on(evSubscribed).on(evActive)
		r.checkpoint(&Record{Epoch: 1, Frontier: noPosition()}).state(Recording)
		r.on(leave).want().state(Settling)
		r.fails(evCheckpointLost).want("close clean: connection lost").state(Closed)
	}
}

// A sealed segment is finished when it is drained, copied, recorded and acknowledged.
func TestFinished(t *testing.T) {
	r := newRig(t, nil).openOne().on(evSealed).on(evTick).want()
	r.drained().want().state(Running) // in flight
	r.receipt(1, 1, 1, 6).drained().want().state(Running)
	r.on(evTick).want("record epoch 1 frontier 0 1@6").on(evTick).want().drained().want().state(Running)
	r.stored().want("ack 0").on(evTick).want()
	r.on(evAcked).on(evTick).want("probe")
	r.give(1, leftKey()).want("send 1 gen 1 seq 2: 1[*]").drained().want().state(Running) // an old answer
	r.receipt(1, 1, 2, 7).on(evTick).stored().want("ack 1").on(evAcked).on(evTick).want("probe")
	r.drained().want("record epoch 1 frontier 1 clean finished").state(Settling)
	r.stored().want("close clean finished").state(Closed)
}

func TestNotFinished(t *testing.T) {
	// Not sealed, or sealed and nothing read yet: only the second is asked for.
	newRig(t, nil).open(one(t)).on(evTick).want()
	r := newRig(t, func(cfg *MachineConfig) { cfg.Sealed = true }).open(one(t)).on(evTick).want("probe")
	r.drained().want("record epoch 1 frontier -1 clean finished").stored().want("close clean finished")
	// A newer layout of the target is taken first.
	newRig(t, nil).openOne().on(evSealed).layout(splitOne(t)).want("claim 1 gen 2").drained().want().state(Running)
	// The source was lost meanwhile: the record does not say finished.
	r = newRig(t, nil).open(one(t)).on(evSealed).on(evTick).want("probe").fails(evSourceClosed).drained().want().state(Settling)
	r.stored().want("close clean: source consumer: connection lost")
}

// An answer that was asked for before the seal says nothing of what came until it.
func TestNotFinishedByAnOldAnswer(t *testing.T) {
	r := newRig(t, nil).open(one(t)).on(evSealed)
	r.step(Event{Kind: evBacklog}).want().state(Running)
}

// One that was asked for before the last acknowledgement counts what that is of.
func TestNotBehindByAnOldAnswer(t *testing.T) {
	r := newRig(t, nil).open(one(t)).on(evSealed)
	for _, early := range []bool{true, false} {
		r.step(Event{Kind: evBacklog, N: 2, Sealed: true, Early: early})
		if behind, _ := r.m.behindSource(); behind == early {
			t.Errorf("early %v: behind %v", early, behind)
		}
	}
}

// A broker may forget to wake a cursor at the end of a segment that is sealed:
// what it has and does not deliver is asked for by a new session.
func TestStarved(t *testing.T) {
	r := newRig(t, nil).open(one(t)).on(evSealed)
	has := Event{Kind: evBacklog, N: 2, Sealed: true}
	for range starvedProbes - 1 {
		r.step(has).want().state(Running)
	}
	r.giveEntry(0, single(t, func(md *outer) { md.ReplicatedFrom = proto.String("north") })).want()
	r.on(evTick).stored().on(evAcked)
	for range starvedProbes - 1 {
		r.step(has).want().state(Running)
	}
	r.step(has).want("record epoch 1 frontier 0 clean").stored()
	r.want("close clean: the source has a backlog of 2 and delivers nothing")

	// An active segment may wait for an open transaction: it has stall_timeout.
	r = newRig(t, nil).open(one(t))
	for range 4 * starvedProbes {
		r.step(Event{Kind: evBacklog, N: 2}).want().state(Running)
	}
	if got := r.m.stuck(); got != "the source has a backlog of 2 and delivers nothing" {
		t.Errorf("stuck: %q", got)
	}
}
