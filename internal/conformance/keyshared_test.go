package conformance

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func keySharedScenarios() []Scenario {
	return []Scenario{
		{Name: "SharedAttach", Facts: []string{"4.3"}, Run: sharedAttach},
		{Name: "DispatchByStamp", Facts: []string{"5b", "P40"}, Run: dispatchByStamp},
		{Name: "SharedAcks", Facts: []string{"4.5"}, Run: sharedAcks},
		{Name: "SharedPeerDies", Facts: []string{"4.7"}, Run: sharedPeerDies},
	}
}

// Sharers declare the full list of buckets, all the same; anything else is refused as long as
// one is there. One alone may share, too.
func sharedAttach(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	w := t.At(segment)
	four := tiles(16384, 32768, 49152)
	refused := func(what string, want pulsarpb.ServerError, cmd *pulsarpb.BaseCommand) {
		t.Helper()
		if answer := w.Ask(cmd); answer.GetError() == nil || answer.GetError().GetError() != want {
			t.Errorf("%s: %v, want %v", what, answer, want)
		}
	}
	const assign, busy = pulsarpb.ServerError_ConsumerAssignError, pulsarpb.ServerError_ConsumerBusy
	w.Subscribe(segment, 1, "s", keyShared, byBucket(four))
	w.Subscribe(segment, 1, "s", keyShared, byBucket(four)) // the same again
	refused("a part of the list", assign, subscribe(segment, 2, "s", keyShared, byBucket(four[:2])))
	refused("another list", assign, subscribe(segment, 3, "s", keyShared, byBucket(tiles(32768))))
	refused("no flag", busy, subscribe(segment, 4, "s", keyShared, byBucket(four), func(s *pulsarpb.CommandSubscribe) { s.KeySharedMeta.EntryBucketDispatch = nil }))
	refused("AUTO_SPLIT", busy, subscribe(segment, 5, "s", keyShared, func(s *pulsarpb.CommandSubscribe) {
		s.KeySharedMeta = &pulsarpb.KeySharedMeta{KeySharedMode: pulsarpb.KeySharedMode_AUTO_SPLIT.Enum()}
	}))
	refused("Exclusive", busy, subscribe(segment, 6, "s", exclusive))
	w.Subscribe(segment, 7, "s", keyShared, byBucket(four), named("peer"))
	w.CloseConsumer(1)
	w.CloseConsumer(7)
	w.Subscribe(segment, 8, "s", exclusive)
	refused("a second Exclusive", busy, subscribe(segment, 9, "s", exclusive))
	refused("Key_Shared beside Exclusive", busy, subscribe(segment, 10, "s", keyShared, byBucket(four)))
	w.CloseConsumer(8)
	w.Subscribe(segment, 11, "s", keyShared, byBucket(tiles()))
}

// owners are the consumers of the four buckets, as digits: found by one stamped entry for each.
func (w *Wire) owners(consumers int, sequence uint64) string {
	w.t.Helper()
	var found strings.Builder
	for b := range uint32(4) {
		w.Put(1, sequence+uint64(b), metadata("k", batchOf(2), stamp(b<<14, b<<14+9)), fmt.Sprint("bucket ", b))
	}
	for b := range 4 {
		g := w.ExpectThat(fmt.Sprint("the entry of bucket ", b), func(g Got) bool {
			return g.Type == pulsarpb.BaseCommand_MESSAGE && g.Text() == fmt.Sprint("bucket ", b)
		})
		w.Ask(ack(g.Message.ConsumerID, pulsarpb.CommandAck_Individual, g.ID()))
		fmt.Fprint(&found, int(g.Message.ConsumerID)-10)
	}
	if got := found.String(); len(got) != 4 || strings.Count(got, got[:1]) == 4 && consumers > 1 {
		w.t.Fatalf("owners of the buckets: %s", got)
	}
	return found.String()
}

