package frame

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

// captured reads the frames of testdata, by name.
func captured(t rapid.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/captured.txt")
	if err != nil {
		t.Fatal(err)
	}
	frames := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" {
			continue
		}
		raw, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		frames[name] = raw
	}
	return frames
}

// readOne reads a frame that is all there is.
func readOne(t rapid.TB, raw []byte) *Frame {
	t.Helper()
	var f Frame
	if err := ReadCommand(bufio.NewReader(bytes.NewReader(raw)), Limits{}, &f); err != nil {
		t.Fatal(err)
	}
	return &f
}

func unmarshal[M proto.Message](t rapid.TB, b []byte, m M) M {
	t.Helper()
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// checkInfo compares a scan with what the generated code reads.
func checkInfo(t rapid.TB, metadata []byte) Info {
	t.Helper()
	got, err := Scan(metadata)
	if err != nil {
		t.Fatal(err)
	}
	m := unmarshal(t, metadata, &pulsarpb.MessageMetadata{})
	want := Info{
		ProducerName: []byte(m.GetProducerName()), SequenceID: m.GetSequenceId(), PublishTime: m.GetPublishTime(),
		HighestSequenceID: m.GetHighestSequenceId(), HasHighestSequenceID: m.HighestSequenceId != nil,
		HasReplicatedFrom: m.ReplicatedFrom != nil, HasReplicateTo: len(m.ReplicateTo) > 0,
		HasPartitionKey: m.PartitionKey != nil, OrderingKey: m.OrderingKey, HasOrderingKey: m.OrderingKey != nil,
		NullPartitionKey: m.GetNullPartitionKey(), Compression: m.GetCompression(),
		UncompressedSize: m.GetUncompressedSize(), HasUncompressedSize: m.UncompressedSize != nil,
		Batch: m.NumMessagesInBatch != nil, NumMessages: int(m.GetNumMessagesInBatch()),
		Encrypted: len(m.EncryptionKeys) > 0, HasTxn: m.TxnidLeastBits != nil || m.TxnidMostBits != nil,
		HasMarker: m.MarkerType != nil, MarkerType: m.GetMarkerType(), SchemaVersion: m.SchemaVersion,
		HasSchemaVersion: m.SchemaVersion != nil, Compacted: len(m.CompactedBatchIndexes) > 0,
		HashMin: m.GetEntryHashMin(), HashMax: m.GetEntryHashMax(), HasHashMin: m.EntryHashMin != nil,
		HasHashMax: m.EntryHashMax != nil, Chunked: m.GetNumChunksFromMsg() > 1, ChunkID: m.GetChunkId(),
		NumChunks: m.GetNumChunksFromMsg(),
	}
	if m.ReplicatedFrom != nil {
		want.ReplicatedFrom = []byte(*m.ReplicatedFrom)
	}
	if m.PartitionKey != nil {
		want.PartitionKey = []byte(*m.PartitionKey)
	}
	if m.Uuid != nil {
		want.UUID = []byte(*m.Uuid)
	}
	for _, p := range m.Properties {
		if p.GetKey() == IdentityProperty {
			want.Identity = []byte(p.GetValue())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Scan (-generated code +scan):\n%s", diff)
	}
	return got
}

func TestCapturedFrames(t *testing.T) {
	batches := map[pulsarpb.CompressionType]int{}
	for name, raw := range captured(t) {
		t.Run(name, func(t *testing.T) {
			f := readOne(t, raw)
			if f.Type != pulsarpb.BaseCommand_MESSAGE || f.EntryErr != nil || !f.Entry.Checked {
				t.Fatalf("type %v, entry error %v, checked %v", f.Type, f.EntryErr, f.Entry.Checked)
			}
			info := checkInfo(t, f.Entry.Metadata)
			checkRoundTrip(t, f, raw)
			switch {
			case strings.Contains(name, "encrypted"):
				if !info.Encrypted || info.Batch || info.HasHashMin {
					t.Errorf("encrypted entry: %+v", info)
				}
			case info.Batch:
				batches[info.Compression]++
				checkBatch(t, f.Entry, &info)
			default:
				if plain, err := Decompress(&info, f.Entry.Payload, 1<<20); err != nil {
					t.Error(err)
				} else if len(plain) != int(info.UncompressedSize) {
					t.Errorf("%d bytes, not %d", len(plain), info.UncompressedSize)
				}
			}
		})
	}
	for c := range pulsarpb.CompressionType_name {
		if batches[pulsarpb.CompressionType(c)] == 0 {
			t.Errorf("no captured batch with %v", pulsarpb.CompressionType(c))
		}
	}
}

// checkRoundTrip writes the frame again, the broker's way.
func checkRoundTrip(t *testing.T, f *Frame, raw []byte) {
	out := AppendMessage(nil, &f.Message, f.Entry.Metadata, len(f.Entry.Payload), f.Entry.PayloadCRC)
	if out = append(out, f.Entry.Payload...); !bytes.Equal(out, raw) {
		t.Errorf("written anew:\n%x\nas captured:\n%x", out, raw)
	}
	if got := AppendPatched(nil, f.Entry.Metadata, nil); !bytes.Equal(got, f.Entry.Metadata) {
		t.Errorf("a patch of nothing changed\n%x\ninto\n%x", f.Entry.Metadata, got)
	}
}

// checkBatch opens a batch, puts it together again and takes it apart.
func checkBatch(t *testing.T, e *Entry, info *Info) {
	b, err := Open(info, e.Metadata, e.Payload, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Messages) != info.NumMessages {
		t.Fatalf("%d messages, not %d", len(b.Messages), info.NumMessages)
	}
	all := make([]int, len(b.Messages))
	for i := range all {
		all[i] = i
	}
	md, payload, err := b.Rebatch(e.Metadata, info, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(md, e.Metadata) {
		t.Errorf("all messages re-batched changed the metadata:\n%v\n%v",
			unmarshal(t, md, &pulsarpb.MessageMetadata{}), unmarshal(t, e.Metadata, &pulsarpb.MessageMetadata{}))
	}
	again, err := Open(info, md, payload, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Messages {
		if !bytes.Equal(b.Messages[i].raw, again.Messages[i].raw) {
			t.Errorf("message %d changed", i)
		}
		md, payload, err := b.Single(e.Metadata, info, i, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, got := seen(t, e.Metadata, &b.Messages[i]), plainSeen(t, md, payload)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("message %d alone (-in the batch +alone):\n%s", i, diff)
		}
	}
}
