package conformance

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func publishScenarios() []Scenario {
	return []Scenario{
		{Name: "PublishRaw", Facts: []string{"5a", "8a", "11c"}, Run: publishRaw},
		{Name: "Damaged", Facts: []string{"5d"}, Run: damaged},
		{Name: "Markers", Facts: []string{"11c", "P20", "P21"}, Run: markers},
		{Name: "FlowOverdraws", Facts: []string{"9.2"}, Run: flowOverdraws},
	}
}

// stamp is an edit of metadata.
func stamp(low, high uint32) func(*pulsarpb.MessageMetadata) {
	return func(m *pulsarpb.MessageMetadata) {
		m.EntryHashMin, m.EntryHashMax = proto.Uint32(low), proto.Uint32(high)
	}
}

// batchOf is an edit of metadata.
func batchOf(n int32) func(*pulsarpb.MessageMetadata) {
	return func(m *pulsarpb.MessageMetadata) { m.NumMessagesInBatch = proto.Int32(n) }
}

// Nothing about stamps, routing, names or replication is judged: it is receipted, stored and
// delivered as it was sent.
func publishRaw(t *T) {
	topic := t.Scalable("t", 2)
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Produce(segment, 1, "bridge")
	all := []*pulsarpb.MessageMetadata{
		metadata("k", batchOf(10), stamp(0, 65535)), // straddling
		metadata("k", batchOf(10)),                  // an unstamped batch
		metadata("k", batchOf(10), stamp(1, 1)),     // lying
		metadata("k", stamp(9, 3)),                  // upside down
		metadata("k", stamp(70000, 80000)),          // out of range
		metadata("k", func(m *pulsarpb.MessageMetadata) { m.EntryHashMin = proto.Uint32(5) }), // half
		metadata("a key of the other segment, or not"),                                        //
		metadata("another key"), //
		metadata("k", func(m *pulsarpb.MessageMetadata) { m.ProducerName = proto.String("app") }), // not the producer's
		metadata("k", func(m *pulsarpb.MessageMetadata) { m.ReplicatedFrom = proto.String("elsewhere") }),
		metadata("k", func(m *pulsarpb.MessageMetadata) { m.ReplicateTo = []string{"nowhere", "__local__"} }),
		metadata("k", func(m *pulsarpb.MessageMetadata) { m.NullValue, m.OrderingKey = proto.Bool(true), []byte{0, 255} }),
		metadata("k", func(m *pulsarpb.MessageMetadata) { m.NullPartitionKey = proto.Bool(true) }),
		metadata("AAE=", func(m *pulsarpb.MessageMetadata) { m.PartitionKeyB64Encoded = proto.Bool(true) }),
		metadata("k", func(m *pulsarpb.MessageMetadata) {
			m.Uuid, m.ChunkId, m.NumChunksFromMsg, m.TotalChunkMsgSize = proto.String("u"), proto.Int32(0), proto.Int32(2), proto.Int32(9)
		}),
		metadata("k", func(m *pulsarpb.MessageMetadata) {
			m.EncryptionKeys, m.EncryptionAlgo = []*pulsarpb.EncryptionKeys{{Key: proto.String("key"), Value: []byte("v")}}, proto.String("AES")
		}),
		metadata("k", func(m *pulsarpb.MessageMetadata) { m.SchemaVersion = []byte{0, 0, 0, 0, 0, 0, 0, 77} }), // unknown
	}
	var heads [][]byte
	for i, m := range all {
		head, err := proto.Marshal(m)
		t.Must(err)
		heads = append(heads, head)
		w.PutRaw(&frame.SendCommand{ProducerID: 1, SequenceID: uint64(i), NumMessages: 3}, head, fmt.Sprint(i)) // three is wrong, too
		w.Receipt(1, uint64(i))
	}
	w.Subscribe(segment, 2, "s", failover)
	w.Flow(2, 1000)
	for i, head := range heads {
		if g := w.Message(2); g.Text() != fmt.Sprint(i) || !bytes.Equal(g.Entry.Metadata, head) {
			t.Errorf("entry %d came as %q with %x, want %x", i, g.Text(), g.Entry.Metadata, head)
		}
	}
}

