package frame

import (
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

// commandOf decodes the command of a frame with the generated code.
func commandOf(t rapid.TB, raw []byte) *pulsarpb.BaseCommand {
	command, _, ok := sized(raw[4:])
	if !ok {
		t.Fatal("command longer than frame")
	}
	return unmarshal(t, command, &pulsarpb.BaseCommand{})
}

func TestFastMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := MessageCommand{ConsumerID: rapid.Uint64().Draw(t, "consumer"), Ledger: rapid.Int64().Draw(t, "ledger"),
			Entry: rapid.Int64().Draw(t, "entry"), Partition: rapid.Int32().Draw(t, "partition"), BatchIndex: -1,
			RedeliveryCount: rapid.Uint32().Draw(t, "redelivery"), AckSet: rapid.SliceOfN(rapid.Int64(), 0, 40).Draw(t, "ack set"),
			HasEpoch: rapid.Bool().Draw(t, "has epoch")}
		if m.HasEpoch {
			m.ConsumerEpoch = rapid.Uint64().Draw(t, "epoch")
		}
		md, payload := drawMetadata(t, 1), rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		raw := append(AppendMessage(nil, &m, md, len(payload), Checksum(0, payload)), payload...)
		f := readOne(t, raw)
		if diff := cmp.Diff(m, f.Message, cmpopts.EquateEmpty()); diff != "" || f.EntryErr != nil {
			t.Errorf("error %v (-written +read):\n%s", f.EntryErr, diff)
		}
		got := commandOf(t, raw).GetMessage()
		if got.GetConsumerId() != m.ConsumerID || int64(got.GetMessageId().GetEntryId()) != m.Entry || len(got.AckSet) != len(m.AckSet) {
			t.Errorf("generated code reads %v", got)
		}
	})
}

func TestFastSend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := SendCommand{ProducerID: rapid.Uint64().Draw(t, "producer"), SequenceID: rapid.Uint64().Draw(t, "sequence"),
			NumMessages: rapid.Int32Range(1, 1<<31-1).Draw(t, "messages"), IsChunk: rapid.Bool().Draw(t, "chunk"), Marker: rapid.Bool().Draw(t, "marker")}
		want := &pulsarpb.CommandSend{ProducerId: &s.ProducerID, SequenceId: &s.SequenceID}
		if s.NumMessages > 1 {
			want.NumMessages = &s.NumMessages
		}
		if s.IsChunk {
			want.IsChunk = &s.IsChunk
		}
		if s.Marker {
			want.Marker = &s.Marker
		}
		if v := maybe(t, rapid.Uint64(), "highest"); v != nil {
			s.HighestSequenceID, s.HasHighestSequenceID, want.HighestSequenceId = *v, true, v
		}
		if v := maybe(t, rapid.Uint64(), "txn"); v != nil {
			s.TxnLeastBits, s.TxnMostBits, s.HasTxn = *v, *v+1, true
			want.TxnidLeastBits, want.TxnidMostBits = v, proto.Uint64(*v+1)
		}
		raw := AppendSend(nil, &s, []byte("metadata"), 0, 0)
		if n := len(raw) - len("metadata"); n > HeaderSize {
			t.Errorf("header of %d bytes", n)
		}
		if diff := cmp.Diff(want, commandOf(t, raw).GetSend(), protocmp.Transform()); diff != "" {
			t.Errorf("generated code (-want +got):\n%s", diff)
		}
		if f := readOne(t, raw); f.Send != s || f.EntryErr != nil {
			t.Errorf("read %+v, error %v; written %+v", f.Send, f.EntryErr, s)
		}
	})
}

func TestFastReceipt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ReceiptCommand{ProducerID: rapid.Uint64().Draw(t, "producer"), SequenceID: rapid.Uint64().Draw(t, "sequence"),
			Ledger: rapid.Int64().Draw(t, "ledger"), Entry: rapid.Int64().Draw(t, "entry")}
		if v := maybe(t, rapid.Uint64(), "highest"); v != nil {
			r.HighestSequenceID, r.HasHighestSequenceID = *v, true
		}
		raw := AppendReceipt(nil, &r)
		if f := readOne(t, raw); f.Receipt != r || f.Entry != nil {
			t.Errorf("read %+v, written %+v", f.Receipt, r)
		}
		if got := commandOf(t, raw).GetSendReceipt(); got.GetSequenceId() != r.SequenceID || int64(got.GetMessageId().GetLedgerId()) != r.Ledger {
			t.Errorf("generated code reads %v", got)
		}
	})
	without, err := AppendCommand(nil, &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SEND_RECEIPT.Enum(),
		SendReceipt: &pulsarpb.CommandSendReceipt{ProducerId: proto.Uint64(1), SequenceId: proto.Uint64(2)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := readOne(t, without).Receipt; got.Ledger != -1 || got.Entry != -1 {
		t.Errorf("a receipt without message id reads %+v", got)
	}
	if _, err := AppendCommand(nil, &pulsarpb.BaseCommand{}); err == nil {
		t.Error("wrote a command without type")
	}
}
