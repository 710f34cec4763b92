package replicate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// A new target is claimed, declared, and only then sent to.
func TestRunningNewTarget(t *testing.T) {
	r := newRig(t, nil).open(one(t))
	r.give(0, leftKey()).want("claim 1 gen 1")
	r.give(1, rightKey()).want()
	r.claimed(1, 1, 5).want("record epoch 1 frontier -1 1@5!")
	r.stored().want("send 1 gen 1 seq 1: 0[*]", "send 1 gen 1 seq 2: 1[*]")
}

// A record that is on its way when the claim is answered does not declare it.
func TestRunningDeclaredByALaterRecord(t *testing.T) {
	r := newRig(t, nil).openOne()
	r.receipt(1, 1, 1, 6).on(evTick).want("record epoch 1 frontier 0 1@6")
	r.layout(splitOne(t)).want("release 1")
	r.give(1, leftKey()).want("claim 2 gen 1").claimed(2, 1, 50).want()
	r.stored().want("ack 0", "record epoch 1 frontier 0 2@50!")
	r.stored().want("send 2 gen 1 seq 1: 1[*]")
}

// Nothing is acknowledged but up to the frontier of the last receipted record.
func TestRunningAck(t *testing.T) {
	r := newRig(t, nil).openOne().give(1, rightKey()).want("send 1 gen 1 seq 2: 1[*]")
	r.receipt(1, 1, 1, 6).want()
	r.on(evTick).want("record epoch 1 frontier 0 1@6")
	r.receipt(1, 1, 2, 7).on(evTick).want()
	r.stored().want("ack 0")
	r.on(evTick).want("record epoch 1 frontier 1 1@7")
	r.stored().want("ack 1").on(evAcked).on(evTick).want()
}

// An acknowledgement that failed is made again.
func TestRunningAckFails(t *testing.T) {
	r := newRig(t, nil).openOne().receipt(1, 1, 1, 6).on(evTick).stored().want("ack 0")
	r.on(evTick).want()
	r.fails(evAcked).want().on(evTick).want("ack 0").on(evAcked).on(evTick).want()
}

// Receipts may come in any order; the frontier waits for the first gap to close.
func TestRunningPermutedReceipts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const n = 8
	for range 50 {
		r := newRig(t, nil).openOne()
		for i := range n - 1 {
			r.give(int64(i+1), leftKey())
		}
		have := map[int]bool{}
		for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(n) {
			r.receipt(1, 1, uint64(i+1), int64(6+i)).receipt(1, 1, uint64(i+1), int64(6+i))
			have[i] = true
			want := 0
			for have[want] {
				want++
			}
			if got := r.m.entries.frontier.Entry; got != int64(want-1) {
				t.Fatalf("receipts %v: frontier %d", have, got)
			}
		}
		r.on(evTick).want("record epoch 1 frontier 7 1@13")
		seed++
	}
}

// The floor is the last part of an entry at or before the frontier, as long as
// one above it is stored or on its way.
func TestRunningFloor(t *testing.T) {
	r := newRig(t, nil).openOne()
	for i := range 3 {
		r.give(int64(i+1), leftKey())
	}
	r.receipt(1, 1, 1, 6).receipt(1, 1, 3, 8).on(evTick).want("record epoch 1 frontier 0 1@6").stored()
	r = newRig(t, nil).openOne().give(1, leftKey()).give(2, leftKey())
	r.receipt(1, 1, 1, 6).receipt(1, 1, 2, 7).on(evTick).want("record epoch 1 frontier 1 1@7").stored()
	r.receipt(1, 1, 3, 8).on(evTick).want("record epoch 1 frontier 2 1@8")
}

// An entry with parts for two targets is complete with the last receipt.
func TestRunningSplitEntry(t *testing.T) {
	r := newRig(t, nil).open(splitOne(t))
	r.give(0, leftKey(), rightKey()).want("claim 2 gen 1", "claim 3 gen 1")
	r.claimed(2, 1, 5).stored().want("send 2 gen 1 seq 1: 0[0]")
	r.receipt(2, 1, 1, 6).on(evTick).want()
	r.claimed(3, 1, 7).stored().want("send 3 gen 1 seq 1: 0[1]")
	r.receipt(3, 1, 1, 8).on(evTick).want("record epoch 1 frontier 0 2@6 3@8")
}

// After a doubt nothing is sent before the target is claimed anew and proven;
// then what has no receipt goes out again, in order, ahead of anything newer.
func TestRunningDoubt(t *testing.T) {
	r := newRig(t, nil).openOne().give(1, leftKey()).give(2, leftKey()).want("send 1 gen 1 seq 3: 2[*]")
	r.receipt(1, 1, 2, 7).doubt(1, 1).want("claim 1 gen 2").doubt(1, 1).want()
	if why := r.m.Why(); !strings.HasPrefix(why, "takes target segment 1") {
		t.Errorf("why: %q", why)
	}
	r.give(3, leftKey()).want()
	r.receipt(1, 1, 1, 6).want() // one that still came
	r.claimed(1, 2, 20).want("scan 1 gen 2 from 5 to 20").give(4, leftKey()).want()
	// Found and known, found and unknown, not found.
	r.scanned(1, 2, storedCopy(0, 6, 1), storedCopy(1, 7, 1)).want("record epoch 1 frontier 1 1@20")
	r.stored().want("ack 1", "send 1 gen 2 seq 1: 2[*]", "send 1 gen 2 seq 2: 3[*]", "send 1 gen 2 seq 3: 4[*]")
	// What belongs to the old generation changes nothing.
	left := r.m.unreceipted()
	r.receipt(1, 1, 1, 8).want().doubt(1, 1).want().claimed(1, 1, 30).want().ended(1, 1).want()
	if r.m.unreceipted() != left {
		t.Errorf("%d sends without receipt, want %d", r.m.unreceipted(), left)
	}
}

