package frame

import (
	"bufio"
	"bytes"
	"errors"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"google.golang.org/protobuf/proto"
)

// FuzzReadCommand: no input panics, and what is read was really there.
func FuzzReadCommand(f *testing.F) {
	for _, raw := range captured(f) {
		f.Add(raw)
	}
	f.Add(AppendReceipt(nil, &ReceiptCommand{ProducerID: 1, SequenceID: 2, Ledger: 3, Entry: 4, HasHighestSequenceID: true}))
	f.Add(AppendSend(nil, &SendCommand{ProducerID: 1, NumMessages: 7, HasTxn: true, IsChunk: true, Marker: true}, []byte("md"), 0, 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var fr Frame
		r := bufio.NewReaderSize(bytes.NewReader(raw), 32)
		for {
			if err := ReadCommand(r, Limits{MaxFrame: 1 << 16, Pool: &Pool{}}, &fr); err != nil {
				return
			}
			if fr.Entry == nil {
				continue
			}
			if n := fr.Entry.Size(); n > len(raw) {
				t.Fatalf("entry of %d out of %d bytes", n, len(raw))
			}
			if fr.Entry.PayloadCRC != Checksum(0, fr.Entry.Payload) {
				t.Fatal("payload checksum wrong")
			}
			fr.Entry.Release()
		}
	})
}

// FuzzCommand: the fast path reads what the generated code reads.
func FuzzCommand(f *testing.F) {
	for _, raw := range captured(f) {
		_, rest, _ := sized(append([]byte{0, 0, 0, 0}, raw...))
		command, _, _ := sized(rest[4:])
		f.Add(command)
	}
	receipt := AppendReceipt(nil, &ReceiptCommand{ProducerID: 1, SequenceID: 2, Ledger: 3, Entry: 4})
	f.Add(receipt[8:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr Frame
		err := decodeCommand(b, &fr)
		var cmd pulsarpb.BaseCommand
		if err != nil || proto.Unmarshal(b, &cmd) != nil {
			return // the scan is laxer about what it does not read
		}
		if cmd.GetType() != fr.Type && fr.Type != pulsarpb.BaseCommand_MESSAGE {
			t.Fatalf("type %v, not %v", fr.Type, cmd.GetType())
		}
		switch fr.Type {
		case pulsarpb.BaseCommand_SEND_RECEIPT:
			// The generated code merges a repeated sub-command, the scan takes
			// the last: a sender writes one.
			if want := cmd.GetSendReceipt(); proto.Size(&cmd) == len(b) && countField(b, 7) == 1 && want.GetSequenceId() != fr.Receipt.SequenceID {
				t.Fatalf("%+v, not %v", fr.Receipt, want)
			}
		case pulsarpb.BaseCommand_MESSAGE:
			if want := cmd.GetMessage(); countField(b, 9) == 1 && (want.GetConsumerId() != fr.Message.ConsumerID ||
				len(want.AckSet) != len(fr.Message.AckSet) || want.GetRedeliveryCount() != fr.Message.RedeliveryCount) {
				t.Fatalf("%+v, not %v", fr.Message, want)
			}
		}
	})
}

func countField(b []byte, num int) (n int) {
	for len(b) > 0 {
		f, ok := next(b)
		if !ok {
			break
		}
		if int(f.num) == num {
			n++
		}
		b = b[f.size:]
	}
	return n
}

// FuzzScan: what passes can be patched, and reads as the generated code does.
func FuzzScan(f *testing.F) {
	for _, raw := range captured(f) {
		f.Add(readOne(f, raw).Entry.Metadata)
	}
	p := &Patch{ProducerName: []byte("p"), ReplicatedFrom: []byte("r"), SchemaVersion: []byte{1}, Identity: []byte("i"), SetStamp: true, HashMin: 1, HashMax: 2}
	f.Fuzz(func(t *testing.T, metadata []byte) {
		if _, err := Scan(metadata); err != nil {
			if !errors.Is(err, ErrMetadata) {
				t.Fatal(err)
			}
			return
		}
		if proto.Unmarshal(metadata, &pulsarpb.MessageMetadata{}) == nil {
			checkInfo(t, metadata)
		}
		ReplicateTo(metadata, func([]byte) bool { return true })
		got, err := Scan(AppendPatched(nil, metadata, p))
		if err != nil {
			t.Fatal(err)
		}
		if got.HasTxn || string(got.Identity) != "i" || string(got.ProducerName) != "p" || got.HashMin != 1 || got.HashMax != 2 {
			t.Fatalf("patched: %+v", got)
		}
	})
}

// FuzzOpen: no payload panics or yields more than the limit, and what opens can
// be taken apart and put together.
func FuzzOpen(f *testing.F) {
	for _, raw := range captured(f) {
		e := readOne(f, raw).Entry
		f.Add(e.Metadata, e.Payload)
	}
	const limit = 1 << 16
	f.Fuzz(func(t *testing.T, metadata, payload []byte) {
		info, err := Scan(metadata)
		if err != nil {
			return
		}
		if plain, err := Decompress(&info, payload, limit); err == nil && len(plain) > max(limit, len(payload)) {
			t.Fatalf("%d bytes", len(plain))
		}
		b, err := Open(&info, metadata, payload, limit)
		if err != nil {
			if reasonOf(err) == "" {
				t.Fatal(err)
			}
			return
		}
		md, part, err := b.Rebatch(metadata, &info, []int{len(b.Messages) - 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Scan(md)
		if err != nil {
			t.Fatal(err)
		}
		if one, err := Open(&got, md, part, limit); err != nil || !bytes.Equal(one.Messages[0].raw, b.Messages[len(b.Messages)-1].raw) {
			t.Fatalf("re-batched: %v", err)
		}
		if md, _, err = b.Single(metadata, &info, 0, nil); err != nil {
			t.Fatal(err)
		}
		if got, err = Scan(md); err != nil || got.Batch {
			t.Fatalf("single: %+v %v", got, err)
		}
	})
}
