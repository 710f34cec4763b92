package replicate

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

// drawLayout draws 1 to 5 segments with 1 to 4 buckets each.
func drawLayout(t *rapid.T, tb testing.TB, epoch uint64) *reroute.Layout {
	starts := rapid.SliceOfNDistinct(rapid.Uint16Min(1), 0, 4, rapid.ID).Draw(t, "segments")
	slices.Sort(starts)
	starts = append([]uint16{0}, starts...)
	var segs []reroute.Segment
	for i, start := range starts {
		end := uint16(0xffff)
		if i+1 < len(starts) {
			end = starts[i+1] - 1
		}
		splits := rapid.SliceOfNDistinct(rapid.Uint16Min(1), 0, 3, rapid.ID).Draw(t, "splits")
		slices.Sort(splits)
		id := 100*epoch + uint64(i)
		segs = append(segs, reroute.Segment{ID: id, CreatedAtMs: int64(id + 1), Range: reroute.HashRange{Start: start, End: end}, Splits: splits})
	}
	return mustLayout(tb, epoch, segs...)
}

// drawBatch draws a batch of any keys; no stamp, or a tight one. Its messages'
// payloads are their own indices.
func drawBatch(t *rapid.T, tb testing.TB) *entry {
	var messages []*inner
	var stamp reroute.Stamp
	for range rapid.IntRange(1, 12).Draw(t, "messages") {
		m := &inner{}
		if rapid.IntRange(0, 4).Draw(t, "has key") > 0 {
			key := fmt.Sprintf("k%d", rapid.IntRange(0, 300).Draw(t, "key"))
			m.PartitionKey = &key
		}
		if rapid.IntRange(0, 5).Draw(t, "has ordering key") == 0 {
			m.OrderingKey = fmt.Appendf(nil, "o%d", rapid.IntRange(0, 300).Draw(t, "ordering key"))
		}
		stamp = stamp.Extend(keyOf(m).Hash().Bucket)
		messages = append(messages, m)
	}
	tight := rapid.Bool().Draw(t, "stamped")
	codec := rapid.SampledFrom([]pulsarpb.CompressionType{0, pulsarpb.CompressionType_LZ4, pulsarpb.CompressionType_ZSTD}).Draw(t, "codec")
	return batchWith(tb, messages, func(md *outer) {
		if tight {
			stamped(uint32(stamp.Min), uint32(stamp.Max))(md)
		}
		if codec != 0 {
			md.Compression = codec.Enum()
		}
	}, func(i int) []byte { return fmt.Append(nil, i) })
}

func keyOf(m *inner) reroute.Key {
	return reroute.Key{Key: []byte(m.GetPartitionKey()), HasKey: m.PartitionKey != nil,
		OrderingKey: m.OrderingKey, HasOrderingKey: m.OrderingKey != nil}
}

func drawInclude(t *rapid.T, n int) []int {
	if rapid.Bool().Draw(t, "all") {
		return nil
	}
	include := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, n, rapid.ID).Draw(t, "include")
	slices.Sort(include)
	return include
}

func drawCutter(t *rapid.T) *cutter {
	c := cutterOf(reroute.FullRange())
	c.source.Proves = rapid.Bool().Draw(t, "proves")
	c.rules.SplitMessages = rapid.Bool().Draw(t, "split: message")
	if rapid.IntRange(0, 3).Draw(t, "small") == 0 {
		c.maxSize = rapid.IntRange(250, 500).Draw(t, "max size")
	}
	return c
}

// indicesOf is what a part or a piece of poison holds of an entry.
func indicesOf(e *entry, indices []int) []int {
	if indices != nil {
		return indices
	}
	var all []int
	for i := range e.messages() {
		all = append(all, i)
	}
	return all
}