func TestRunningUnknownReceipts(t *testing.T) {
	r := newRig(t, nil).openOne()
	r.receipt(1, 1, 99, 6).want().receipt(9, 1, 1, 6).want().doubt(9, 1).want().claimed(9, 1, 1).want().ended(9, 1).want()
	if r.m.unreceipted() != 1 {
		t.Errorf("%d sends without receipt", r.m.unreceipted())
	}
}

// Delivered twice, sent once.
func TestRunningRedelivery(t *testing.T) {
	r := newRig(t, nil).openOne().give(1, leftKey()).want("send 1 gen 1 seq 2: 1[*]")
	held := r.m.flow.held
	r.give(0, leftKey()).want("drop 0").give(1, leftKey()).want("drop 1")
	if r.m.flow.held != held || len(r.m.entries.queue) != 2 {
		t.Errorf("%d bytes, %d entries held; want %d, 2", r.m.flow.held, len(r.m.entries.queue), held)
	}
}

// What is skipped moves the frontier and leaves no part.
func TestRunningSkip(t *testing.T) {
	r := newRig(t, nil).open(one(t))
	r.giveEntry(0, single(t, func(md *outer) { md.ReplicatedFrom = proto.String("north") })).want()
	r.on(evTick).want("record epoch 1 frontier 0").stored().want("ack 0")
}

// Parked entries are acknowledged once they are parked.
func TestRunningPark(t *testing.T) {
	r := newRig(t, nil).open(splitOne(t))
	r.giveEntry(0, encryptedBatch(t)).want("take parking gen 1").giveEntry(1, encryptedBatch(t)).want()
	r.parkingTaken(1, 7).want("record epoch 1 frontier -1 parked@7").stored().want("park 0 encrypted", "park 1 encrypted")
	r.step(Event{Kind: evParked, Gen: 1}).on(evTick).want("record epoch 1 frontier 0 parked@7").stored().want("ack 0")
}

func TestRunningHold(t *testing.T) {
	for _, row := range []struct {
		name, why string
		entry     *entry
	}{
		{"poison, on_unroutable: stop", "entry 7:1: unroutable (encrypted), and on_unroutable is stop", encryptedBatch(t)},
		{"chunk", "entry 7:1: chunked messages are not yet supported", single(t, func(md *outer) {
			md.Uuid, md.ChunkId, md.NumChunksFromMsg = proto.String("u"), proto.Int32(0), proto.Int32(2)
		})},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, func(cfg *MachineConfig) { cfg.StopPoison = true }).open(splitOne(t))
			r.give(0, leftKey()).claimed(2, 1, 5).stored().want("send 2 gen 1 seq 1: 0[*]")
			r.giveEntry(1, row.entry).want().give(2, leftKey()).want()
			if r.m.hold != row.why || r.m.Why() != row.why {
				t.Errorf("held: %q", r.m.hold)
			}
			// What came before is brought to its end, and no more is asked for.
			if r.receipt(2, 1, 1, 6); r.flows() {
				t.Error("permits beyond the entry that holds")
			}
			r.on(evTick).want("record epoch 1 frontier 0 2@6").stored().want("ack 0").on(evAcked)
			r.on(evStop).want("drop 1", "drop 2", "record epoch 1 frontier 0 clean 2@6").state(Settling).stored().want("close clean")
		})
	}
}

// An entry that arrives damaged is read again in a new session, and parked when
// that was tried often enough.
func TestRunningBadEntry(t *testing.T) {
	bad := func() *entry {
		e := keyed1(t, leftKey())
		e.bad = errors.New("checksum")
		return e
	}
	r := newRig(t, nil).openOne().giveEntry(1, bad()).want("drop 1").state(Draining)
	r.give(2, leftKey()).want()
	r.receipt(1, 1, 1, 6).want("record epoch 1 frontier 0 clean 1@6").state(Settling)
	r.stored().want("ack 0").on(evAcked).want("close clean bad 1: entry 7:1: checksum").state(Closed)

	r = newRig(t, func(cfg *MachineConfig) { cfg.Tolerate = Position{Ledger: 7, Entry: 1} }).openOne()
	r.giveEntry(1, bad()).want("take parking gen 1").state(Running).give(2, leftKey()).want("send 1 gen 1 seq 2: 2[*]")
	r.parkingTaken(1, 7).stored().want("park 1 undecodable")
}

// Every 8 MiB a record is written, however long the interval.
func TestRunningRecordBytes(t *testing.T) {
	r := newRig(t, func(cfg *MachineConfig) { cfg.MaxSize, cfg.Window = 4<<20, 16<<20 }).openOne()
	for i := range 3 {
		e := keyed1(t, leftKey())
		e.raw.Payload = make([]byte, 3<<20)
		r.giveEntry(int64(i+1), e).want(fmt.Sprintf("send 1 gen 1 seq %d: %d[*]", i+2, i+1))
	}
	r.receipt(1, 1, 1, 6).receipt(1, 1, 2, 7).receipt(1, 1, 3, 8).want()
	r.receipt(1, 1, 4, 9).want("record epoch 1 frontier 3 1@9")
}

// A topic that is gone ends the session; its next one waits for the topic.
func TestRunningTargetMissing(t *testing.T) {
	newRig(t, nil).openOne().fails(evTargetMissing).want("close: connection lost").state(Closed)
	r := newRig(t, nil).open(one(t)).fails(evTargetMissing).want().state(Running)
	r.give(0, leftKey()).want().layout(one(t)).want("claim 1 gen 1")
}
