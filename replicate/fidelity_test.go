package replicate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

func property1(key, value string) *pulsarpb.KeyValue {
	return &pulsarpb.KeyValue{Key: &key, Value: &value}
}

// Everything that design 2, Fidelity, does not name stays; what it names changes.
func TestFidelityWhole(t *testing.T) {
	key := keys(leftHalf, low, 1)[0]
	full := func(md *outer) {
		md.PartitionKey, md.OrderingKey, md.EventTime = &key, []byte("o"), proto.Uint64(5)
		md.DeliverAtTime, md.NullValue = proto.Int64(99), proto.Bool(true)
		md.Properties = []*pulsarpb.KeyValue{property1("a", "1"), property1("a", "2")}
		md.TxnidLeastBits, md.TxnidMostBits = proto.Uint64(4), proto.Uint64(5)
		md.HighestSequenceId = proto.Uint64(41)
		encrypted(md)
		md.EncryptionAlgo, md.EncryptionParam = proto.String("algo"), []byte("iv")
	}
	e := single(t, full)
	// A field that this release does not know.
	e.raw.Metadata = protowire.AppendString(protowire.AppendTag(e.raw.Metadata, 1999, protowire.BytesType), "kept")
	c := cutterOf(reroute.FullRange())
	got := produce(t, c, c.cut(halves(t), e, nil).parts[0])

	want := &outer{}
	if err := proto.Unmarshal(e.raw.Metadata, want); err != nil {
		t.Fatal(err)
	}
	h := e.key().Hash()
	want.TxnidLeastBits, want.TxnidMostBits = nil, nil
	want.ProducerName, want.ReplicatedFrom = proto.String("app@east"), proto.String("east")
	want.EntryHashMin, want.EntryHashMax = proto.Uint32(uint32(h.Bucket)), proto.Uint32(uint32(h.Bucket))
	want.Properties = append(want.Properties, property1(frame.IdentityProperty, "1;east;geobridge-lane;7:3;*;1;east"))
	if d := cmp.Diff(want, got.md, protocmp.Transform()); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
	if string(got.payload) != "body" {
		t.Errorf("payload %q", got.payload)
	}
}

func TestFidelityPart(t *testing.T) {
	ll, lh := keys(leftHalf, low, 2), keys(leftHalf, high, 1)
	messages := []*inner{
		{PartitionKey: &ll[0], SequenceId: proto.Uint64(10), EventTime: proto.Uint64(1), Properties: []*pulsarpb.KeyValue{property1("n", "0")}},
		{PartitionKey: &lh[0], SequenceId: proto.Uint64(11)},
		{PartitionKey: &ll[1], SequenceId: proto.Uint64(12)},
	}
	e := batchWith(t, messages, both(stamped(0, 0xffff), func(md *outer) {
		md.SequenceId, md.HighestSequenceId = proto.Uint64(12), proto.Uint64(12)
		md.TxnidLeastBits, md.TxnidMostBits = proto.Uint64(4), proto.Uint64(5)
		md.Compression = pulsarpb.CompressionType_LZ4.Enum()
		md.Properties = []*pulsarpb.KeyValue{property1("p", "outer")}
	}), func(i int) []byte { return []byte{'0' + byte(i)} })
	for _, row := range []struct {
		split    bool
		identity []string
		sequence []uint64
	}{
		{false, []string{"1;east;geobridge-lane;7:3;0,2;3;east", "1;east;geobridge-lane;7:3;1;3;east"}, []uint64{12, 11}},
		{true, []string{"1;east;geobridge-lane;7:3;0;3;east", "1;east;geobridge-lane;7:3;2;3;east", "1;east;geobridge-lane;7:3;1;3;east"}, []uint64{10, 12, 11}},
	} {
		c := cutterOf(leftHalf)
		c.rules.SplitMessages = row.split
		got := c.cut(halves(t), e, nil)
		if len(got.parts) != len(row.identity) {
			t.Fatalf("split %v: %d parts", row.split, len(got.parts))
		}
		for i, p := range got.parts {
			out := produce(t, c, p)
			if string(out.info.Identity) != row.identity[i] {
				t.Errorf("split %v, part %d: identity %s", row.split, i, out.info.Identity)
			}
			if out.md.GetSequenceId() != row.sequence[i] || out.md.GetProducerName() != "app@east" || out.md.GetReplicatedFrom() != "east" ||
				out.md.TxnidLeastBits != nil || out.md.TxnidMostBits != nil || out.md.GetCompression() != pulsarpb.CompressionType_LZ4 {
				t.Errorf("split %v, part %d: %v", row.split, i, out.md)
			}
			if out.info.Batch == row.split {
				t.Errorf("split %v, part %d: num_messages_in_batch there: %v", row.split, i, out.info.Batch)
			}
			if !row.split && out.info.NumMessages != p.messages {
				t.Errorf("%d messages in a part said to hold %d", out.info.NumMessages, p.messages)
			}
		}
	}
}