// checkCut asserts what holds for each cut: the included messages once each,
// every part within one bucket of the segment that it is for, with the tightest
// stamp, holding on the wire what it says it holds.
func checkCut(t *rapid.T, tb testing.TB, c *cutter, l *reroute.Layout, e *entry, include []int, got cuts) {
	seen := map[int]int{}
	for _, p := range got.poison {
		for _, i := range indicesOf(e, p.indices) {
			seen[i]++
		}
	}
	for _, p := range got.parts {
		indices := indicesOf(e, p.indices)
		if !slices.IsSorted(indices) {
			t.Fatalf("indices %v", indices)
		}
		out := produce(tb, c, p)
		if !slices.Equal(indicesOf(e, out.identity.Indices), indices) || out.identity.Total != e.messages() || out.identity.Pos != e.pos {
			t.Fatalf("identity %s of messages %v of %d", out.info.Identity, indices, e.messages())
		}
		bodies := out.bodies(tb)
		if len(bodies) != len(indices) || p.messages != len(indices) {
			t.Fatalf("%d messages on the wire, %d said, want %v", len(bodies), p.messages, indices)
		}
		var tight reroute.Stamp
		for n, i := range indices {
			seen[i]++
			if bodies[n] != fmt.Sprint(i) {
				t.Fatalf("message %d of the part is %q, want %d", n, bodies[n], i)
			}
			h := e.keys[i].Hash()
			if h.Keyed && !p.segment.Range.Contains(h.Segment) {
				t.Fatalf("message %d of segment hash %04x is in segment %v", i, h.Segment, p.segment.Range)
			}
			tight = tight.Extend(h.Bucket)
		}
		if p.segment.Bucket(tight.Min) != p.segment.Bucket(tight.Max) {
			t.Fatalf("a part over buckets %d to %d", p.segment.Bucket(tight.Min), p.segment.Bucket(tight.Max))
		}
		stamp := reroute.NewStamp(out.info.HashMin, out.info.HashMax, out.info.HasHashMin, out.info.HasHashMax)
		if stamp != tight && (!p.whole() || stamp.Valid || got.opened) {
			t.Fatalf("stamp %v, want %v", stamp, tight)
		}
		if l.Segment(p.segment.ID) != p.segment {
			t.Fatalf("segment %d is not of the layout", p.segment.ID)
		}
	}
	for _, i := range indicesOf(e, include) {
		if seen[i] != 1 {
			t.Fatalf("message %d is in %d parts", i, seen[i])
		}
		delete(seen, i)
	}
	if len(seen) > 0 {
		t.Fatalf("messages %v were not asked for", seen)
	}
}

func TestCutProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c, e := drawCutter(r), drawBatch(r, t)
		if err := e.open(); err != nil {
			r.Fatal(err)
		}
		l := drawLayout(r, t, 1)
		include := drawInclude(r, e.messages())
		checkCut(r, t, c, l, e, include, c.cut(l, e, include))
	})
}

// Parts that are cut again under a second layout hold together what the first
// ones held.
func TestRecutProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c, e := drawCutter(r), drawBatch(r, t)
		if err := e.open(); err != nil {
			r.Fatal(err)
		}
		first, second := drawLayout(r, t, 1), drawLayout(r, t, 2)
		before := c.cut(first, e, nil)
		all := cuts{poison: before.poison}
		for _, p := range before.parts {
			again := c.cut(second, e, p.indices)
			checkCut(r, t, c, second, e, indicesOf(e, p.indices), again)
			all.parts = append(all.parts, again.parts...)
			all.poison = append(all.poison, again.poison...)
		}
		checkCut(r, t, c, second, e, nil, all)
	})
}

// What patching adds to an entry never exceeds what was set aside for it.
func TestGrowthProperty(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9.-]{1,60}`)
	rapid.Check(t, func(r *rapid.T) {
		c := cutterOf(reroute.FullRange())
		c.rules.SourceCluster = name.Draw(r, "cluster")
		e := keyed1(t, "k")
		e.pos = Position{Ledger: rapid.Int64Min(0).Draw(r, "ledger"), Entry: rapid.Int64Min(0).Draw(r, "entry")}
		if rapid.Bool().Draw(r, "passed others") {
			id := Identity{Cluster: name.Draw(r, "other"), Lane: "geobridge-l", Total: 1, Path: rapid.SliceOfN(name, 0, 9).Draw(r, "path")}
			old := stored(t, &outer{PartitionKey: new(string), ProducerName: new(string),
				Properties: []*pulsarpb.KeyValue{property1("__geobridge_source", string(id.Append(nil)))}}, nil)
			old.pos, e = e.pos, old
		}
		p := c.cut(halves(t), e, nil).parts[0]
		if out := produce(t, c, p); len(out.raw)+len(out.payload) > p.size {
			r.Fatalf("%d bytes, said to be at most %d", len(out.raw)+len(out.payload), p.size)
		}
	})
}
