package reroute

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The target of the tables: unequal widths; segment 1 has one bucket, 2 three
// unequal ones, 3 two.
func tableLayout(t testing.TB) *Layout {
	return mustLayout(t,
		Segment{ID: 1, Range: HashRange{0x0000, 0x3fff}},
		Segment{ID: 2, Range: HashRange{0x4000, 0xbfff}, Splits: []uint16{0x1000, 0x9000}},
		Segment{ID: 3, Range: HashRange{0xc000, 0xffff}, Splits: []uint16{0x8000}})
}

func TestWhole(t *testing.T) {
	l := tableLayout(t)
	proves := func(start, end uint16) Source { return Source{Range: HashRange{start, end}, Proves: true} }
	for _, tc := range []struct {
		name  string
		src   Source
		stamp Stamp
		want  uint64 // 0: must be opened
	}{
		{"one bucket needs no stamp", proves(0x0000, 0x3fff), Stamp{}, 1},
		{"one bucket takes any stamp", proves(0x1000, 0x2000), Stamp{0, 0xffff, true}, 1},
		{"segment inside, stamp in first bucket", proves(0x4000, 0xbfff), Stamp{0, 0x0fff, true}, 2},
		{"stamp in middle bucket", proves(0x5000, 0x5000), Stamp{0x1000, 0x8fff, true}, 2},
		{"stamp in last bucket", proves(0x4000, 0x4fff), Stamp{0x9000, 0xffff, true}, 2},
		{"stamp straddles buckets", proves(0x4000, 0xbfff), Stamp{0x0fff, 0x1000, true}, 0},
		{"no stamp", proves(0x4000, 0xbfff), Stamp{}, 0},
		{"stamp alone proves no segment", proves(0x0000, 0x4000), Stamp{0, 0, true}, 0},
		{"source is wider by one", proves(0x3fff, 0xbfff), Stamp{0, 0, true}, 0},
		{"source is the whole ring", proves(0x0000, 0xffff), Stamp{0, 0, true}, 0},
		{"range turned round", proves(0x2000, 0x1000), Stamp{0, 0, true}, 0},
		{"legacy or violating source", Source{Range: HashRange{0x0000, 0x0fff}}, Stamp{0, 0, true}, 0},
	} {
		seg, ok := l.Whole(tc.src, tc.stamp)
		if ok != (tc.want != 0) || ok != (seg != nil) || ok && seg.ID != tc.want {
			t.Errorf("%s: %+v, %v; want segment %d", tc.name, seg, ok, tc.want)
		}
	}
}

func TestSourceOf(t *testing.T) {
	s := Segment{Range: HashRange{1, 2}}
	if got := SourceOf(&s); got != (Source{Range: s.Range, Proves: true}) {
		t.Errorf("segment: %+v", got)
	}
	s.LegacyTopic = "persistent://t/n/x-partition-0"
	if got := SourceOf(&s); got.Proves {
		t.Errorf("legacy segment: %+v", got)
	}
}

func TestKeyless(t *testing.T) {
	l := tableLayout(t)
	for _, tc := range []struct {
		src  HashRange
		want []uint64 // for turns 0, 1, 2, …
	}{
		{HashRange{0x0000, 0x3fff}, []uint64{1, 1, 1}},
		{HashRange{0x3fff, 0x4000}, []uint64{1, 2, 1, 2}},
		{FullRange(), []uint64{1, 2, 3, 1, 2, 3}},
		{HashRange{2, 1}, []uint64{1, 2, 3, 1}}, // never without a target
	} {
		for turn, want := range tc.want {
			if got := l.Keyless(tc.src, uint64(turn)); got.ID != want {
				t.Errorf("%v turn %d: segment %d, want %d", tc.src, turn, got.ID, want)
			}
		}
	}
	l.Keyless(FullRange(), 1<<64-1) // a counter may wrap
}

func key(s string) Key { return Key{Key: []byte(s), HasKey: true} }

