package frame

import (
	"slices"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

// outer is what of the outer metadata is the part's own.
type outer struct {
	Sequence, Highest uint64
	Key               string // "-" for none
	B64               bool
	Ordering          string // "-" for none
	Stamped           bool
}

func outerOf(m *pulsarpb.MessageMetadata) outer {
	o := outer{Sequence: m.GetSequenceId(), Highest: m.GetHighestSequenceId(), Key: "-", B64: m.GetPartitionKeyB64Encoded(), Ordering: "-", Stamped: m.EntryHashMin != nil}
	if m.PartitionKey != nil {
		o.Key = *m.PartitionKey
	}
	if m.OrderingKey != nil {
		o.Ordering = string(m.OrderingKey)
	}
	return o
}

// TestPartsFollowTheirProducersStyle cuts captured batches. The V5 producer
// names the last message in both sequence ids, the classic one the first in
// sequence_id and the last in highest_sequence_id.
func TestPartsFollowTheirProducersStyle(t *testing.T) {
	for _, c := range []struct {
		name    string
		indices []int
		want    outer
	}{
		{"v5-batch-zstd.0", []int{0, 1, 2}, outer{6, 6, "key-0", false, "-", true}},
		{"v5-batch-zstd.0", []int{0, 1}, outer{3, 3, "key-0", false, "-", true}},
		{"v5-batch-zstd.0", []int{0}, outer{0, 0, "key-0", false, "-", true}},
		{"v5-keyless.0", []int{1}, outer{1, 1, "-", false, "-", true}},
		{"v4-batch-lz4.0", []int{2, 3}, outer{2, 3, "k", false, "ord", false}},
		{"v4-batch-lz4.0", []int{6, 7}, outer{6, 700, "nul", false, "-", false}},
		{"v4-batch-lz4.0", []int{1}, outer{1, 1, "AQLI", true, "-", false}},
		{"v4-batch-lz4.0", []int{3}, outer{3, 3, "-", false, "", false}},
		{"v4-batch-lz4.0", []int{4}, outer{4, 4, "-", false, "-", false}},
		{"v4-batch-lz4.0", []int{4, 5}, outer{4, 5, "", false, "-", false}},
	} {
		e := readOne(t, captured(t)[c.name]).Entry
		info := checkInfo(t, e.Metadata)
		b, err := Open(&info, e.Metadata, e.Payload, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		md, _, err := b.Rebatch(e.Metadata, &info, c.indices, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, outerOf(unmarshal(t, md, &pulsarpb.MessageMetadata{}))); diff != "" {
			t.Errorf("%s, messages %v (-want +got):\n%s", c.name, c.indices, diff)
		}
	}
}

// TestSequenceIDsNobodyHas keeps the outer ids where the messages carry none:
// they are what the application sees.
func TestSequenceIDsNobodyHas(t *testing.T) {
	meta, err := proto.Marshal(&pulsarpb.SingleMessageMetadata{PayloadSize: proto.Int32(1), PartitionKey: proto.String("k")})
	if err != nil {
		t.Fatal(err)
	}
	plain := AppendMessageInBatch(AppendMessageInBatch(nil, meta, []byte("a")), meta, []byte("b"))
	metadata, err := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String("p"), SequenceId: proto.Uint64(5), PublishTime: proto.Uint64(1),
		HighestSequenceId: proto.Uint64(6), NumMessagesInBatch: proto.Int32(2)})
	if err != nil {
		t.Fatal(err)
	}
	info := checkInfo(t, metadata)
	b, err := Open(&info, metadata, plain, 0)
	if err != nil {
		t.Fatal(err)
	}
	md, payload, err := b.Rebatch(metadata, &info, []int{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := outerOf(unmarshal(t, md, &pulsarpb.MessageMetadata{})), (outer{5, 6, "-", false, "-", false}); got != want {
		t.Errorf("%+v, not %+v: a producer that writes no outer key gets none", got, want)
	}
	if want := plain[len(plain)/2:]; !slices.Equal(payload, want) {
		t.Errorf("payload %x, not %x", payload, want)
	}
	md, _, err = b.Single(metadata, &info, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := outerOf(unmarshal(t, md, &pulsarpb.MessageMetadata{})), (outer{5, 0, "k", false, "-", false}); got != want {
		t.Errorf("alone %+v, not %+v", got, want)
	}
}

func TestSingleOfAnEmptyMessageIsNotCompressed(t *testing.T) {
	e := readOne(t, captured(t)["v4-batch-snappy.0"]).Entry
	info := checkInfo(t, e.Metadata)
	b, err := Open(&info, e.Metadata, e.Payload, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range b.Messages {
		md, payload, err := b.Single(e.Metadata, &info, i, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := unmarshal(t, md, &pulsarpb.MessageMetadata{})
		if empty := len(m.Payload) == 0; empty != (got.Compression == nil) || empty != (len(payload) == 0) || int(got.GetUncompressedSize()) != len(m.Payload) {
			t.Errorf("message %d of %d bytes: compression %v, size %d, stored %d", i, len(m.Payload), got.Compression, got.GetUncompressedSize(), len(payload))
		}
	}
}