func TestFidelityProducerName(t *testing.T) {
	for _, row := range []struct {
		name     string
		original bool
		from     string
		want     string
		wantFrom string
	}{
		{"default", false, "", "app@east", "east"},
		{"original", true, "", "app", "east"},
		{"replicated before", false, "north", "app", "north"},
		{"replicated before, original", true, "north", "app", "north"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := cutterOf(reroute.FullRange())
			c.rules.OriginalProducer = row.original
			e := single(t, func(md *outer) {
				if row.from != "" {
					md.ReplicatedFrom = &row.from
				}
			})
			out := produce(t, c, c.cut(halves(t), e, nil).parts[0])
			if out.md.GetProducerName() != row.want || out.md.GetReplicatedFrom() != row.wantFrom {
				t.Errorf("producer %s of %s", out.md.GetProducerName(), out.md.GetReplicatedFrom())
			}
		})
	}
}

// An identity that is there already is replaced, and the clusters it passed kept.
func TestFidelityIdentity(t *testing.T) {
	for _, row := range []struct{ name, had, want string }{
		{"none", "", "1;east;geobridge-lane;7:3;*;1;east"},
		{"of another bridge", "1;north;geobridge-other;9:9;0-3;5;south,north", "1;east;geobridge-lane;7:3;*;1;south,north,east"},
		{"not one of ours", "an application's own", "1;east;geobridge-lane;7:3;*;1;east"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := single(t, func(md *outer) {
				md.Properties = []*pulsarpb.KeyValue{property1("a", "1")}
				if row.had != "" {
					md.Properties = append(md.Properties, property1(frame.IdentityProperty, row.had), property1("b", "2"))
				}
			})
			c := cutterOf(reroute.FullRange())
			out := produce(t, c, c.cut(halves(t), e, nil).parts[0])
			if string(out.info.Identity) != row.want {
				t.Errorf("identity %s, want %s", out.info.Identity, row.want)
			}
			n := 0
			for _, kv := range out.md.Properties {
				if kv.GetKey() == frame.IdentityProperty {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d identities", n)
			}
		})
	}
}

func TestFidelityStamp(t *testing.T) {
	ll := keys(leftHalf, low, 2)
	a, b := hashOf(ll[0]).Bucket, hashOf(ll[1]).Bucket
	tight := reroute.HashRange{Start: min(a, b), End: max(a, b)}.String()
	for _, row := range []struct {
		name string
		edit func(*outer)
		want string
	}{
		{"kept when whole", stamped(0, 0x7fff), "0000-7fff"},
		{"added when missing", nil, tight},
		{"added when invalid", stamped(2, 1), tight},
		{"a bound missing", func(md *outer) { md.EntryHashMax = proto.Uint32(9) }, tight},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := cutterOf(leftHalf)
			got := c.cut(halves(t), batchOf(t, ll, row.edit), nil)
			if s := produce(t, c, got.parts[0]).stamp(); s != row.want {
				t.Errorf("stamp %s, want %s", s, row.want)
			}
		})
	}
	// Proved by the one bucket of the target: the keys were not read, so nothing is added.
	c := cutterOf(leftHalf)
	if s := produce(t, c, c.cut(plainHalves(t), batchOf(t, ll, nil), nil).parts[0]).stamp(); s != "none" {
		t.Errorf("stamp %s of an unopened batch", s)
	}
}
