package replicate

import (
	"strings"
	"testing"
)

func TestGap(t *testing.T) {
	after := Position{Ledger: 5, Entry: 10}
	for _, row := range []struct {
		name         string
		hole         hole
		unsubscribed bool
		want         string
	}{
		{"markers", hole{}, false, ""},
		{"markers, though the subscription was made again", hole{}, true, ""},
		{"entries", hole{entries: 3}, false, gapExpired},
		{"entries, and the subscription was made again", hole{entries: 3}, true, gapUnsubscribed},
		{"entries, and some trimmed", hole{entries: 3, trimmed: true}, false, gapTruncated},
		{"trimmed, perhaps nothing", hole{trimmed: true}, false, ""},
		{"trimmed, and the subscription was made again", hole{trimmed: true}, true, gapUnsubscribed},
		{"trimmed, and something was known there", hole{trimmed: true, seen: Position{Ledger: 5, Entry: 11}}, false, gapTruncated},
	} {
		row.hole.after = after
		if row.hole.seen == (Position{}) {
			row.hole.seen = noPosition()
		}
		if got := row.hole.gap(row.unsubscribed); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

func TestSkips(t *testing.T) {
	for _, row := range []struct {
		a, b Position
		want bool
	}{
		{Position{Ledger: 5, Entry: 1}, Position{Ledger: 5, Entry: 2}, false},
		{Position{Ledger: 5, Entry: -1}, Position{Ledger: 5, Entry: 0}, false},
		{Position{Ledger: 5, Entry: 1}, Position{Ledger: 5, Entry: 3}, true},
		{Position{Ledger: 5, Entry: 1}, Position{Ledger: 8, Entry: 0}, true}, // the rest of 5
	} {
		if got := skips(row.a, row.b); got != row.want {
			t.Errorf("%v, %v: %v", row.a, row.b, got)
		}
	}
}

func TestParseMark(t *testing.T) {
	const text = "org.apache.bookkeeper.mledger.ManagedLedgerException: Mark deleting an already mark-deleted position. Current mark-delete: 13:-1 -- attempted mark delete: -1:-1"
	if p, err := parseMark(text); err != nil || p != (Position{Ledger: 13, Entry: -1}) {
		t.Errorf("%v, %v", p, err)
	}
	for _, text := range []string{"", "Current mark-delete: ", "Current mark-delete: x:y --", "already mark-deleted"} {
		if p, err := parseMark(text); err == nil || p != noPosition() {
			t.Errorf("%q: %v", text, p)
		}
	}
}

// opened is a lane that opens with a record, over a subscription that stands at an entry.
func (r *rig) openedAt(rec *Record, mark int64) *rig {
	r.t.Helper()
	r.layout(one(r.t)).on(evSubscribed).on(evActive)
	r.gen = r.asked
	return r.step(Event{Kind: evCheckpointClaimed, Gen: r.gen, Record: rec, Begun: true, Pos: Position{Ledger: 7, Entry: mark}})
}

func (r *rig) looked(after, upTo int64, entries int, opening bool) *rig {
	return r.step(Event{Kind: evLooked, Hole: hole{after: Position{Ledger: 7, Entry: after}, upTo: Position{Ledger: 7, Entry: upTo},
		seen: noPosition(), entries: entries, opening: opening}})
}

func cleanAt(entry int64) *Record {
	return &Record{Epoch: 1, Clean: true, Frontier: Position{Ledger: 7, Entry: entry}}
}

// What lies between the frontier and the subscription was acknowledged by others.
func TestGapAtOpening(t *testing.T) {
	newRig(t, nil).openedAt(cleanAt(3), 3).want("record epoch 2 frontier 3")
	newRig(t, nil).openedAt(cleanAt(3), 1).want("record epoch 2 frontier 3").stored().give(4, leftKey()).want("claim 1 gen 1")
	newRig(t, nil).openedAt(nil, -1).want("record epoch 1 frontier -1")
	newRig(t, nil).openedAt(nil, 2).want("look -1 to 2", "record epoch 1 frontier -1")
	newRig(t, func(cfg *MachineConfig) { cfg.FromLatest = true }).openedAt(nil, 2).want("record epoch 1 frontier -1")
	passed := cleanAt(3)
	passed.Passed = &Position{Ledger: 7, Entry: 6}
	newRig(t, nil).openedAt(passed, 6).want("record epoch 2 frontier 3")

	// Goes on, and tells once.
	r := newRig(t, nil).openedAt(cleanAt(3), 6).want("look 3 to 6", "record epoch 2 frontier 3").stored()
	r.give(7, leftKey()).want("claim 1 gen 1").looked(3, 6, 3, true).want("gap expired 1")
	if p := r.m.record.Passed; p == nil || *p != (Position{Ledger: 7, Entry: 6}) {
		t.Errorf("passed %v", p)
	}
	// Markers only.
	r = newRig(t, func(cfg *MachineConfig) { cfg.StopGap = true }).openedAt(cleanAt(3), 6).stored()
	r.give(7, leftKey()).want()
	if r.m.Why() != "looks whether source data is gone" {
		t.Errorf("why: %q", r.m.Why())
	}
	r.looked(3, 6, 0, true).want("claim 1 gen 1")
}

// on_gap: stop holds the lane before anything behind the gap, until an operator
// accepts it; what he accepts is counted once.
func TestGapStops(t *testing.T) {
	stop := func(cfg *MachineConfig) { cfg.StopGap = true }
	r := newRig(t, stop).openedAt(cleanAt(3), 6).stored().give(7, leftKey()).want().looked(3, 6, 3, true).want("gap expired 1")
	if why := r.m.Why(); !strings.Contains(why, "3 entries after 7:3, up to 7:6; go on without it by `geobridge resume MAPPING --accept-gap`") {
		t.Errorf("why: %q", why)
	}
	r.on(evTick).stored().on(evResume).want("drop 7", "record epoch 2 frontier 3 clean").stored().state(Parting)
	r = newRig(t, func(cfg *MachineConfig) { cfg.StopGap, cfg.Accept = true, true }).openedAt(cleanAt(3), 6).stored()
	r.give(7, leftKey()).want().looked(3, 6, 3, true).want("gap expired 0", "claim 1 gen 1")
	// A later one is another matter.
	r.give(9, leftKey()).want("look 7 to 8").looked(7, 8, 1, false).want("gap expired 1")
	if r.m.hold == "" {
		t.Error("goes on")
	}
}

// Deliveries that do not follow one another, and a subscription beyond them.
func TestGapUnderWay(t *testing.T) {
	r := newRig(t, nil).openedAt(cleanAt(3), 3).stored()
	r.give(4, leftKey()).want("claim 1 gen 1").give(6, leftKey()).want("look 4 to 5").looked(4, 5, 0, false).want()
	r.step(Event{Kind: evMark, Pos: Position{Ledger: 7, Entry: 6}}).want()
	r.step(Event{Kind: evMark, Pos: Position{Ledger: 7, Entry: 9}}).want("look 6 to 9").looked(6, 9, 2, false).want("gap expired 1")
	r.give(10, leftKey()).want()
	// What was on its way all the same is copied.
	r.give(11, leftKey()).want().step(Event{Kind: evMark, Pos: Position{Ledger: 7, Entry: 11}}).want()
}

// A subscription that was made again is the reason of what is missing at the opening. What is
// missing later has its own.
func TestGapAfterUnsubscribing(t *testing.T) {
	r := newRig(t, func(cfg *MachineConfig) { cfg.Unsubscribed = true }).openedAt(cleanAt(3), 6).stored()
	if r.give(7, leftKey()).want("claim 1 gen 1"); r.m.sought {
		t.Error("sought before it was looked")
	}
	if r.looked(3, 6, 3, true).want("gap unsubscribed 1"); !r.m.sought {
		t.Error("not sought")
	}
	r.give(9, leftKey()).want("look 7 to 8").looked(7, 8, 1, false).want("gap expired 1")
}

// What was delivered behind a hole is known to exist once the hole was looked into: before
// that a record which tells of it would make something of the hole that was lost.
func TestSeenBehindAHole(t *testing.T) {
	seen := func(r *rig) int64 {
		if p := r.m.written.Seen; p != nil {
			return p.Entry
		}
		return -1
	}
	r := newRig(t, nil).openedAt(cleanAt(3), 3).stored().give(4, leftKey()).want("claim 1 gen 1")
	r.on(evTick).stored()
	if n := seen(r); n != 4 {
		t.Errorf("seen %d, want 4", n)
	}
	r.give(6, leftKey()).want("look 4 to 5").on(evTick).stored()
	if n := seen(r); n != 4 {
		t.Errorf("seen %d while the hole is looked into, want 4", n)
	}
	r.looked(4, 5, 0, false).on(evTick).stored()
	if n := seen(r); n != 6 || r.m.written.Passed == nil {
		t.Errorf("seen %d, passed %v", n, r.m.written.Passed)
	}
}