// An entry goes to the bucket of its stamp's lower bound, whole, even if that lies. Without a
// stamp its ordering key counts, else its key, of a base64 key the bytes.
func dispatchByStamp(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	w := t.At(segment)
	w.Produce(segment, 1, "")
	for id := range uint64(4) {
		w.Subscribe(segment, 10+id, "s", keyShared, byBucket(tiles(16384, 32768, 49152)), named(fmt.Sprint("c", id)))
		w.Flow(10+id, 1000)
	}
	owners := w.owners(4, 0)
	ordering := func(key string) func(*pulsarpb.MessageMetadata) {
		return func(m *pulsarpb.MessageMetadata) { m.OrderingKey = []byte(key) }
	}
	base64 := func(m *pulsarpb.MessageMetadata) { m.PartitionKeyB64Encoded = proto.Bool(true) }
	for i, row := range []struct {
		what   string
		m      *pulsarpb.MessageMetadata
		bucket int
	}{
		{"a lying stamp", metadata("key-0", batchOf(2), stamp(0, 9)), 0},
		{"another one", metadata("key-0", batchOf(2), stamp(0xc000, 0xffff)), 3},
		{"a straddling one", metadata("key-0", batchOf(2), stamp(0x4000, 0xffff)), 1},
		{"a stamp on a single message", metadata("key-0", stamp(0x8000, 0x8000)), 2},
		{"a key", metadata("key-0"), keyBucket("key-0")},
		{"another key", metadata("key-1"), keyBucket("key-1")},
		{"a third", metadata("key-2"), keyBucket("key-2")},
		{"an ordering key", metadata("key-0", ordering("key-1")), keyBucket("key-1")},
		{"another ordering key", metadata("key-1", ordering("key-2")), keyBucket("key-2")},
		{"bytes", metadata("a2V5LTI=", base64), keyBucket("key-2")}, // as text: 3
	} {
		w.Put(1, uint64(100+i), row.m, row.what)
		g := w.ExpectThat(row.what, func(g Got) bool { return g.Type == pulsarpb.BaseCommand_MESSAGE && g.Text() == row.what })
		if want := uint64(owners[row.bucket]-'0') + 10; g.Message.ConsumerID != want {
			t.Errorf("%s: to consumer %d, want %d; owners %s", row.what, g.Message.ConsumerID, want, owners)
		}
		w.Ask(ack(g.Message.ConsumerID, pulsarpb.CommandAck_Individual, g.ID()))
	}
	got := map[uint64]bool{}
	for i := range uint64(40) {
		w.Put(1, 200+i, metadata("", producedBy("app", i)), "no key")
		g := w.ExpectThat("one without a key", func(g Got) bool { return g.Type == pulsarpb.BaseCommand_MESSAGE })
		got[g.Message.ConsumerID] = true
		w.Ask(ack(g.Message.ConsumerID, pulsarpb.CommandAck_Individual, g.ID()))
	}
	if len(got) < 2 {
		t.Errorf("without a key: all to %v", got)
	}
}

// keyBucket is which quarter of the ring the lower half of a key's hash is in.
func keyBucket(key string) int { return map[string]int{"key-0": 3, "key-1": 0, "key-2": 1}[key] }

// A cumulative acknowledgement is answered well and ignored; an individual one counts. A
// bucket that goes to a joiner rests until its old owner has acknowledged what it has of it.
func sharedAcks(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Produce(segment, 1, "")
	four := tiles(16384, 32768, 49152)
	w.Subscribe(segment, 10, "s", keyShared, byBucket(four), named("c0"))
	w.Flow(10, 1000)
	var held []Got
	for b := range uint32(4) {
		w.Put(1, uint64(b), metadata("k", stamp(b<<14, b<<14)), fmt.Sprint("old ", b))
		held = append(held, w.Message(10))
	}
	if r := w.Ack(10, held[3].ID()); r == nil || r.Error != nil {
		t.Errorf("cumulative: %v", r)
	}
	if n := w.Backlog(10); n != 4 {
		t.Errorf("backlog %d after a cumulative acknowledgement, want 4", n)
	}
	w.Subscribe(segment, 11, "s", keyShared, byBucket(four), named("c1"))
	w.Flow(11, 1000)
	for b := range uint32(4) {
		w.Put(1, uint64(10+b), metadata("k", stamp(b<<14, b<<14)), fmt.Sprint("new ", b))
	}
	w.NoMessage(11)
	for _, g := range held {
		w.Ask(ack(10, pulsarpb.CommandAck_Individual, g.ID()))
	}
	moved := w.Message(11) // what has moved is its own now
	if !strings.HasPrefix(moved.Text(), "new ") {
		t.Errorf("the joiner got %q", moved.Text())
	}
	t.Eventually("individual acknowledgements count", func() error {
		return wantBacklog(w, 10, 4)
	})
}

// What a consumer held whose connection ends goes to the others at once, in order, as if it
// were new.
func sharedPeerDies(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	w, peer := t.At(segment), t.At(segment)
	four := tiles(16384, 32768, 49152)
	peer.Subscribe(segment, 1, "s", keyShared, byBucket(four), named("peer"))
	peer.Flow(1, 1000)
	t.StoreAll(segment, 20) // all of one key
	peer.Texts(1, 20)
	w.Subscribe(segment, 2, "s", keyShared, byBucket(four), named("survivor"))
	w.Flow(2, 1000)
	w.NoMessage(2)
	peer.Close()
	var got []string
	for range 20 {
		g := w.Message(2)
		got = append(got, g.Text())
		if g.Message.RedeliveryCount != 0 {
			t.Errorf("%s: redelivery count %d", g.Text(), g.Message.RedeliveryCount)
		}
	}
	for i, text := range got {
		if text != fmt.Sprint(i) {
			t.Fatalf("in another order: %v", got)
		}
	}
	if slices.Contains(got, "") {
		t.Errorf("got %v", got)
	}
}
