package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

func maybe[T any](t *rapid.T, name string, g *rapid.Generator[T]) *T {
	if rapid.Bool().Draw(t, "has "+name) {
		v := g.Draw(t, name)
		return &v
	}
	return nil
}

func drawProperties(t *rapid.T) (all []*pulsarpb.KeyValue) {
	for range rapid.IntRange(0, 3).Draw(t, "properties") {
		all = append(all, &pulsarpb.KeyValue{Key: proto.String(rapid.StringN(0, 4, 8).Draw(t, "name")), Value: proto.String(rapid.StringN(0, 4, 8).Draw(t, "value"))})
	}
	return all
}

func drawSingle(t *rapid.T, size int) *pulsarpb.SingleMessageMetadata {
	bytes := rapid.SliceOfN(rapid.Byte(), 0, 6)
	s := &pulsarpb.SingleMessageMetadata{
		PayloadSize: proto.Int32(int32(size)), Properties: drawProperties(t), PartitionKey: maybe(t, "key", rapid.StringN(0, 3, 6)),
		EventTime: maybe(t, "event time", rapid.Uint64()), PartitionKeyB64Encoded: maybe(t, "b64", rapid.Bool()),
		SequenceId: maybe(t, "sequence", rapid.Uint64()), NullValue: maybe(t, "null value", rapid.Bool()), NullPartitionKey: maybe(t, "null key", rapid.Bool()),
	}
	if key := maybe(t, "ordering key", bytes); key != nil {
		s.OrderingKey = slices.Concat([]byte{}, *key)
	}
	return s
}

// drawBatch makes an entry of some messages, with outer fields of all kinds.
func drawBatch(t *rapid.T) (md, payload []byte, n int) {
	outer := &pulsarpb.MessageMetadata{
		ProducerName: proto.String(rapid.SampledFrom([]string{"app", "app@east", ""}).Draw(t, "producer")),
		SequenceId:   proto.Uint64(rapid.Uint64().Draw(t, "outer sequence")), PublishTime: proto.Uint64(rapid.Uint64().Draw(t, "publish time")),
		EventTime: maybe(t, "outer event time", rapid.Uint64()), NullValue: maybe(t, "outer null value", rapid.Bool()),
		NullPartitionKey: maybe(t, "outer null key", rapid.Bool()), DeliverAtTime: maybe(t, "deliver at", rapid.Int64()),
		PartitionKey: maybe(t, "outer key", rapid.StringN(0, 3, 6)), HighestSequenceId: maybe(t, "highest", rapid.Uint64()),
	}
	codec := rapid.SampledFrom([]pulsarpb.CompressionType{0, 1, 2, 3, 4}).Draw(t, "codec")
	n = rapid.IntRange(1, 8).Draw(t, "messages")
	var plain []byte
	for range n {
		body := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "body")
		head, err := proto.Marshal(drawSingle(t, len(body)))
		if err != nil {
			t.Fatal(err)
		}
		plain = frame.AppendMessageInBatch(plain, head, body)
	}
	outer.NumMessagesInBatch, outer.Compression, outer.UncompressedSize = proto.Int32(int32(n)), codec.Enum(), proto.Uint32(uint32(len(plain)))
	payload, err := frame.Compress(codec, plain)
	if err != nil {
		t.Fatal(err)
	}
	md, err = proto.Marshal(outer)
	if err != nil {
		t.Fatal(err)
	}
	return md, payload, n
}

type entryOf struct {
	md, payload []byte
	indices     []int
}

func messagesIn(t *rapid.T, d *digester, entries ...entryOf) (all []message) {
	for _, e := range entries {
		info, err := frame.Scan(e.md)
		if err != nil {
			t.Fatal(err)
		}
		m := &pulsar.Message{Entry: frame.NewEntry(e.md, e.payload), Info: info}
		for _, x := range d.messages(m, origin{name: "lane", total: 9, indices: e.indices}) {
			x.entry, x.shown = nil, nil
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b message) int { return cmp.Compare(a.index, b.index) })
	return all
}