// A wrong checksum is refused, and the producer stays. Without one, an entry is stored
// unchecked. One whose metadata cannot be decoded is receipted and never delivered; a reader
// passes it as it passes markers.
func damaged(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	w := t.At(segment)
	w.Produce(segment, 1, "")
	head, err := proto.Marshal(metadata("k"))
	t.Must(err)
	cmd := &frame.SendCommand{ProducerID: 1}
	w.Raw(append(frame.AppendSend(nil, cmd, head, 1, frame.Checksum(0, []byte("y"))), 'x'))
	if e := w.Expect(pulsarpb.BaseCommand_SEND_ERROR).Command.GetSendError(); e.GetError() != pulsarpb.ServerError_ChecksumError || e.GetProducerId() != 1 || e.GetSequenceId() != 0 {
		t.Errorf("refused: %v", e)
	}
	cmd.SequenceID = 1
	w.Raw(unchecked(append(frame.AppendSend(nil, cmd, head, 1, 0), 'x')))
	w.Receipt(1, 1)
	cmd.SequenceID = 2
	w.PutRaw(cmd, []byte{0xff, 0xff, 0xff}, "undecodable")
	w.Receipt(1, 2)
	last := w.Store(1, 3, metadata("k"), "z")
	w.Subscribe(segment, 2, "s", failover)
	w.Flow(2, 10)
	if got := w.Texts(2, 2); !slices.Equal(got, []string{"x", "z"}) {
		t.Errorf("delivered: %v", got)
	}
	w.Ack(2, last)
	w.Subscribe(segment, 3, "reader", exclusive, fromPosition(earliest()))
	w.Flow(3, 10)
	for range 2 {
		w.Ask(ack(3, pulsarpb.CommandAck_Individual, w.Message(3).ID()))
	}
	t.Eventually("the backlog goes", func() error { return wantBacklog(w, 3, 0) })
}

func wantBacklog(w *Wire, id, want uint64) error {
	if n := w.Backlog(id); n != want {
		return fmt.Errorf("backlog %d, want %d", n, want)
	}
	return nil
}

// unchecked takes the checksum out of a SEND: two bytes of magic and four of it, behind the
// command.
func unchecked(b []byte) []byte {
	size := int(b[4])<<24 | int(b[5])<<16 | int(b[6])<<8 | int(b[7])
	b = slices.Delete(b, 8+size, 8+size+6)
	n := len(b) - 4
	b[0], b[1], b[2], b[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return b
}

// Markers of any kind are receipted, stored, and delivered to nobody. They count in the
// backlog of a subscription until a consumer with permits passes them.
func markers(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Produce(segment, 1, "")
	kinds := []int32{0, 1, 14, 30, 1000, -1, 1<<31 - 1}
	for i, kind := range kinds {
		w.Store(1, uint64(i), metadata("", func(m *pulsarpb.MessageMetadata) { m.MarkerType = proto.Int32(kind) }), "")
	}
	w.Subscribe(segment, 2, "waits", failover)
	if n := w.Backlog(2); n != uint64(len(kinds)) {
		t.Errorf("backlog %d with no permits", n)
	}
	for id, typ := range []pulsarpb.CommandSubscribe_SubType{exclusive, failover, shared} {
		w.Subscribe(segment, uint64(10+id), fmt.Sprint("s", id), typ)
		w.Flow(uint64(10+id), 100)
	}
	w.Subscribe(segment, 13, "reader", exclusive, fromPosition(earliest()))
	w.Flow(13, 100)
	w.Store(1, 100, metadata("k"), "plain")
	for id := uint64(10); id < 14; id++ {
		g := w.Message(id)
		if g.Text() != "plain" {
			t.Errorf("consumer %d got %q", id, g.Text())
		}
		w.Ask(ack(id, pulsarpb.CommandAck_Individual, g.ID()))
		t.Eventually("the backlog goes", func() error { return wantBacklog(w, id, 0) })
	}
	if n := w.Backlog(2); n != uint64(len(kinds))+1 {
		t.Errorf("backlog %d with no permits, at the end", n)
	}
	t.Hold() // as in load
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_PRODUCER).Command.GetCloseProducer(); c.GetProducerId() != 1 || c.GetRequestId() != unasked {
		t.Errorf("closed: %v", c)
	}
	w.Put(1, 101, metadata("", marker), "")
	w.None(pulsarpb.BaseCommand_SEND_RECEIPT, pulsarpb.BaseCommand_SEND_ERROR)
}

// Permits are messages, and entries are delivered whole: the balance goes negative, and has to
// be filled up before more comes.
func flowOverdraws(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	w := t.At(segment)
	w.Produce(segment, 1, "")
	for i := range 10 {
		w.Store(1, uint64(i), metadata("k", batchOf(10)), fmt.Sprint(i))
	}
	for id, typ := range map[uint64]pulsarpb.CommandSubscribe_SubType{2: exclusive, 3: failover} {
		w.Subscribe(segment, id, fmt.Sprint("s", id), typ)
		w.Flow(id, 5)
		w.Texts(id, 5)
		w.Flow(id, 20)
		w.NoMessage(id)
		w.Flow(id, 26)
		w.Message(id)
	}
}
