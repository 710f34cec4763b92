package frame

import (
	"bytes"
	"slices"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

func maybe[T any](t *rapid.T, g *rapid.Generator[T], name string) *T {
	if !rapid.Bool().Draw(t, "has "+name) {
		return nil
	}
	v := g.Draw(t, name)
	return &v
}

func maybeBytes(t *rapid.T, name string) []byte {
	if p := maybe(t, rapid.SliceOfN(rapid.Byte(), 0, 6), name); p != nil {
		return slices.Concat([]byte{}, *p)
	}
	return nil
}

func drawProperties(t *rapid.T) (out []*pulsarpb.KeyValue) {
	for range rapid.IntRange(0, 3).Draw(t, "properties") {
		key := rapid.SampledFrom([]string{"", "a", "b", IdentityProperty}).Draw(t, "property")
		out = append(out, &pulsarpb.KeyValue{Key: &key, Value: proto.String(rapid.StringN(0, 5, -1).Draw(t, "value"))})
	}
	return out
}

// drawMetadata makes outer metadata with any mix of fields, in field order,
// with a field of an unknown number somewhere.
func drawMetadata(t *rapid.T, batch int) []byte {
	str := rapid.StringN(0, 8, -1)
	m := &pulsarpb.MessageMetadata{
		ProducerName: proto.String(str.Draw(t, "producer")), SequenceId: proto.Uint64(rapid.Uint64().Draw(t, "sequence")),
		PublishTime: proto.Uint64(rapid.Uint64().Draw(t, "publish time")), Properties: drawProperties(t),
		ReplicatedFrom: maybe(t, str, "replicated_from"), PartitionKey: maybe(t, str, "key"),
		ReplicateTo: rapid.SliceOfN(str, 0, 2).Draw(t, "replicate_to"), EventTime: maybe(t, rapid.Uint64(), "event time"),
		SchemaVersion: maybeBytes(t, "schema version"), PartitionKeyB64Encoded: maybe(t, rapid.Bool(), "b64"),
		OrderingKey: maybeBytes(t, "ordering key"), DeliverAtTime: maybe(t, rapid.Int64(), "deliver at"),
		TxnidLeastBits: maybe(t, rapid.Uint64(), "txn least"), TxnidMostBits: maybe(t, rapid.Uint64(), "txn most"),
		HighestSequenceId: maybe(t, rapid.Uint64(), "highest"), NullValue: maybe(t, rapid.Bool(), "null value"),
		NullPartitionKey: maybe(t, rapid.Bool(), "null key"), SchemaId: maybeBytes(t, "schema id"),
		EntryHashMin: maybe(t, rapid.Uint32(), "min"), EntryHashMax: maybe(t, rapid.Uint32(), "max"),
	}
	if batch > 0 {
		m.NumMessagesInBatch = proto.Int32(int32(batch))
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	unknown := protowire.AppendString(protowire.AppendTag(nil, 1999, protowire.BytesType), "kept")
	if rapid.Bool().Draw(t, "unknown first") {
		return append(unknown, b...)
	}
	return append(b, unknown...)
}

func drawPatch(t *rapid.T) *Patch {
	p := &Patch{ProducerName: maybeBytes(t, "new producer"), ReplicatedFrom: maybeBytes(t, "new replicated_from"),
		SchemaVersion: maybeBytes(t, "new schema version"), Identity: maybeBytes(t, "identity"),
		SetStamp: rapid.Bool().Draw(t, "set stamp")}
	if p.SetStamp {
		p.HashMin, p.HashMax = rapid.Uint32().Draw(t, "min"), rapid.Uint32().Draw(t, "max")
	}
	return p
}

// patched is the model of AppendPatched, on the generated code.
func patched(m *pulsarpb.MessageMetadata, p *Patch) *pulsarpb.MessageMetadata {
	m.TxnidLeastBits, m.TxnidMostBits = nil, nil
	if p.ProducerName != nil {
		m.ProducerName = proto.String(string(p.ProducerName))
	}
	if p.ReplicatedFrom != nil {
		m.ReplicatedFrom = proto.String(string(p.ReplicatedFrom))
	}
	if p.SchemaVersion != nil {
		m.SchemaVersion = p.SchemaVersion
	}
	if p.SetStamp {
		m.EntryHashMin, m.EntryHashMax = &p.HashMin, &p.HashMax
	}
	if p.Identity == nil {
		return m
	}
	identity := &pulsarpb.KeyValue{Key: proto.String(IdentityProperty), Value: proto.String(string(p.Identity))}
	isIdentity := func(kv *pulsarpb.KeyValue) bool { return kv.GetKey() == IdentityProperty }
	at := slices.IndexFunc(m.Properties, isIdentity)
	rest := slices.DeleteFunc(m.Properties, isIdentity)
	if at < 0 {
		at = len(rest)
	}
	m.Properties = slices.Insert(rest, at, identity)
	return m
}

func TestPatchedMetadata(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		metadata := drawMetadata(t, rapid.IntRange(0, 3).Draw(t, "batch"))
		checkInfo(t, metadata)
		p := drawPatch(t)
		got := AppendPatched([]byte("before"), metadata, p)
		if !bytes.HasPrefix(got, []byte("before")) {
			t.Fatal("overwrote dst")
		}
		got = got[len("before"):]
		want := patched(unmarshal(t, metadata, &pulsarpb.MessageMetadata{}), p)
		if diff := cmp.Diff(want, unmarshal(t, got, &pulsarpb.MessageMetadata{}), protocmp.Transform()); diff != "" {
			t.Errorf("patched (-model +wire):\n%s", diff)
		}
		if again := AppendPatched(nil, got, p); !bytes.Equal(again, got) {
			t.Errorf("patching twice:\n%x\n%x", got, again)
		}
		kept := AppendPatched(nil, metadata, &Patch{})
		if !unmarshalHasTxn(t, metadata) && !bytes.Equal(kept, metadata) {
			t.Errorf("an empty patch changed\n%x\ninto\n%x", metadata, kept)
		}
	})
}

