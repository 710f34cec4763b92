package replicate

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

// What tests build entries and layouts from.

type (
	outer = pulsarpb.MessageMetadata
	inner = pulsarpb.SingleMessageMetadata
)

// stored makes a source entry of metadata and payload, as a broker delivers it.
func stored(t testing.TB, md *outer, payload []byte) *entry {
	t.Helper()
	if md.ProducerName == nil {
		md.ProducerName = proto.String("app")
	}
	if md.SequenceId == nil {
		md.SequenceId = proto.Uint64(41)
	}
	md.PublishTime = proto.Uint64(1700000000000)
	metadata, err := proto.Marshal(md)
	if err != nil {
		t.Fatal(err)
	}
	info, err := frame.Scan(metadata)
	if err != nil {
		t.Fatal(err)
	}
	return &entry{pos: Position{Ledger: 7, Entry: 3}, raw: frame.NewEntry(metadata, payload), info: info}
}

// single is an entry of one message: no num_messages_in_batch.
func single(t testing.TB, edit func(*outer)) *entry {
	t.Helper()
	md := &outer{}
	edit(md)
	return stored(t, md, []byte("body"))
}

// keyed1 is a single-message entry with a key.
func keyed1(t testing.TB, key string) *entry {
	t.Helper()
	return single(t, func(md *outer) { md.PartitionKey = &key })
}

// batchOf is a batch of a message for each key; edit may change the outer metadata.
func batchOf(t testing.TB, keys []string, edit func(*outer)) *entry {
	t.Helper()
	messages := make([]*inner, len(keys))
	for i := range keys {
		messages[i] = &inner{PartitionKey: &keys[i]}
	}
	return batchWith(t, messages, edit, func(i int) []byte { return fmt.Appendf(nil, "body %d", i) })
}

func batchWith(t testing.TB, messages []*inner, edit func(*outer), body func(int) []byte) *entry {
	t.Helper()
	var plain []byte
	for i, m := range messages {
		b := body(i)
		m.PayloadSize = proto.Int32(int32(len(b)))
		meta, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		plain = frame.AppendMessageInBatch(plain, meta, b)
	}
	md := &outer{NumMessagesInBatch: proto.Int32(int32(len(messages)))}
	if edit != nil {
		edit(md)
	}
	payload := plain
	if c := md.GetCompression(); c != pulsarpb.CompressionType_NONE {
		md.UncompressedSize = proto.Uint32(uint32(len(plain)))
		var err error
		if payload, err = frame.Compress(c, plain); err != nil {
			t.Fatal(err)
		}
	}
	return stored(t, md, payload)
}

func stamped(lo, hi uint32) func(*outer) {
	return func(md *outer) { md.EntryHashMin, md.EntryHashMax = &lo, &hi }
}

func encrypted(md *outer) {
	md.EncryptionKeys = []*pulsarpb.EncryptionKeys{{Key: proto.String("k"), Value: []byte("v")}}
}

func both(edits ...func(*outer)) func(*outer) {
	return func(md *outer) {
		for _, e := range edits {
			e(md)
		}
	}
}

var (
	leftHalf  = reroute.HashRange{Start: 0, End: 0x7fff}
	rightHalf = reroute.HashRange{Start: 0x8000, End: 0xffff}
)

// halves is two segments, 1 and 2, of two buckets each.
func halves(t testing.TB) *reroute.Layout {
	return mustLayout(t, 1,
		reroute.Segment{ID: 1, Range: leftHalf, CreatedAtMs: 11, Splits: []uint16{0x8000}},
		reroute.Segment{ID: 2, Range: rightHalf, CreatedAtMs: 12, Splits: []uint16{0x8000}})
}

// plainHalves is the same without buckets.
func plainHalves(t testing.TB) *reroute.Layout {
	return mustLayout(t, 1,
		reroute.Segment{ID: 1, Range: leftHalf, CreatedAtMs: 11},
		reroute.Segment{ID: 2, Range: rightHalf, CreatedAtMs: 12})
}

// keys finds n keys of a segment hash range and a bucket hash range.
func keys(segment, bucket reroute.HashRange, n int) []string {
	var out []string
	for i := 0; len(out) < n; i++ {
		k := fmt.Sprintf("k%d", i)
		h := hashOf(k)
		if segment.Contains(h.Segment) && bucket.Contains(h.Bucket) {
			out = append(out, k)
		}
	}
	return out
}

func hashOf(key string) reroute.Hash {
	return reroute.Key{Key: []byte(key), HasKey: true}.Hash()
}

// cutterOf cuts for a lane from east to west.
func cutterOf(source reroute.HashRange) *cutter {
	return &cutter{
		rules:   Rules{SourceCluster: "east", TargetCluster: "west", Lane: "geobridge-lane"},
		source:  reroute.Source{Range: source, Proves: true},
		maxSize: 1 << 20,
	}
}

// produced is what one SEND of the part carries, as the target stores it.
type produced struct {
	md       *outer
	info     frame.Info
	raw      []byte // metadata
	payload  []byte
	identity Identity
}

func produce(t testing.TB, c *cutter, p *part) produced {
	t.Helper()
	out := produced{raw: p.metadata, payload: p.payload, md: &outer{}}
	if p.whole() {
		patch := c.patch(p.entry, nil, p.stamp, p.setStamp)
		out.raw, out.payload = frame.AppendPatched(nil, p.entry.raw.Metadata, &patch), p.entry.raw.Payload
	}
	if size := len(out.raw) + len(out.payload); size > p.size {
		t.Errorf("a part said to be of at most %d bytes takes %d", p.size, size)
	}
	if err := proto.Unmarshal(out.raw, out.md); err != nil {
		t.Fatal(err)
	}
	var err error
	if out.info, err = frame.Scan(out.raw); err != nil {
		t.Fatal(err)
	}
	if out.identity, err = ParseIdentity(out.info.Identity); err != nil {
		t.Fatal(err)
	}
	return out
}

// bodies opens what was produced: the payload of each message in it.
func (p produced) bodies(t testing.TB) []string {
	t.Helper()
	if !p.info.Batch {
		if p.info.Encrypted {
			return []string{string(p.payload)}
		}
		plain, err := frame.Decompress(&p.info, p.payload, maxUncompressed)
		if err != nil {
			t.Fatal(err)
		}
		return []string{string(plain)}
	}
	batch, err := frame.Open(&p.info, p.raw, p.payload, maxUncompressed)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range batch.Messages {
		out = append(out, string(m.Payload))
	}
	return out
}

// stamp describes the stamp that was produced: "none", or min-max.
func (p produced) stamp() string {
	if p.md.EntryHashMin == nil && p.md.EntryHashMax == nil {
		return "none"
	}
	return fmt.Sprintf("%04x-%04x", p.md.GetEntryHashMin(), p.md.GetEntryHashMax())
}

// describe is one line for each part and piece of poison of a cut.
func describe(t testing.TB, c *cutter, got cuts) string {
	t.Helper()
	var lines []string
	for _, p := range got.parts {
		out := produce(t, c, p)
		lines = append(lines, fmt.Sprintf("%d:%s", p.segment.ID, strings.Join(out.bodies(t), ",")))
	}
	for _, p := range got.poison {
		which := "all"
		if p.indices != nil {
			which = string(appendIndices(nil, p.indices))
		}
		lines = append(lines, fmt.Sprintf("parked %s: %s", p.reason, which))
	}
	return strings.Join(lines, " | ")
}
