package replicate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The frontier is the last of the gapless prefix of complete entries, in
// whatever order they complete, and each is handed over once, in source order.
func TestInflightFrontier(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(r, "entries")
		f := inflight{frontier: noPosition(), last: noPosition()}
		var all, over []*entry
		pos := Position{Ledger: 3, Entry: -1}
		for range n {
			pos.Entry += rapid.Int64Range(1, 3).Draw(r, "gap")
			if rapid.IntRange(0, 9).Draw(r, "next ledger") == 0 {
				pos = Position{Ledger: pos.Ledger + 1}
			}
			e := &entry{pos: pos}
			f.push(e)
			all = append(all, e)
		}
		if f.last != pos || f.next != uint64(n) {
			r.Fatalf("last %v, next %d", f.last, f.next)
		}
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		prefix := 0
		for _, i := range rapid.Permutation(order).Draw(r, "order") {
			all[i].cut = true
			was := prefix
			for prefix < n && all[prefix].cut {
				prefix++
			}
			moved := f.advance(func(e *entry) { over = append(over, e) })
			want := noPosition()
			if prefix > 0 {
				want = all[prefix-1].pos
			}
			if f.frontier != want || len(f.queue) != n-prefix || moved != (prefix > was) {
				r.Fatalf("frontier %v, %d queued, moved %v; want %v, %d", f.frontier, len(f.queue), moved, want, n-prefix)
			}
			if !slices.Equal(over, all[:prefix]) {
				r.Fatalf("%d entries handed over, want the first %d", len(over), prefix)
			}
		}
	})
}

// Complete needs both: routed, and nothing without receipt.
func TestEntryComplete(t *testing.T) {
	for _, row := range []struct {
		cut  bool
		left int
		want bool
	}{{false, 0, false}, {true, 1, false}, {true, 0, true}} {
		if got := (&entry{cut: row.cut, left: row.left}).complete(); got != row.want {
			t.Errorf("cut %v, %d left: %v", row.cut, row.left, got)
		}
	}
}

// An entry that was at or before the frontier of the record does not move it back.
func TestInflightFrontierNeverFalls(t *testing.T) {
	f := inflight{frontier: Position{Ledger: 5, Entry: 9}, last: noPosition()}
	for _, pos := range []Position{{Ledger: 5, Entry: 7}, {Ledger: 5, Entry: 8}} {
		f.push(&entry{pos: pos, cut: true})
	}
	if !f.advance(func(*entry) {}) || f.frontier != (Position{Ledger: 5, Entry: 9}) {
		t.Errorf("frontier %v", f.frontier)
	}
	if f.advance(func(*entry) {}) {
		t.Error("moved without an entry")
	}
}

// begun are those that were routed; what was not is left to the next holder.
func TestInflightBegun(t *testing.T) {
	f := inflight{frontier: noPosition(), last: noPosition()}
	for i := range 4 {
		f.push(&entry{pos: Position{Entry: int64(i)}, left: 1})
	}
	for i := range 3 {
		f.queue[i].cut = true
		f.uncut++
	}
	f.queue[0].left = 0
	f.advance(func(*entry) {})
	if got := f.begun(); len(got) != 2 || got[0].order != 1 || got[1].order != 2 {
		t.Errorf("begun: %v", got)
	}
}