func unmarshalHasTxn(t rapid.TB, metadata []byte) bool {
	m := unmarshal(t, metadata, &pulsarpb.MessageMetadata{})
	return m.TxnidLeastBits != nil || m.TxnidMostBits != nil
}

func TestCombineCRC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOf(rapid.Byte()).Draw(t, "a")
		b := bytes.Repeat(rapid.SliceOf(rapid.Byte()).Draw(t, "b"), rapid.SampledFrom([]int{1, 1, 1000}).Draw(t, "times"))
		if got, want := CombineCRC(Checksum(0, a), Checksum(0, b), len(b)), Checksum(Checksum(0, a), b); got != want {
			t.Errorf("%08x, not %08x", got, want)
		}
	})
}

// drawBatch makes the plain payload of a batch of n, its messages with or
// without sequence ids of their own.
func drawBatch(t *rapid.T, n int) []byte {
	str := rapid.StringN(0, 4, -1)
	own := rapid.Bool().Draw(t, "own sequence ids")
	var plain []byte
	for i := range n {
		payload := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "payload"), rapid.IntRange(1, 200).Draw(t, "times"))
		s := &pulsarpb.SingleMessageMetadata{
			Properties: drawProperties(t), PartitionKey: maybe(t, str, "key"), PayloadSize: proto.Int32(int32(len(payload))),
			EventTime: maybe(t, rapid.Uint64(), "event time"), PartitionKeyB64Encoded: maybe(t, rapid.Bool(), "b64"),
			OrderingKey: maybeBytes(t, "ordering key"), NullValue: maybe(t, rapid.Bool(), "null value"),
			NullPartitionKey: maybe(t, rapid.Bool(), "null key"),
		}
		if own {
			s.SequenceId = proto.Uint64(uint64(10*i) + rapid.Uint64Range(0, 9).Draw(t, "sequence"))
		}
		meta, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		plain = AppendMessageInBatch(plain, meta, payload)
	}
	return plain
}

