package replicate

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

// low and high are the bucket hash ranges of the layout halves.
var low, high = leftHalf, rightHalf

// A row of design 2, Routing, for batches. Source: the left target segment's
// range, unless full.
func TestCutBatch(t *testing.T) {
	ll := keys(leftHalf, low, 2)
	lh := keys(leftHalf, high, 1)
	rl := keys(rightHalf, low, 1)
	together := []string{ll[0], ll[1]}
	buckets := []string{ll[0], lh[0], ll[1]}
	segments := []string{ll[0], rl[0], ll[1]}
	legacy := reroute.Source{Range: reroute.FullRange(), Proves: false}
	for _, row := range []struct {
		name    string
		source  reroute.Source
		layout  *reroute.Layout
		entry   *entry
		outcome Outcome
		opened  bool
		want    string
	}{
		{"stamp proves it", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, together, stamped(5, 0x7fff)), Outcome{"whole", "stamp"}, false, "1:body 0,body 1"},
		{"stamp straddles, keys do not", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, together, stamped(0, 0xffff)), Outcome{"whole", "opened"}, true, "1:body 0,body 1"},
		{"keys in two buckets", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, buckets, stamped(0, 0xffff)), Outcome{"split", "bucket"}, true, "1:body 0,body 2 | 1:body 1"},
		{"a source over two segments: a stamp proves nothing", reroute.Source{Range: reroute.FullRange(), Proves: true}, halves(t),
			batchOf(t, segments, stamped(0, 0x7fff)), Outcome{"split", "segment"}, true, "1:body 0,body 2 | 2:body 1"},
		{"the same, all of it for one segment", reroute.Source{Range: reroute.FullRange(), Proves: true}, halves(t),
			batchOf(t, together, stamped(0, 0x7fff)), Outcome{"whole", "opened"}, true, "1:body 0,body 1"},
		{"one bucket at the target needs no stamp", reroute.Source{Range: leftHalf, Proves: true}, plainHalves(t),
			batchOf(t, buckets, nil), Outcome{"whole", "stamp"}, false, "1:body 0,body 1,body 2"},
		{"legacy source proves nothing", legacy, plainHalves(t),
			batchOf(t, together, stamped(1, 1)), Outcome{"whole", "opened"}, true, "1:body 0,body 1"},
		{"legacy source, keys of two segments", legacy, plainHalves(t),
			batchOf(t, segments, stamped(1, 1)), Outcome{"split", "segment"}, true, "1:body 0,body 2 | 2:body 1"},
		{"a batch of one is a batch", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, ll[:1], nil), Outcome{"whole", "opened"}, true, "1:body 0"},
		{"never by the outer key", reroute.Source{Range: reroute.FullRange(), Proves: true}, plainHalves(t),
			batchOf(t, ll[:1], func(md *outer) { md.PartitionKey = &rl[0] }), Outcome{"whole", "opened"}, true, "1:body 0"},
		{"no stamp", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, together, nil), Outcome{"whole", "opened"}, true, "1:body 0,body 1"},
		{"min above max is no stamp", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, buckets, stamped(9, 8)), Outcome{"split", "bucket"}, true, "1:body 0,body 2 | 1:body 1"},
		{"above ffff is no stamp", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, buckets, stamped(0x8000, 0x10000)), Outcome{"split", "bucket"}, true, "1:body 0,body 2 | 1:body 1"},
		{"min alone is no stamp", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, buckets, func(md *outer) { md.EntryHashMin = proto.Uint32(0) }), Outcome{"split", "bucket"}, true, "1:body 0,body 2 | 1:body 1"},
		{"max alone is no stamp", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, buckets, func(md *outer) { md.EntryHashMax = proto.Uint32(0) }), Outcome{"split", "bucket"}, true, "1:body 0,body 2 | 1:body 1"},
		{"compressed", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			batchOf(t, buckets, func(md *outer) { md.Compression = pulsarpb.CompressionType_ZSTD.Enum() }),
			Outcome{"split", "bucket"}, true, "1:body 0,body 2 | 1:body 1"},
		{"encrypted, provable", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			encryptedBatch(t, stamped(1, 2)), Outcome{"whole", "stamp"}, false, ""},
		{"encrypted, one bucket", reroute.Source{Range: leftHalf, Proves: true}, plainHalves(t),
			encryptedBatch(t), Outcome{"whole", "stamp"}, false, ""},
		{"encrypted, straddling", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			encryptedBatch(t, stamped(0, 0xffff)), Outcome{"parked", "encrypted"}, false, "parked encrypted: all"},
		{"encrypted, over two segments", reroute.Source{Range: reroute.FullRange(), Proves: true}, plainHalves(t),
			encryptedBatch(t, stamped(1, 1)), Outcome{"parked", "encrypted"}, false, "parked encrypted: all"},
		{"undecodable", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			stored(t, &outer{NumMessagesInBatch: proto.Int32(3)}, []byte("not a batch")), Outcome{"parked", "undecodable"}, true, "parked undecodable: all"},
		{"a batch of none", reroute.Source{Range: leftHalf, Proves: true}, halves(t),
			stored(t, &outer{NumMessagesInBatch: proto.Int32(0)}, nil), Outcome{"parked", "undecodable"}, true, "parked undecodable: all"},
		{"undecodable, but provable", reroute.Source{Range: leftHalf, Proves: true}, plainHalves(t),
			stored(t, &outer{NumMessagesInBatch: proto.Int32(3)}, []byte("not a batch")), Outcome{"whole", "stamp"}, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := cutterOf(leftHalf)
			c.source = row.source
			got := c.cut(row.layout, row.entry, nil)
			if got.outcome != row.outcome || got.opened != row.opened {
				t.Errorf("outcome %v, opened %v; want %v, %v", got.outcome, got.opened, row.outcome, row.opened)
			}
			if row.want == "" { // cannot be opened here either
				if len(got.parts) != 1 || len(got.poison) != 0 || got.parts[0].segment.ID != 1 || !got.parts[0].whole() {
					t.Errorf("parts %+v, poison %v; want the whole entry for segment 1", got.parts, got.poison)
				}
				return
			}
			if s := describe(t, c, got); s != row.want {
				t.Errorf("cut into %q, want %q", s, row.want)
			}
		})
	}
}

