package reroute

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// genSplits draws up to limit-1 cut points of the ring, strictly ascending.
func genSplits(t *rapid.T, limit int, label string) []uint16 {
	n := rapid.OneOf(rapid.IntRange(0, min(4, limit-1)), rapid.IntRange(0, limit-1)).Draw(t, label+" count")
	splits := rapid.SliceOfNDistinct(rapid.Uint16Range(1, 0xFFFF), n, n, rapid.ID[uint16]).Draw(t, label)
	slices.Sort(splits)
	return splits
}

// genLayout draws a layout of 1..64 active segments of any width, each with
// 1..1024 buckets of any width, and some sealed ones.
func genLayout(t *rapid.T) *Layout {
	ring := Segment{Splits: genSplits(t, 64, "segments")}
	var segs []Segment
	for i := range ring.Buckets() {
		limit := rapid.SampledFrom([]int{1, 8, 1024}).Draw(t, "bucket limit")
		segs = append(segs, Segment{ID: uint64(1000 - i), Range: ring.BucketRange(i), Splits: genSplits(t, limit, "buckets")})
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "sealed") {
		segs = append(segs, Segment{ID: uint64(i), Range: genRange(t), Sealed: true})
	}
	segs = rapid.Permutation(segs).Draw(t, "order")
	l, err := NewLayout("topic://t/n/x", 0, segs)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func genRange(t *rapid.T) HashRange {
	a, b := rapid.Uint16().Draw(t, "a"), rapid.Uint16().Draw(t, "b")
	return HashRange{Start: min(a, b), End: max(a, b)}
}

func genKey(t *rapid.T) Key {
	name := rapid.SampledFrom([]string{"", "a", "b", "key-1", "orders", "AAE="})
	if rapid.Bool().Draw(t, "any key") {
		name = rapid.String()
	}
	k := Key{HasKey: rapid.IntRange(0, 4).Draw(t, "keyed") > 0, HasOrderingKey: rapid.IntRange(0, 4).Draw(t, "ordered") == 0}
	if k.HasKey {
		k.Key = []byte(name.Draw(t, "key"))
	}
	if k.HasOrderingKey {
		k.OrderingKey = []byte(name.Draw(t, "ordering key"))
	}
	return k
}

// genInclude draws nil or an ascending selection of 0..n-1.
func genInclude(t *rapid.T, n int) []int {
	if rapid.Bool().Draw(t, "all") {
		return nil
	}
	include := []int{}
	for i := range n {
		if rapid.Bool().Draw(t, "include") {
			include = append(include, i)
		}
	}
	return include
}

func TestCutProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout(t)
		keys := rapid.SliceOfN(rapid.Custom(genKey), 0, 60).Draw(t, "keys")
		include := genInclude(t, len(keys))
		keyless := l.Keyless(genRange(t), rapid.Uint64().Draw(t, "turn"))
		parts := l.Cut(keys, include, keyless)

		var got []int
		first := -1
		seen := map[target]bool{}
		for _, p := range parts {
			if seen[target{p.Segment, p.Bucket}] {
				t.Fatalf("two parts for bucket %d of segment %d", p.Bucket, p.Segment.ID)
			}
			seen[target{p.Segment, p.Bucket}] = true
			if len(p.Indices) == 0 || !slices.IsSorted(p.Indices) {
				t.Fatalf("indices %v", p.Indices)
			}
			if p.Indices[0] <= first {
				t.Fatalf("parts are not in the order of their first message: %d after %d", p.Indices[0], first)
			}
			first = p.Indices[0]
			checkPart(t, l, keys, keyless, p)
			got = append(got, p.Indices...)
		}
		slices.Sort(got)
		want := include
		if include == nil {
			for i := range keys {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("parts hold %v, want %v", got, want)
		}
	})
}

// checkPart holds one part against the definitions, not the code under test.
func checkPart(t *rapid.T, l *Layout, keys []Key, keyless *Segment, p Part) {
	if p.Segment.Sealed || l.Segment(p.Segment.ID) != p.Segment {
		t.Fatalf("segment %d takes no messages", p.Segment.ID)
	}
	lo, hi := uint16(0xFFFF), uint16(0)
	for _, i := range p.Indices {
		h := keys[i].Hash()
		if h.Keyed && !p.Segment.Range.Contains(h.Segment) {
			t.Fatalf("key with hash %04x in segment %v", h.Segment, p.Segment.Range)
		}
		if !h.Keyed && p.Segment != keyless {
			t.Fatalf("keyless message in segment %d, want %d", p.Segment.ID, keyless.ID)
		}
		if !p.Segment.BucketRange(p.Bucket).Contains(h.Bucket) {
			t.Fatalf("bucket hash %04x in bucket %v", h.Bucket, p.Segment.BucketRange(p.Bucket))
		}
		lo, hi = min(lo, h.Bucket), max(hi, h.Bucket)
		seg, bucket, stamp := l.Place(keys[i], keyless)
		if seg != p.Segment || bucket != p.Bucket || stamp != (Stamp{h.Bucket, h.Bucket, true}) {
			t.Fatalf("Place disagrees with Cut about message %d", i)
		}
	}
	if p.Stamp != (Stamp{lo, hi, true}) {
		t.Fatalf("stamp %+v, tightest is %04x-%04x", p.Stamp, lo, hi)
	}
}