func TestBatchSurgery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		codec := pulsarpb.CompressionType(rapid.Int32Range(0, 4).Draw(t, "codec"))
		plain := drawBatch(t, n)
		payload, err := Compress(codec, plain)
		if err != nil {
			t.Fatal(err)
		}
		metadata := drawMetadata(t, n)
		metadata = varint(varint(metadata, mdCompression, uint64(codec)), mdUncompressedSize, uint64(len(plain)))
		info := checkInfo(t, metadata)
		b, err := Open(&info, metadata, payload, len(plain))
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Messages {
			checkSingle(t, b, metadata, &info, i)
		}
		checkPart(t, b, metadata, &info)
		if _, err := Open(&info, metadata, payload, len(plain)-1); codec != 0 && reasonOf(err) != ReasonSize {
			t.Errorf("opened above the limit: %v", err)
		}
	})
}

func checkSingle(t *rapid.T, b *Batch, metadata []byte, info *Info, i int) {
	p := drawPatch(t)
	md, payload, err := b.Single(metadata, info, i, p)
	if err != nil {
		t.Fatal(err)
	}
	want := seen(t, metadata, &b.Messages[i])
	// An identity among the message's own properties is not the entry's; the
	// outer one is, and stays.
	own := slices.DeleteFunc(want.Meta.Properties, func(kv *pulsarpb.KeyValue) bool { return kv.GetKey() == IdentityProperty })
	outer := unmarshal(t, metadata, &pulsarpb.MessageMetadata{}).Properties
	for _, kv := range outer {
		if kv.GetKey() == IdentityProperty {
			own = append(own, kv)
		}
	}
	want.Meta.Properties = own
	want.Meta = invisible(patched(want.Meta, p))
	got := plainSeen(t, md, payload)
	sort := func(m *pulsarpb.MessageMetadata) {
		slices.SortStableFunc(m.Properties, func(a, b *pulsarpb.KeyValue) int { return bytes.Compare([]byte(a.GetKey()), []byte(b.GetKey())) })
	}
	sort(want.Meta)
	sort(got.Meta)
	if want.Meta.PartitionKey == nil { // the flag means nothing without a key
		want.Meta.PartitionKeyB64Encoded, got.Meta.PartitionKeyB64Encoded = nil, nil
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("message %d (-in the batch +alone):\n%s", i, diff)
	}
}

// checkPart cuts a part out and compares each message with its original.
func checkPart(t *rapid.T, b *Batch, metadata []byte, info *Info) {
	all := rapid.SliceOfNDistinct(rapid.IntRange(0, len(b.Messages)-1), 1, len(b.Messages), rapid.ID[int]).Draw(t, "indices")
	slices.Sort(all)
	md, payload, err := b.Rebatch(metadata, info, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := checkInfo(t, md)
	part, err := Open(&got, md, payload, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(part.Messages) != len(all) {
		t.Fatalf("%d messages, not %d", len(part.Messages), len(all))
	}
	keyed := !got.HasPartitionKey && !got.HasOrderingKey
	for k, i := range all {
		want, have := seen(t, metadata, &b.Messages[i]), seen(t, md, &part.Messages[k])
		if !b.Messages[i].HasSequenceID { // then the outer one shows: it must not change
			want.Meta.SequenceId = &info.SequenceID
		}
		if diff := cmp.Diff(want, have, protocmp.Transform()); diff != "" {
			t.Errorf("message %d (-in the batch +in its part):\n%s", i, diff)
		}
		m := &part.Messages[k]
		keyed = keyed || got.HasPartitionKey == m.HasKey && bytes.Equal(got.PartitionKey, m.Key) &&
			got.HasOrderingKey == m.HasOrderingKey && bytes.Equal(got.OrderingKey, m.OrderingKey)
	}
	if !keyed {
		t.Errorf("outer keys %q %q are of none of the messages", got.PartitionKey, got.OrderingKey)
	}
}
