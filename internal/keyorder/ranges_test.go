package keyorder

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRangesAreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Uint64Range(0, 30), 0, 40)
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		var ra, rb ranges
		in := map[uint64]bool{}
		for _, n := range a {
			if ra.add(n) == in[n] {
				t.Fatalf("adding %d: new %v", n, in[n])
			}
			in[n] = true
		}
		inB := map[uint64]bool{}
		for _, n := range b {
			rb.add(n)
			inB[n] = true
		}
		if ra.size() != uint64(len(in)) {
			t.Fatalf("size %d of %v", ra.size(), ra.spans)
		}
		for i := 1; i < len(ra.spans); i++ {
			if ra.spans[i-1].high+1 >= ra.spans[i].low {
				t.Fatalf("spans touch: %v", ra.spans)
			}
		}
		left := ra.without(&rb)
		for n := range uint64(40) {
			if ra.has(n) != in[n] {
				t.Fatalf("has %d: %v", n, ra.spans)
			}
			within := slices.ContainsFunc(left, func(s span) bool { return s.low <= n && n <= s.high })
			if within != (in[n] && !inB[n]) {
				t.Fatalf("%v without %v is %v: %d", ra.spans, rb.spans, left, n)
			}
		}
	})
}
