package verify

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// keyedMessage is a message of one of the lanes that its key was ever in, or any. Few
// ranges mean that keys share them.
func keyedMessage(t *rapid.T, l *lanes, entries int64, few int) *message {
	key := fmt.Sprintf("k%d", rapid.IntRange(0, 12).Draw(t, "key"))
	hash := reroute.Key{Key: []byte(key), HasKey: true}.Hash().Segment
	var own []int32
	for i := range l.all {
		if l.all[i].segment.Range.Contains(hash) || rapid.IntRange(0, 40).Draw(t, "stray") == 0 {
			own = append(own, int32(i))
		}
	}
	id := ident{lane: rapid.SampledFrom(own).Draw(t, "lane"), index: rapid.Int32Range(0, 6).Draw(t, "index"),
		pos: replicate.Position{Ledger: 1, Entry: blockEntries / 2 * rapid.Int64Range(0, entries).Draw(t, "entry")}}
	return &message{ident: id, n: 1, rng: int(hash>>8) &^ few, hash: hash, key: uint64(hash)}
}

// What rising does not doubt is in order, and a look at what it doubts finds exactly
// what a look at everything finds: whatever lies in a chain of segments, rising for
// the most part or not at all.
func TestDoubtsHoldAllThatIsOutOfOrder(t *testing.T) {
	doubted, late := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l := chain(t, rapid.IntRange(0, 2).Draw(t, "source"))
		segments := chain(t, 2).all
		if rapid.Bool().Draw(t, "merged") {
			segments = append(chain(t, 1).all, lane{segment: &reroute.Segment{ID: 3, Range: reroute.FullRange(), Parents: []uint64{1, 2}}})
		}
		all := make([][]*message, len(segments)) // by segment of the target
		few := rapid.SampledFrom([]int{0x3f, 0xff}).Draw(t, "few ranges")
		for range rapid.IntRange(1, 80).Draw(t, "messages") {
			m := keyedMessage(t, l, 6, few)
			var to []int
			for i := range segments {
				if segments[i].segment.Range.Contains(m.hash) || rapid.IntRange(0, 60).Draw(t, "misplaced") == 0 {
					to = append(to, i)
				}
			}
			i := rapid.SampledFrom(to).Draw(t, "to")
			all[i] = append(all[i], m)
		}
		if rapid.Bool().Draw(t, "sorted") {
			for _, in := range all {
				slices.SortStableFunc(in, func(a, b *message) int {
					if l.less(a.ident, b.ident) {
						return -1
					}
					return 1
				})
				for range rapid.IntRange(0, 3).Draw(t, "swaps") {
					if len(in) > 1 {
						i := rapid.IntRange(0, len(in)-2).Draw(t, "swap")
						in[i], in[i+1] = in[i+1], in[i]
					}
				}
			}
		}
		everything := newOrder(l, 1<<20, func(int) bool { return true })
		var d doubts
		risings := make([]*rising, len(segments))
		for i, in := range all { // parents have lower numbers
			var parents []*rising
			for _, p := range segments[i].segment.Parents {
				parents = append(parents, risings[p])
			}
			risings[i] = newRising(l, segments[i].segment, parents...)
			for _, m := range in {
				everything.see(m, place{})
				risings[i].see(m)
			}
		}
		for _, r := range risings {
			d.merge(&r.doubts)
		}
		looked := newOrder(l, 1<<20, func(rng int) bool { return d.ranges[rng] })
		for _, in := range all {
			for _, m := range in {
				if d.hold(blockOf(m.ident)) {
					looked.see(m, place{})
				}
			}
		}
		for i := range keyless {
			if looked.shards[i].late != everything.shards[i].late {
				t.Fatalf("range %d: %d out of order, a look at the doubts finds %d", i, everything.shards[i].late, looked.shards[i].late)
			}
			late += int(everything.shards[i].late)
		}
		if d.any() {
			doubted++
		}
	})
	if doubted == 0 || late == 0 {
		t.Errorf("%d copies were in doubt, %d messages out of order", doubted, late)
	}
}

// A copy as a bridge makes it is not in doubt: parts of an entry that share a range
// of the ring, a seal that leaves some of an entry to the children, a split at the
// source.
func TestNoDoubtWithoutCause(t *testing.T) {
	l := chain(t, 1)
	target := chain(t, 1).all
	at := func(lane int32, entry int64, index int32, hash uint16, key uint64) *message {
		return &message{ident: ident{lane: lane, index: index, pos: replicate.Position{Ledger: 1, Entry: entry}}, n: 1, rng: int(hash >> 8), hash: hash, key: key}
	}
	parent := newRising(l, target[0].segment)
	for _, m := range []*message{
		at(0, 1, 0, 0x1001, 1), at(0, 1, 2, 0x1002, 2), at(0, 1, 5, 0x1001, 1), // one part
		at(0, 1, 1, 0x1003, 3), at(0, 1, 3, 0x1004, 4), // another
		at(0, 2, 0, 0xf001, 5), at(0, 3, 0, 0xf001, 5),
	} {
		parent.see(m)
	}
	low, high := newRising(l, target[1].segment, parent), newRising(l, target[2].segment, parent)
	for _, m := range []*message{at(0, 2, 1, 0x1001, 1), at(0, 3, 1, 0x1002, 2), at(1, 0, 0, 0x1001, 1), at(1, 1, 0, 0x1002, 2)} {
		low.see(m)
	}
	for _, m := range []*message{at(0, 4, 0, 0xf001, 5), at(2, 0, 0, 0xf001, 5)} {
		high.see(m)
	}
	for _, r := range []*rising{parent, low, high} {
		if r.doubts.any() {
			t.Errorf("segment of %v: %+v", r.within, r.doubts.spans)
		}
	}
	low.see(at(1, 1, 0, 0x1002, 2))  // again
	high.see(at(0, 5, 0, 0xf001, 5)) // of the parent, behind its child
	if !low.doubts.any() || !high.doubts.all {
		t.Error("no doubt of a message that comes again, or none of a parent behind its child")
	}
}
