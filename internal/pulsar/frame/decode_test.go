package frame

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"google.golang.org/protobuf/proto"
)

func reasonOf(err error) Reason {
	var e *UndecodableError
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func TestReadCommandErrors(t *testing.T) {
	ping := []byte{0, 0, 0, 8, 0, 0, 0, 4, 8, 18, 0x92, 1} // deliberately cut short inside
	message := captured(t)["v5-one.0"]
	for _, c := range []struct {
		name string
		raw  []byte
		max  int
		want error
	}{
		{"nothing", nil, 0, io.EOF},
		{"half a size", []byte{0, 0}, 0, io.ErrUnexpectedEOF},
		{"size only", []byte{0, 0, 0, 8}, 0, io.ErrUnexpectedEOF},
		{"too large", []byte{0x7f, 0, 0, 0, 0, 0, 0, 0}, 0, ErrTooLarge},
		{"above a small limit", message, 100, ErrTooLarge},
		{"command larger than frame", []byte{0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0}, 0, ErrMalformed},
		{"frame without command size", []byte{0, 0, 0, 2, 0, 0, 0, 0}, 0, ErrMalformed},
		{"no type", []byte{0, 0, 0, 4, 0, 0, 0, 0}, 0, ErrMalformed},
		{"command cut short", ping, 0, ErrMalformed},
		{"message without body", []byte{0, 0, 0, 6, 0, 0, 0, 2, 8, 9}, 0, ErrMalformed},
		{"entry cut short", message[:len(message)-1], 0, io.ErrUnexpectedEOF},
		{"command cut off", message[:20], 0, io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Frame
			err := ReadCommand(bufio.NewReader(bytes.NewReader(c.raw)), Limits{MaxFrame: c.max}, &f)
			if !errors.Is(err, c.want) {
				t.Errorf("%v, not %v", err, c.want)
			}
		})
	}
}

func TestDamagedEntries(t *testing.T) {
	raw := captured(t)["v5-one.0"]
	at := bytes.Index(raw, []byte{0x0e, 0x01})
	size := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return b
	}
	flip := func(i int) []byte { b := slices.Clone(raw); b[i] ^= 1; return b }
	broker := slices.Concat(raw[:at], []byte{0x0e, 0x02, 0, 0, 0, 2, 8, 5}, raw[at:])
	for _, c := range []struct {
		name    string
		raw     []byte
		want    error
		checked bool
	}{
		{"intact", raw, nil, true},
		{"payload bit", flip(len(raw) - 1), ErrChecksum, false},
		{"metadata bit", flip(at + 12), ErrChecksum, false},
		{"checksum bit", flip(at + 3), ErrChecksum, false},
		{"without checksum", size(slices.Concat(raw[:at], raw[at+6:])), nil, false},
		{"broker metadata", size(broker), nil, true},
		{"no entry at all", size(slices.Clone(raw[:at])), ErrTruncated, false},
		{"magic only", size(slices.Clone(raw[:at+2])), ErrTruncated, false},
		{"metadata longer than entry", size(slices.Clone(raw[:at+20])), ErrTruncated, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := readOne(t, c.raw)
			if !errors.Is(f.EntryErr, c.want) || f.Entry == nil || f.Entry.Checked != c.checked {
				t.Fatalf("error %v, not %v; entry %+v", f.EntryErr, c.want, f.Entry)
			}
			if c.want == nil && len(f.Entry.Payload) != 160 {
				t.Errorf("payload of %d", len(f.Entry.Payload))
			}
			if c.want != nil && f.Entry.PayloadCRC != Checksum(0, f.Entry.Payload) {
				t.Error("payload checksum not computed")
			}
			if has := f.Entry.BrokerMetadata != nil; has != (c.name == "broker metadata") {
				t.Errorf("broker metadata %x", f.Entry.BrokerMetadata)
			}
		})
	}
}

