package reroute

import (
	"errors"
	"strings"
	"testing"
)

func mustLayout(t testing.TB, segs ...Segment) *Layout {
	t.Helper()
	l, err := NewLayout("topic://t/n/x", 1, segs)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSegmentTopic(t *testing.T) {
	for _, tc := range []struct {
		seg  Segment
		want string
	}{
		{Segment{ID: 0, Range: HashRange{0, 0x5554}}, "segment://t/n/x/0000-5554-0"},
		{Segment{ID: 12345678901, Range: HashRange{0xaaaa, 0xffff}}, "segment://t/n/x/aaaa-ffff-12345678901"},
		{Segment{ID: 1, LegacyTopic: "persistent://t/n/x-partition-0"}, "persistent://t/n/x-partition-0"},
	} {
		for _, scalable := range []string{"topic://t/n/x", "t/n/x"} {
			if got := tc.seg.Topic(scalable); got != tc.want {
				t.Errorf("segment %d of %s: %q, want %q", tc.seg.ID, scalable, got, tc.want)
			}
		}
	}
}

func TestParseSegmentTopic(t *testing.T) {
	scalable, r, id, err := ParseSegmentTopic("segment://t/n/a-b-1/5555-aaa9-17")
	if scalable != "topic://t/n/a-b-1" || r != (HashRange{0x5555, 0xaaa9}) || id != 17 || err != nil {
		t.Errorf("%q %v %d %v", scalable, r, id, err)
	}
	for _, bad := range []string{
		"", "segment://", "topic://t/n/x", "persistent://t/n/x/0000-ffff-1", "segment://t/n/x/0000-ffff",
		"segment://t/n/x/0000-ffff--1", "segment://t/n/x/0000-FFFF-1", "segment://t/n/x/0-ffff-1",
		"segment://t/n/x/00000-ffff-1", "segment://t/n/x/8000-7fff-1", "segment://t/n/x/0000-ffff-01",
		"segment://t/n/x/0000-ffff-99999999999999999999",
	} {
		if _, _, _, err := ParseSegmentTopic(bad); err == nil || !strings.Contains(err.Error(), "segment topic") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func FuzzParseSegmentTopic(f *testing.F) {
	f.Add("segment://t/n/x/0000-5554-0")
	f.Add("segment://t/n/x/8000-7fff-1")
	f.Fuzz(func(t *testing.T, name string) {
		scalable, r, id, err := ParseSegmentTopic(name)
		if err != nil {
			return
		}
		if got := (&Segment{ID: id, Range: r}).Topic(scalable); got != name {
			t.Errorf("%q came back as %q", name, got)
		}
	})
}

func TestBuckets(t *testing.T) {
	s := Segment{Splits: []uint16{10922, 21845, 32768, 43690, 54613}} // merge of 4 and 2: facts 2.2
	if s.Buckets() != 6 || s.BucketRange(0) != (HashRange{0, 10921}) || s.BucketRange(5) != (HashRange{54613, 0xFFFF}) {
		t.Errorf("%d buckets, first %v, last %v", s.Buckets(), s.BucketRange(0), s.BucketRange(5))
	}
	for h, want := range map[uint16]int{0: 0, 10921: 0, 10922: 1, 32767: 2, 32768: 3, 54612: 4, 54613: 5, 0xFFFF: 5} {
		if got := s.Bucket(h); got != want {
			t.Errorf("bucket of %d = %d, want %d", h, got, want)
		}
	}
	one := Segment{}
	if one.Buckets() != 1 || one.Bucket(0xFFFF) != 0 || one.BucketRange(0) != FullRange() {
		t.Error("no splits is one bucket over the whole ring")
	}
}

func TestNewLayoutRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		segs []Segment
		want string
	}{
		{"no active segment", []Segment{{ID: 0, Range: FullRange(), Sealed: true}}, "no active segment covers 0000-ffff"},
		{"hole at the start", []Segment{{Range: HashRange{1, 0xFFFF}}}, "no active segment covers 0000-0000"},
		{"hole at the end", []Segment{{Range: HashRange{0, 0xFFFE}}}, "no active segment covers ffff-ffff"},
		{"hole between", []Segment{{ID: 1, Range: HashRange{0, 9}}, {ID: 2, Range: HashRange{12, 0xFFFF}}},
			"no active segment covers 000a-000b"},
		{"overlap", []Segment{{ID: 1, Range: HashRange{0, 9}}, {ID: 2, Range: HashRange{8, 0xFFFF}}},
			"active segments 1 and 2 overlap in 0008-0009"},
		{"same range twice", []Segment{{ID: 1, Range: FullRange()}, {ID: 2, Range: FullRange()}}, "overlap in 0000-ffff"},
		{"same id twice", []Segment{{ID: 1, Range: HashRange{0, 9}}, {ID: 1, Range: HashRange{10, 0xFFFF}}}, "segment 1 is there twice"},
		{"range turned round", []Segment{{ID: 3, Range: HashRange{9, 0}}}, "segment 3: range 0009-0000 ends before it starts"},
		{"splits descend", []Segment{{ID: 4, Range: FullRange(), Splits: []uint16{5, 5}}}, "segment 4: bucket splits"},
		{"split at 0", []Segment{{ID: 4, Range: FullRange(), Splits: []uint16{0, 5}}}, "segment 4: bucket splits"},
	} {
		l, err := NewLayout("topic://t/n/x", 7, tc.segs)
		if l != nil || err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "topic://t/n/x, epoch 7") {
			t.Errorf("%s: %v, %v; want an error with %q", tc.name, l, err, tc.want)
		}
	}
}