func encryptedBatch(t testing.TB, edits ...func(*outer)) *entry {
	return batchOf(t, []string{"a", "b"}, both(append(edits, encrypted)...))
}

// A row of design 2, Routing, for entries of a single message.
func TestCutSingle(t *testing.T) {
	right := keys(rightHalf, low, 1)[0]
	left := keys(leftHalf, high, 1)[0]
	bytesKey := base64.StdEncoding.EncodeToString([]byte{0xff, 0, 0xfe})
	empty := ""
	ordering := []byte(keys(leftHalf, low, 1)[0])
	for _, row := range []struct {
		name  string
		edit  func(*outer)
		route reroute.Key
	}{
		{"its key", func(md *outer) { md.PartitionKey = &right }, reroute.Key{Key: []byte(right), HasKey: true}},
		{"stamped falsely", both(func(md *outer) { md.PartitionKey = &right }, stamped(0xffff, 0xffff)), reroute.Key{Key: []byte(right), HasKey: true}},
		{"ordering key: the bucket only", func(md *outer) { md.PartitionKey, md.OrderingKey = &left, ordering },
			reroute.Key{Key: []byte(left), HasKey: true, OrderingKey: ordering, HasOrderingKey: true}},
		{"empty ordering key", func(md *outer) { md.PartitionKey, md.OrderingKey = &left, []byte{} },
			reroute.Key{Key: []byte(left), HasKey: true, HasOrderingKey: true}},
		{"base64 key: its text", func(md *outer) { md.PartitionKey, md.PartitionKeyB64Encoded = &bytesKey, proto.Bool(true) },
			reroute.Key{Key: []byte(bytesKey), HasKey: true}},
		{"empty key", func(md *outer) { md.PartitionKey = &empty }, reroute.Key{HasKey: true}},
		{"encrypted", both(func(md *outer) { md.PartitionKey = &right }, encrypted), reroute.Key{Key: []byte(right), HasKey: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l, c := halves(t), cutterOf(reroute.FullRange())
			e := single(t, row.edit)
			h := row.route.Hash()
			got := c.cut(l, e, nil)
			if got.outcome != (Outcome{"whole", "single"}) || got.opened || len(got.parts) != 1 || len(got.poison) != 0 {
				t.Fatalf("%+v", got)
			}
			p := got.parts[0]
			if want := l.ActiveAt(h.Segment); p.segment != want {
				t.Errorf("segment %d, want %d", p.segment.ID, want.ID)
			}
			want := reroute.Stamp{Min: h.Bucket, Max: h.Bucket, Valid: true}
			if had := e.stamp(); had.Valid {
				want = had
			}
			out := produce(t, c, p)
			if s := reroute.NewStamp(out.md.GetEntryHashMin(), out.md.GetEntryHashMax(), out.md.EntryHashMin != nil, out.md.EntryHashMax != nil); s != want {
				t.Errorf("stamp %v, want %v", s, want)
			}
		})
	}
}