// Keys with their hashes: a 3c25/69b2, key-1 98b1/15a0, orders 7518/4c89,
// "ключ" 9a59/2042, 0123456789abcdef0 8efa/0e6d.
func TestCut(t *testing.T) {
	l := tableLayout(t)
	type part struct {
		Segment uint64
		Bucket  int
		Indices []int
		Stamp   Stamp
	}
	for _, tc := range []struct {
		name    string
		keys    []Key
		include []int
		keyless *Segment
		want    []part
	}{
		{"nothing", nil, nil, nil, nil},
		{"nothing included", []Key{key("a")}, []int{}, nil, nil},
		{"all in one bucket", []Key{key("key-1"), key("orders"), key("ключ")}, nil, nil,
			[]part{{2, 1, []int{0, 1, 2}, Stamp{0x15a0, 0x4c89, true}}}},
		{"two segments, by first message", []Key{key("orders"), key("a"), key("key-1"), key("a")}, nil, nil,
			[]part{{2, 1, []int{0, 2}, Stamp{0x15a0, 0x4c89, true}}, {1, 0, []int{1, 3}, Stamp{0x69b2, 0x69b2, true}}}},
		{"two buckets of one segment", []Key{key("0123456789abcdef0"), key("key-1")}, nil, nil,
			[]part{{2, 0, []int{0}, Stamp{0x0e6d, 0x0e6d, true}}, {2, 1, []int{1}, Stamp{0x15a0, 0x15a0, true}}}},
		{"only what is included", []Key{key("orders"), key("a"), key("key-1")}, []int{1, 2}, nil,
			[]part{{1, 0, []int{1}, Stamp{0x69b2, 0x69b2, true}}, {2, 1, []int{2}, Stamp{0x15a0, 0x15a0, true}}}},
		{"ordering key moves the bucket, not the segment",
			[]Key{{Key: []byte("key-1"), HasKey: true, HasOrderingKey: true}, key("key-1")}, nil, nil,
			[]part{{2, 0, []int{0}, Stamp{0, 0, true}}, {2, 1, []int{1}, Stamp{0x15a0, 0x15a0, true}}}},
		{"keyless go where told, in bucket 0", []Key{{}, key("a"), {}}, nil, l.Segment(3),
			[]part{{3, 0, []int{0, 2}, Stamp{0, 0, true}}, {1, 0, []int{1}, Stamp{0x69b2, 0x69b2, true}}}},
		{"keyless with ordering key", []Key{{OrderingKey: []byte("orders"), HasOrderingKey: true}}, nil, l.Segment(3),
			[]part{{3, 0, []int{0}, Stamp{0x4c89, 0x4c89, true}}}},
		{"keyless join their bucket", []Key{{}, key("0123456789abcdef0")}, nil, l.Segment(2),
			[]part{{2, 0, []int{0, 1}, Stamp{0, 0x0e6d, true}}}},
		{"keyless without a target", []Key{{}}, nil, nil, []part{{1, 0, []int{0}, Stamp{0, 0, true}}}},
		{"empty key is a key", []Key{{HasKey: true}}, nil, l.Segment(3), []part{{1, 0, []int{0}, Stamp{0, 0, true}}}},
	} {
		var got []part
		for _, p := range l.Cut(tc.keys, tc.include, tc.keyless) {
			got = append(got, part{p.Segment.ID, p.Bucket, p.Indices, p.Stamp})
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}

func BenchmarkWhole(b *testing.B) {
	l := tableLayout(b)
	src, stamp := Source{Range: HashRange{0x4000, 0x7fff}, Proves: true}, Stamp{0x1000, 0x1fff, true}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := l.Whole(src, stamp); !ok {
			b.Fatal("not whole")
		}
	}
}

func BenchmarkCut(b *testing.B) {
	l := tableLayout(b)
	keys := make([]Key, 100)
	for i := range keys {
		keys[i] = key(fmt.Sprint("key-", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Cut(keys, nil, nil)
	}
}