func TestNewLayoutRefusesUnmigrated(t *testing.T) {
	_, err := NewLayout("topic://t/n/x", 0, []Segment{{Range: FullRange(), LegacyTopic: "persistent://t/n/x"}})
	if !errors.Is(err, ErrNotMigrated) {
		t.Errorf("active legacy segment: %v", err)
	}
	// Migrated: legacy ones sealed, all of them over the whole ring (facts 10).
	mustLayout(t,
		Segment{ID: 0, Range: FullRange(), Sealed: true, LegacyTopic: "persistent://t/n/x-partition-0"},
		Segment{ID: 1, Range: FullRange(), Sealed: true, LegacyTopic: "persistent://t/n/x-partition-1"},
		Segment{ID: 2, Range: FullRange(), Parents: []uint64{0, 1}})
}

func TestLayoutLookups(t *testing.T) {
	segs := []Segment{
		{ID: 9, Range: HashRange{0x8000, 0xffff}},
		{ID: 0, Range: FullRange(), Sealed: true, Children: []uint64{9, 4, 5}},
		{ID: 5, Range: HashRange{0x0010, 0x7fff}, Splits: []uint16{100}},
		{ID: 4, Range: HashRange{0, 0x000f}},
	}
	l := mustLayout(t, segs...)
	segs[2].Splits[0] = 1 // the layout has its own copy
	ids := func(ss []*Segment) (out []uint64) {
		for _, s := range ss {
			out = append(out, s.ID)
		}
		return out
	}
	equal := func(what string, got []*Segment, want ...uint64) {
		t.Helper()
		if g := ids(got); len(g) != len(want) {
			t.Errorf("%s: %v, want %v", what, g, want)
		} else {
			for i := range g {
				if g[i] != want[i] {
					t.Errorf("%s: %v, want %v", what, g, want)
				}
			}
		}
	}
	equal("Segments", l.Segments(), 0, 4, 5, 9)
	equal("Active", l.Active(), 4, 5, 9)
	equal("Covering all", l.Covering(FullRange()), 4, 5, 9)
	equal("Covering an edge", l.Covering(HashRange{0x000f, 0x0010}), 4, 5)
	equal("Covering one hash", l.Covering(HashRange{0xffff, 0xffff}), 9)
	equal("Covering nothing", l.Covering(HashRange{2, 1}))
	if l.Segment(0) == nil || l.Segment(7) != nil || l.Segment(10) != nil {
		t.Error("Segment by id")
	}
	if l.Segment(5).Splits[0] != 100 {
		t.Error("the layout changed with its input")
	}
	for h, want := range map[uint16]uint64{0: 4, 0xf: 4, 0x10: 5, 0x7fff: 5, 0x8000: 9, 0xffff: 9} {
		if got := l.ActiveAt(h).ID; got != want {
			t.Errorf("ActiveAt(%04x) = %d, want %d", h, got, want)
		}
	}
}