// However geobridge cuts a batch, its messages compare equal; and none compares
// equal to another.
func TestCutsCompareEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		md, payload, n := drawBatch(t)
		d := newDigester("east", newSeeds())
		info, err := frame.Scan(md)
		if err != nil {
			t.Fatal(err)
		}
		b, err := frame.Open(&info, md, payload, maxUncompressed)
		if err != nil {
			t.Fatal(err)
		}
		groups := make([][]int, 3)
		for i := range n {
			g := rapid.IntRange(0, 2).Draw(t, "part")
			groups[g] = append(groups[g], i)
		}
		patch := &frame.Patch{Identity: []byte("x"), ProducerName: []byte(string(info.ProducerName) + "@east"),
			ReplicatedFrom: []byte("east"), SetStamp: true, HashMin: 1, HashMax: 2}
		var cut []entryOf
		for g, indices := range groups {
			if len(indices) == 0 {
				continue
			}
			if g == 2 { // one by one
				for _, i := range indices {
					md, payload, err := b.Single(md, &info, i, patch)
					if err != nil {
						t.Fatal(err)
					}
					cut = append(cut, entryOf{md, payload, []int{i}})
				}
				continue
			}
			md, payload, err := b.Rebatch(md, &info, indices, patch)
			if err != nil {
				t.Fatal(err)
			}
			cut = append(cut, entryOf{md, payload, indices})
		}
		want := messagesIn(t, d, entryOf{md: md, payload: payload})
		whole := messagesIn(t, d, entryOf{md: frame.AppendPatched(nil, md, patch), payload: payload})
		got := messagesIn(t, d, cut...)
		if len(want) != n || !slices.Equal(want, whole) || !slices.Equal(want, got) {
			t.Fatalf("%d messages\n%+v\nwhole\n%+v\ncut\n%+v", n, want, whole, got)
		}
		seen := map[sum]bool{}
		for _, m := range want {
			if seen[m.sum] {
				t.Fatal("two messages of one digest")
			}
			seen[m.sum] = true
		}
	})
}

// chain is a source of one segment that splits at each generation: 0 → 1, 2 and so on.
func chain(t rapid.TB, generations int) *lanes {
	segs := []reroute.Segment{{ID: 0, Range: reroute.FullRange()}}
	last := []uint64{0}
	for g := range generations {
		var next []uint64
		for _, id := range last {
			p := &segs[id]
			p.Sealed = true
			mid := p.Range.Start + (p.Range.End-p.Range.Start)/2
			for _, r := range []reroute.HashRange{{Start: p.Range.Start, End: mid}, {Start: mid + 1, End: p.Range.End}} {
				child := uint64(len(segs))
				segs[id].Children = append(segs[id].Children, child)
				segs = append(segs, reroute.Segment{ID: child, Range: r, Parents: []uint64{id}, CreatedAtMs: int64(g + 1)})
				next = append(next, child)
			}
		}
		last = next
	}
	l, err := reroute.NewLayout(topic, 1, segs)
	if err != nil {
		t.Fatal(err)
	}
	return newLanes(l, func(s *reroute.Segment) replicate.LaneID { return replicate.LaneID{Segment: s.ID} })
}

func TestGenerations(t *testing.T) {
	l := chain(t, 3)
	for _, lane := range l.all {
		for _, p := range lane.segment.Parents {
			if parent := l.all[p]; parent.rank >= lane.rank {
				t.Errorf("parent %d has rank %d, child %d rank %d", p, parent.rank, lane.segment.ID, lane.rank)
			}
		}
	}
}

// order agrees with a look at each key's messages, and letting go of ranges changes
// nothing for those that it follows.
func TestOrderAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := chain(t, 2)
		limit := rapid.Int64Range(1, 40).Draw(t, "limit")
		o := newOrder(l, limit, func(int) bool { return true })
		type seen struct{ last ident }
		model, late := map[string]seen{}, map[int]int64{}
		for range rapid.IntRange(1, 120).Draw(t, "messages") {
			key := fmt.Sprintf("k%d", rapid.IntRange(0, 30).Draw(t, "key"))
			hash := reroute.Key{Key: []byte(key), HasKey: true}.Hash().Segment
			var own []int32 // lanes of the key
			for i := range l.all {
				if l.all[i].segment.Range.Contains(hash) {
					own = append(own, int32(i))
				}
			}
			id := ident{lane: rapid.SampledFrom(own).Draw(t, "lane"), index: rapid.Int32Range(0, 2).Draw(t, "index"),
				pos: replicate.Position{Ledger: 1, Entry: rapid.Int64Range(0, 5).Draw(t, "entry")}}
			m := &message{ident: id, n: 1, rng: int(hash >> 8), hash: hash, key: uint64(hash)}
			_, ok := o.see(m, place{})
			old, known := model[key]
			want := !known || less(l, old.last, id)
			if want {
				model[key] = seen{id}
			} else {
				late[m.rng]++
			}
			if o.follows(m.rng) && ok != want {
				t.Fatalf("%+v after %+v: %v", id, old.last, ok)
			}
		}
		followed := 0
		for i := range keyless {
			if o.follows(i) {
				followed++
				if o.shards[i].late != late[i] {
					t.Fatalf("range %d: %d late, want %d", i, o.shards[i].late, late[i])
				}
			} else if !o.pending(i) {
				t.Fatalf("range %d is neither followed nor pending", i)
			}
		}
		if followed == 0 || o.keys.Load() > limit && followed > 1 {
			t.Fatalf("%d ranges, %d keys, limit %d", followed, o.keys.Load(), limit)
		}
	})
}