// Keyless entries take turns over the segments that the source overlaps, and
// go to bucket hash 0.
func TestCutKeyless(t *testing.T) {
	l, c := halves(t), cutterOf(reroute.FullRange())
	for i, want := range []uint64{1, 2, 1, 2} {
		e := single(t, func(*outer) {})
		e.pos.Entry = int64(i)
		p := c.cut(l, e, nil).parts[0]
		if s := produce(t, c, p).stamp(); p.segment.ID != want || s != "0000-0000" {
			t.Errorf("entry %d went to segment %d with stamp %s", i, p.segment.ID, s)
		}
	}
	e := batchWith(t, []*inner{{}, {}}, nil, func(i int) []byte { return []byte{byte('a' + i)} })
	if got := describe(t, c, c.cut(l, e, nil)); got != "2:a,b" {
		t.Errorf("keyless batch: %s", got)
	}
	half := cutterOf(rightHalf)
	for i := range 3 {
		e := single(t, func(*outer) {})
		e.pos.Entry = int64(i)
		if p := half.cut(l, e, nil).parts[0]; p.segment.ID != 2 {
			t.Errorf("a keyless entry of the right half went to segment %d", p.segment.ID)
		}
	}
	null := single(t, func(md *outer) { md.NullPartitionKey = proto.Bool(true) })
	if p := half.cut(l, null, nil).parts[0]; p.segment.ID != 2 {
		t.Errorf("a null key went to segment %d", p.segment.ID)
	}
}

func TestCutTooLarge(t *testing.T) {
	key := keys(leftHalf, low, 1)[0]
	body := strings.Repeat("x", 1000)
	of := func(sizes ...int) *entry {
		var messages []*inner
		for range sizes {
			messages = append(messages, &inner{PartitionKey: &key})
		}
		return batchWith(t, messages, nil, func(i int) []byte { return []byte(body[:sizes[i]]) })
	}
	c := cutterOf(leftHalf)
	c.maxSize = 800
	t.Run("single", func(t *testing.T) {
		e := keyed1(t, key)
		e.raw.Payload = []byte(body)
		if got := describe(t, c, c.cut(halves(t), e, nil)); got != "parked too_large: all" {
			t.Error(got)
		}
	})
	t.Run("batch", func(t *testing.T) {
		got := c.cut(halves(t), of(100, 110, 120, 130, 140, 1000), nil)
		var indices []string
		for _, p := range got.parts {
			indices = append(indices, string(appendIndices(nil, p.indices)))
			produce(t, c, p)
		}
		if s := strings.Join(indices, " "); s != "0-2 3 4" {
			t.Errorf("parts %s", s)
		}
		if len(got.poison) != 1 || got.poison[0].reason != "too_large" || !errors.Is(got.poison[0].err, errTooLarge) ||
			string(appendIndices(nil, got.poison[0].indices)) != "5" {
			t.Errorf("poison %+v", got.poison)
		}
		if got.outcome != (Outcome{"split", "bucket"}) {
			t.Errorf("outcome %v", got.outcome)
		}
	})
	t.Run("batch of nothing else", func(t *testing.T) {
		got := c.cut(halves(t), of(1000, 900), nil)
		if s := describe(t, c, got); s != "parked too_large: 0 | parked too_large: 1" || got.outcome != (Outcome{"parked", "too_large"}) {
			t.Errorf("%s, %v", s, got.outcome)
		}
	})
}
