package replicate

import (
	"strings"
	"testing"
)

// Whatever a lane waits for, it says so, with the reason; a healthy one is silent.
func TestWhy(t *testing.T) {
	trouble := func(r *rig, k EventKind, target TargetID, gen int) *rig {
		return r.step(Event{Kind: k, Target: target, Gen: gen, Err: errLost}).want()
	}
	for _, row := range []struct {
		name string
		get  func(*rig) *rig
		want string
	}{
		{"running", func(r *rig) *rig { return r.openOne() }, ""},
		{"standby", func(r *rig) *rig { return r.on(evSubscribed) }, ""},
		{"checkpoint", func(r *rig) *rig { return r.on(evActive).on(evSubscribed) }, "takes the checkpoint topic"},
		{"checkpoint, refused", func(r *rig) *rig {
			return trouble(r.on(evActive).on(evSubscribed), evCheckpointTrouble, TargetID{}, 1)
		}, "takes the checkpoint topic: connection lost"},
		{"checkpoint lost", func(r *rig) *rig { return r.openOne().fails(evCheckpointLost) }, "takes the checkpoint topic: connection lost"},
		{"checkpoint back", func(r *rig) *rig {
			return r.openOne().fails(evCheckpointLost).checkpoint(&Record{Epoch: 1, Frontier: noPosition()})
		}, ""},
		{"target", func(r *rig) *rig { return r.open(one(t)).give(0, leftKey()) }, "takes target segment 1"},
		{"target, refused", func(r *rig) *rig {
			return trouble(r.open(one(t)).give(0, leftKey()), evTargetTrouble, at(1), 1)
		}, "takes target segment 1: connection lost"},
		{"target in doubt", func(r *rig) *rig { return r.openOne().doubt(1, 1) }, "takes target segment 1: connection lost"},
		{"target back", func(r *rig) *rig { return r.openOne().doubt(1, 1).claimed(1, 2, 9) },
			"reads target segment 1 for what is stored already"},
		{"cannot be read", func(r *rig) *rig {
			return trouble(r.openOne().doubt(1, 1).claimed(1, 2, 9), evTargetTrouble, at(1), 2)
		}, "reads target segment 1 for what is stored already: connection lost"},
		{"target read", func(r *rig) *rig { return r.openOne().doubt(1, 1).claimed(1, 2, 9).scanned(1, 2) }, ""},
		{"an old claim's trouble", func(r *rig) *rig { return trouble(r.openOne(), evTargetTrouble, at(1), 1) }, ""},
		{"parking", func(r *rig) *rig {
			return r.open(splitOne(t)).giveEntry(0, encryptedBatch(t)).step(Event{Kind: evParkTrouble, Gen: 1, Err: errLost})
		}, "takes the parking topic: connection lost"},
		{"parked", func(r *rig) *rig {
			r.open(splitOne(t)).giveEntry(0, encryptedBatch(t)).step(Event{Kind: evParkTrouble, Gen: 1, Err: errLost})
			return r.parkingTaken(1, 7).stored().step(Event{Kind: evParked, Gen: 1})
		}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.get(newRig(t, nil)).m.Why(); got != row.want {
				t.Errorf("why: %q, want %q", got, row.want)
			}
		})
	}
}

// While no record gets its receipt, reading ends before memory of what is copied grows.
func TestReadingEndsWithoutRecords(t *testing.T) {
	r := newRig(t, func(cfg *MachineConfig) { cfg.MaxSize, cfg.Window = 8<<20, 64<<20 }).openOne()
	r.fails(evCheckpointLost)
	given := uint64(1)
	for r.m.bytesSince < unrecordedBytes {
		e := keyed1(t, leftKey())
		e.raw.Payload = make([]byte, 4<<20)
		r.giveEntry(int64(given), e)
		given++
		r.receipt(1, 1, given, int64(6+given))
	}
	if r.receipt(1, 1, 1, 6); r.flows() || !strings.Contains(r.m.Why(), "takes the checkpoint topic") {
		t.Errorf("permits %v, why %q", r.flows(), r.m.Why())
	}
	r.checkpoint(&Record{Epoch: 1, Frontier: noPosition()})
	if r.stored(); !r.flows() {
		r.on(evTick)
	}
	if !r.flows() {
		t.Error("no permits after the record has its receipt")
	}
}