func TestScanErrors(t *testing.T) {
	full := &pulsarpb.MessageMetadata{ProducerName: proto.String("p"), SequenceId: proto.Uint64(1), PublishTime: proto.Uint64(2)}
	for name, spoil := range map[string]func(*pulsarpb.MessageMetadata){
		"producer_name": func(m *pulsarpb.MessageMetadata) { m.ProducerName = nil },
		"sequence_id":   func(m *pulsarpb.MessageMetadata) { m.SequenceId = nil },
		"publish_time":  func(m *pulsarpb.MessageMetadata) { m.PublishTime = nil },
	} {
		m := proto.Clone(full).(*pulsarpb.MessageMetadata)
		spoil(m)
		b, _ := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
		if _, err := Scan(b); !errors.Is(err, ErrMetadata) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	b, _ := proto.Marshal(full)
	for name, bad := range map[string][]byte{
		"cut short":         b[:len(b)-1],
		"not protobuf":      []byte("\xff\xff\xff"),
		"property damaged":  append(slices.Clone(b), mdProperties<<3|2, 1, 0xff),
		"property no value": append(slices.Clone(b), mdProperties<<3|2, 2, 1<<3|2, 0),
	} {
		if _, err := Scan(bad); !errors.Is(err, ErrMetadata) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	f := readOne(t, captured(t)["v5-batch-lz4.0"])
	md, payload := f.Entry.Metadata, f.Entry.Payload
	for _, c := range []struct {
		name   string
		change func(*Info)
		data   []byte
		want   Reason
	}{
		{"encrypted", func(in *Info) { in.Encrypted = true }, payload, ReasonEncrypted},
		{"single", func(in *Info) { in.Batch = false }, payload, ReasonNotBatch},
		{"chunk", func(in *Info) { in.Chunked = true }, payload, ReasonChunked},
		{"compacted", func(in *Info) { in.Compacted = true }, payload, ReasonCompacted},
		{"unknown codec", func(in *Info) { in.Compression = 9 }, payload, ReasonCodec},
		{"above the limit", func(in *Info) { in.UncompressedSize = 1<<20 + 1 }, payload, ReasonSize},
		{"impossible size", func(in *Info) { in.UncompressedSize = 1 << 20 }, payload, ReasonSize},
		{"size too small", func(in *Info) { in.UncompressedSize-- }, payload, ReasonCompression},
		{"size too large", func(in *Info) { in.UncompressedSize++ }, payload, ReasonSize},
		{"cut short", func(*Info) {}, payload[:len(payload)/2], ReasonCompression},
		{"no payload", func(*Info) {}, nil, ReasonSize},
		{"one more message", func(in *Info) { in.NumMessages++ }, payload, ReasonBatch},
		{"none", func(in *Info) { in.NumMessages = 0 }, payload, ReasonBatch},
		{"negative", func(in *Info) { in.NumMessages = -1 }, payload, ReasonBatch},
		{"very many", func(in *Info) { in.NumMessages = 1 << 30 }, payload, ReasonBatch},
		{"not what it says", func(in *Info) { in.Compression = pulsarpb.CompressionType_NONE }, payload, ReasonBatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			info := checkInfo(t, md)
			c.change(&info)
			if _, err := Open(&info, md, c.data, 1<<20); reasonOf(err) != c.want {
				t.Errorf("%v, not reason %q", err, c.want)
			}
		})
	}
	info := checkInfo(t, md)
	b, err := Open(&info, md, payload, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]int{nil, {-1}, {3}} {
		if _, _, err := b.Rebatch(md, &info, bad, nil); reasonOf(err) != ReasonIndex {
			t.Errorf("re-batched %v: %v", bad, err)
		}
	}
	if _, _, err := b.Single(md, &info, 3, nil); reasonOf(err) != ReasonIndex {
		t.Errorf("single: %v", err)
	}
}

func TestCommandsSurviveSmallReads(t *testing.T) {
	topics := &pulsarpb.CommandGetTopicsOfNamespaceResponse{RequestId: proto.Uint64(3)}
	for range 500 {
		topics.Topics = append(topics.Topics, "persistent://public/default/some-topic-of-a-longer-name")
	}
	cmd := &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_GET_TOPICS_OF_NAMESPACE_RESPONSE.Enum(), GetTopicsOfNamespaceResponse: topics}
	raw, err := AppendCommand(nil, cmd)
	if err != nil {
		t.Fatal(err)
	}
	raw = append(raw, captured(t)["v5-batch-zstd.0"]...)
	raw = AppendReceipt(raw, &ReceiptCommand{ProducerID: 1, SequenceID: 2, Ledger: -1, Entry: -1})
	r := bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(raw)), 64)
	var f Frame
	read := func() *Frame {
		if err := ReadCommand(r, Limits{Pool: &Pool{}}, &f); err != nil {
			t.Fatal(err)
		}
		return &f
	}
	if got := read().Command; !proto.Equal(got, cmd) {
		t.Errorf("command %v", got)
	}
	if got := read(); got.EntryErr != nil || got.Entry.Size() == 0 {
		t.Errorf("entry %v", got.EntryErr)
	}
	if got := read().Receipt; got.Ledger != -1 || got.Entry != -1 || got.SequenceID != 2 {
		t.Errorf("receipt %+v", got)
	}
	if err := ReadCommand(r, Limits{}, &f); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestPool(t *testing.T) {
	var p Pool
	for n := 0; n < 1<<maxClassBits+10; n += n/7 + 1 {
		class, size := classOf(n)
		if size < n || class >= 0 && n > 1<<minClassBits && size > n+n/4+1 {
			t.Fatalf("class of %d holds %d", n, size)
		}
		if again, _ := classOf(size); class >= 0 && again != class {
			t.Fatalf("class of %d is %d, of its own size %d", n, class, again)
		}
	}
	e := p.get(5000)
	if len(e.buf) != 5000 || cap(e.Scratch()) < scratchSize || e.Held() < 5000+scratchSize {
		t.Errorf("entry of %d, scratch %d, held %d", len(e.buf), cap(e.Scratch()), e.Held())
	}
	e.Retain()
	e.Release()
	e.Release()
	defer func() {
		if recover() == nil {
			t.Error("released too often without a panic")
		}
	}()
	e.Release()
}