// less is the order of the source, from the lineage of the chain.
func less(l *lanes, a, b ident) bool {
	if a.lane != b.lane {
		for id := l.all[b.lane].segment; len(id.Parents) > 0; id = l.all[id.Parents[0]].segment {
			if int32(id.Parents[0]) == a.lane {
				return true
			}
		}
		return false
	}
	return a.pos.Entry < b.pos.Entry || a.pos == b.pos && a.index < b.index
}

// bounds answer, whatever comes first, as a look at all segments does.
func TestBoundsAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := chain(t, 1).all
		targets := chain(t, 2).all
		var from, to []*reroute.Segment
		for i := range sources {
			from = append(from, sources[i].segment)
		}
		for i := range targets {
			to = append(to, targets[i].segment)
		}
		b := newBounds(from, to, false)
		first := map[[2]int]int64{}
		for target := range to {
			for lane := range from {
				if rapid.Bool().Draw(t, "seen") {
					first[[2]int{lane, target}] = rapid.Int64Range(0, 9).Draw(t, "first")
				}
			}
		}
		for _, target := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6}).Draw(t, "order") {
			for lane := range from {
				if pos, seen := first[[2]int{lane, target}]; seen {
					b.saw(int32(lane), target, replicate.Position{Entry: pos})
				}
			}
			b.finished(target)
		}
		begins := func(lane int, hash uint16) int64 {
			least := int64(1000)
			for i, s := range to {
				if pos, seen := first[[2]int{lane, i}]; seen && s.Range.Contains(hash) {
					least = min(least, pos)
				}
			}
			return least
		}
		for lane, s := range from {
			for pos := range int64(11) {
				all := true
				for hash := int(s.Range.Start); hash <= int(s.Range.End); hash += 0x800 {
					want := begins(lane, uint16(hash)) <= pos
					all = all && want
					m := &message{ident: ident{lane: int32(lane), pos: replicate.Position{Entry: pos}}, rng: hash >> 8, hash: uint16(hash)}
					if got, err := b.holds(context.Background(), m); err != nil || got != want {
						t.Fatalf("lane %d, hash %04x, entry %d: %v, want %v", lane, hash, pos, got, want)
					}
				}
				m := &message{ident: ident{lane: int32(lane), pos: replicate.Position{Entry: pos}}, rng: keyless}
				if got, err := b.holds(context.Background(), m); err != nil || got != all {
					t.Fatalf("lane %d, keyless, entry %d: %v, want %v", lane, pos, got, all)
				}
			}
		}
	})
}

// finder finds exactly what was done to a copy, and digests differ exactly where
// anything was.
func TestFinderAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := chain(t, 0)
		digest := newSeeds()
		var source []message
		for i := range rapid.IntRange(1, 60).Draw(t, "messages") {
			hash := uint16(rapid.SampledFrom([]int{3, 0x1234, 0x12ff, 0xfff0}).Draw(t, "hash"))
			source = append(source, message{ident: ident{pos: replicate.Position{Entry: int64(i)}}, n: 1,
				rng: int(hash >> 8), hash: hash, key: uint64(hash), sum: digest.sum([]byte{byte(i)}), shown: &shown{}, entry: &content{}})
		}
		var want FaultCounts
		var target []message
		touched := map[int]bool{}
		for _, m := range source {
			switch rapid.IntRange(0, 12).Draw(t, "fault") {
			case 0:
				want.Lost++
				touched[m.rng] = true
				continue
			case 1:
				want.Duplicated++
				touched[m.rng] = true
				target = append(target, m)
			case 2:
				want.Altered++
				touched[m.rng] = true
				m.sum = digest.sum([]byte{byte(m.pos.Entry), 1})
			case 3:
				want.Unknown++
				touched[m.rng] = true
				x := m
				x.index, x.sum = 5, digest.sum([]byte{byte(m.pos.Entry), 2})
				target = append(target, m)
				m = x
			}
			target = append(target, m)
		}
		var a, b digests
		for i := range source {
			a.add(&source[i])
		}
		for i := range target {
			b.add(&target[i])
		}
		var wanted [ranges]bool
		for i := range ranges {
			if wanted[i] = a[i] != b[i]; wanted[i] != touched[i] {
				t.Fatalf("range %d differs: %v, want %v", i, wanted[i], touched[i])
			}
		}
		f := newFinder(l, wanted, 1, 5, newOrder(l, 1000, func(int) bool { return true }))
		for i := range target {
			f.target(&target[i], place{pos: replicate.Position{Entry: int64(i)}})
		}
		for i := range source {
			f.source(&source[i])
		}
		f.finish()
		if f.counts != want || len(f.faults) != int(min(want.Total(), 5)) {
			t.Fatalf("%+v, want %+v; %d named", f.counts, want, len(f.faults))
		}
	})
}