// What Whole claims unopened, opening would find in one bucket of that segment:
// for any batch that the source segment may hold, under any true stamp.
func TestWholeNeverClaimsWhatOpeningSplits(t *testing.T) {
	whole := 0
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout(t)
		keys := rapid.SliceOfN(rapid.Custom(genKey), 1, 4).Draw(t, "keys")
		if n := rapid.IntRange(1, len(keys)).Draw(t, "distinct"); n < len(keys) {
			keys = keys[:n]
		}
		// The source segment holds all keys; how much wider it is than they
		// need is drawn.
		src := HashRange{0xFFFF, 0}
		stamp := Stamp{}
		for _, k := range keys {
			h := k.Hash()
			if h.Keyed {
				src.Start, src.End = min(src.Start, h.Segment), max(src.End, h.Segment)
			}
			stamp = stamp.Extend(h.Bucket)
		}
		if src.Start > src.End {
			src = genRange(t)
		} else if rapid.Bool().Draw(t, "wider") {
			src.Start, src.End = rapid.Uint16Max(src.Start).Draw(t, "start"), rapid.Uint16Min(src.End).Draw(t, "end")
		}
		switch rapid.IntRange(0, 3).Draw(t, "stamp kind") {
		case 0:
			stamp = Stamp{}
		case 1: // true, but not the tightest
			stamp.Min, stamp.Max = rapid.Uint16Max(stamp.Min).Draw(t, "min"), rapid.Uint16Min(stamp.Max).Draw(t, "max")
		}
		source := Source{Range: src, Proves: rapid.IntRange(0, 9).Draw(t, "proves") > 0}
		seg, ok := l.Whole(source, stamp)
		if !ok {
			return
		}
		whole++
		if !source.Proves {
			t.Fatal("a source that proves nothing proved something")
		}
		if v := Check(src, stamp, keys); v != (Violations{}) {
			t.Fatalf("the test draws violating entries: %+v", v)
		}
		parts := l.Cut(keys, nil, l.Keyless(src, rapid.Uint64().Draw(t, "turn")))
		if len(parts) != 1 || parts[0].Segment != seg {
			t.Fatalf("claimed whole into segment %d, opening gives %d parts: %+v", seg.ID, len(parts), parts)
		}
	})
	if whole == 0 {
		t.Error("no entry went whole: the property was not tested")
	}
}

// With the tightest stamp, Whole claims everything whose source segment lies
// inside a target segment and which opening would not split.
func TestWholeClaimsAllItCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout(t)
		keys := rapid.SliceOfN(rapid.Custom(genKey), 1, 3).Draw(t, "keys")
		seg := l.ActiveAt(rapid.Uint16().Draw(t, "segment"))
		stamp := Stamp{}
		for i := range keys {
			keys[i].HasKey = false // any source segment may hold it
			stamp = stamp.Extend(keys[i].Hash().Bucket)
		}
		parts := l.Cut(keys, nil, l.Keyless(seg.Range, 0))
		got, ok := l.Whole(Source{Range: seg.Range, Proves: true}, stamp)
		if ok != (len(parts) == 1) || ok && got != seg {
			t.Fatalf("Whole = %v, opening gives %d parts", ok, len(parts))
		}
	})
}

func TestKeylessTakesTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, src := genLayout(t), genRange(t)
		turn := rapid.Uint64Max(1<<63).Draw(t, "turn")
		covering := l.Covering(src)
		times := map[*Segment]int{}
		for i := range covering {
			times[l.Keyless(src, turn+uint64(i))]++
		}
		for _, s := range l.Active() {
			want := 0
			if s.Range.Overlaps(src) {
				want = 1
			}
			if times[s] != want {
				t.Fatalf("segment %v got %d of %d turns of source %v, want %d", s.Range, times[s], len(covering), src, want)
			}
		}
	})
}

func TestBucketsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Segment{Splits: genSplits(t, 1024, "buckets")}
		h := rapid.Uint16().Draw(t, "hash")
		in := 0
		for i := range s.Buckets() {
			if s.BucketRange(i).Contains(h) {
				in++
				if s.Bucket(h) != i {
					t.Fatalf("hash %04x: bucket %d, want %d", h, s.Bucket(h), i)
				}
			}
		}
		if in != 1 {
			t.Fatalf("hash %04x lies in %d buckets", h, in)
		}
	})
}
