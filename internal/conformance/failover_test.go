package conformance

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func failoverScenarios() []Scenario {
	return []Scenario{
		{Name: "Election", Facts: []string{"P7"}, Run: election},
		{Name: "HandOver", Facts: []string{"P8", "P9", "P10"}, Run: handOver},
		{Name: "SameName", Facts: []string{"P9"}, Run: sameName},
		{Name: "MuteOwner", Facts: []string{"P9"}, Run: muteOwner},
		{Name: "AcksOfUnload", Facts: []string{"P9", "P11", "P12"}, Run: acksOfUnload},
		{Name: "AcksOfCrash", Facts: []string{"P11"}, Alone: true, Run: acksOfCrash},
		{Name: "ChildrenAtOnce", Facts: []string{"P13"}, Run: childrenAtOnce},
		{Name: "DelayedAtOnce", Facts: []string{"4.6", "P15"}, Run: delayedAtOnce},
	}
}

func active(id uint64) func(Got) bool {
	return func(g Got) bool {
		return g.Type == pulsarpb.BaseCommand_ACTIVE_CONSUMER_CHANGE && g.Command.GetActiveConsumerChange().GetConsumerId() == id
	}
}

// Active awaits that a consumer is told so, over what it is told before.
func (w *Wire) Active(id uint64, want bool) Got {
	w.t.Helper()
	for {
		g := w.ExpectThat(fmt.Sprintf("consumer %d active: %v", id, want), active(id))
		if g.Command.GetActiveConsumerChange().GetIsActive() == want {
			return g
		}
	}
}

// Who is active is a consistent hash of the consumers' names: the same on every broker. A join
// takes from the living; a leave moves only what the one had who left.
func election(t *T) {
	topic := t.Scalable("t", 8)
	w := t.Connect(0)
	names := []string{"amber", "birch", "cedar"}
	var segments []string
	for i := range 8 {
		segments = append(segments, t.Segment(topic, int64(i)))
		w.LookUp(segments[i], false)
	}
	owners := make([]byte, 8)
	told := func(moves int) string { // how the owners stand after that many segments moved
		for moves > 0 {
			g := w.Expect(pulsarpb.BaseCommand_ACTIVE_CONSUMER_CHANGE)
			if c := g.Command.GetActiveConsumerChange(); c.GetIsActive() {
				owners[c.GetConsumerId()/10] = names[c.GetConsumerId()%10][0]
				moves--
			}
		}
		return string(owners)
	}
	for n, step := range []struct {
		moves int
		want  string
	}{{8, "aaaaaaaa"}, {4, "abbbaaab"}, {3, "accbcaab"}} {
		for i, segment := range segments {
			w.Subscribe(segment, uint64(10*i+n), "s", failover, named(names[n]))
		}
		if got := told(step.moves); got != step.want {
			t.Errorf("with %d consumers: %s, want %s", n+1, got, step.want)
		}
		t.ReadOn(w)
	}
	for i := range segments {
		w.CloseConsumer(uint64(10 * i))
	}
	if got := told(3); got != "cccbcbcb" {
		t.Errorf("without amber: %s", got)
	}
}

// whoTakes joins consumers, one by one, until one of them takes the place of the active one,
// and returns it. Who does not is told so at once.
func (w *Wire) whoTakes(segment string, owner *Wire, id uint64) (taker uint64) {
	w.t.Helper()
	for taker = 100; taker < 130; taker++ {
		w.Subscribe(segment, taker, "s", failover, named(fmt.Sprint("joiner-", taker)))
		w.Flow(taker, 100)
		if g := w.ExpectThat("the joiner's state", active(taker)); g.Command.GetActiveConsumerChange().GetIsActive() {
			owner.Active(id, false)
			return taker
		}
	}
	w.t.Fatal("none of 30 joiners took over")
	return 0
}

// The one who takes over gets all behind the mark, in order, as if it were new, and only after
// the displaced one was told. What the displaced one acknowledges still counts. CloseConsumer
// and the end of a connection hand over too.
func handOver(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	at := t.StoreAll(segment, 8)
	owner, other := t.At(segment), t.At(segment)
	owner.Subscribe(segment, 1, "s", failover)
	owner.Active(1, true)
	owner.Flow(1, 100)
	owner.Texts(1, 8)
	owner.Ack(1, at[1])
	t.ReadOn(owner)
	taker := other.whoTakes(segment, owner, 1)
	for i := 2; i < 8; i++ {
		if g := other.Message(taker); g.Text() != fmt.Sprint(i) || g.Message.RedeliveryCount != 0 {
			t.Errorf("redelivered: %q, count %d; want %d", g.Text(), g.Message.RedeliveryCount, i)
		}
	}
	if r := owner.Ack(1, at[3]); r.Error != nil {
		t.Errorf("an acknowledgement by the displaced one: %v", r)
	}
	owner.Flow(1, 100)
	t.ReadOn(other)
	for id := uint64(100); id <= taker; id++ {
		other.CloseConsumer(id)
	}
	owner.Active(1, true)
	if got := owner.Texts(1, 4); !slices.Equal(got, []string{"4", "5", "6", "7"}) {
		t.Errorf("after CloseConsumer: %v", got)
	}
	other.Subscribe(segment, 200, "s", failover, named("last"))
	other.Flow(200, 100)
	t.ReadOn(owner)
	owner.Close()
	other.Active(200, true)
	if got := other.Texts(200, 4); !slices.Equal(got, []string{"4", "5", "6", "7"}) {
		t.Errorf("after the end of a connection: %v", got)
	}
}

// One who attaches under the name of the active one takes over from it, alive or not.
func sameName(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	t.StoreAll(segment, 3)
	first, second := t.At(segment), t.At(segment)
	first.Subscribe(segment, 1, "s", failover, named("x"))
	first.Flow(1, 100)
	first.Active(1, true)
	first.Texts(1, 3)
	t.ReadOn(first)
	second.Subscribe(segment, 1, "s", failover, named("x"))
	second.Flow(1, 100)
	second.Active(1, true)
	if got := second.Texts(1, 3); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("the second one: %v", got)
	}
}

// An active consumer whose client is mute keeps its place until the broker ends the connection.
func muteOwner(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	t.StoreAll(segment, 3)
	owner, other := t.At(segment), t.At(segment)
	owner.Subscribe(segment, 1, "s", failover)
	owner.Active(1, true)
	t.Hold() // it may be cut 30 s from now
	owner.Mute()
	other.Subscribe(segment, 2, "s", failover, named("consumer-1-too"), func(s *pulsarpb.CommandSubscribe) { s.PriorityLevel = proto.Int32(1) })
	other.Flow(2, 100)
	other.NoMessage(2)
	t.Release()
	t.Pass(2 * t.KeepAlive())
	other.Active(2, true)
	if got := other.Texts(2, 3); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("the other: %v", got)
	}
}

// An unload loses no acknowledgement. It names no other broker, and what is acknowledged
// through the closed consumer has no answer.
func acksOfUnload(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	at := t.StoreAll(segment, 50)
	w := t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 100)
	w.Texts(1, 50)
	for i := range 40 {
		if r := w.Ack(1, at[i]); r.Error != nil {
			t.Errorf("ack: %v", r)
		}
	}
	t.Unload()
	c := w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER).Command.GetCloseConsumer()
	if c.GetRequestId() != unasked || c.GetConsumerId() != 1 || c.AssignedBrokerServiceUrl != nil {
		t.Errorf("closed: %v", c)
	}
	w.Start(ack(1, pulsarpb.CommandAck_Cumulative, at[45]))
	w.None(pulsarpb.BaseCommand_ACK_RESPONSE, pulsarpb.BaseCommand_ERROR)
	w = t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 100)
	if got := w.Message(1).Text(); got != "40" {
		t.Errorf("after the unload: %q", got)
	}
}

// A crash loses acknowledgements of the last second, though they were answered: the cursor
// rolls back, and no further than what it was before that.
func acksOfCrash(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	at := t.StoreAll(segment, 100)
	w := t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	if r := w.Ack(1, at[9]); r.Error != nil {
		t.Errorf("ack: %v", r)
	}
	t.Unload() // which writes down what is acknowledged
	w = t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 100)
	w.Texts(1, 90)
	t.Hold() // what is acknowledged is written down before long
	for _, p := range at[10:99] {
		w.Start(ack(1, pulsarpb.CommandAck_Cumulative, p))
	}
	w.Answer(w.last)
	t.Kill(t, w.Broker)
	t.Release()
	w.Ended()
	t.Restart(t, w.Broker)
	w = t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 200)
	first := w.Message(1).Text()
	var n int
	if _, err := fmt.Sscan(first, &n); err != nil || n < 10 || n >= 99 {
		t.Errorf("after the crash: from %q, %v", first, err)
	}
	t.Logf("of 99 acknowledgements, the crash left %d", n)
	for n++; n < 100; n++ {
		if got := w.Message(1).Text(); got != fmt.Sprint(n) {
			t.Fatalf("then %q, want %d", got, n)
		}
	}
}

// Who holds a parent is told nothing of a split and reads on. Cursors of the children are
// there, and deliver at once. Who joins a drained sealed segment is not told its end.
func childrenAtOnce(t *T) {
	topic := t.Scalable("t", 1)
	parent := t.Segment(topic, 0)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "s"))
	at := t.StoreAll(parent, 2)
	w := t.At(parent)
	w.Subscribe(parent, 1, "s", failover)
	w.Active(1, true)
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	w.NoneThat("a word about the split", func(Got) bool { return true })
	w.Flow(1, 10)
	w.Texts(1, 2)
	child := t.Segment(topic, 1)
	t.StoreAll(child, 1)
	c := t.At(child)
	c.Subscribe(child, 2, "s", failover, fromLatest)
	c.Flow(2, 10)
	c.Texts(2, 1)
	w.None(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
	t.Hold() // a drained sealed segment goes, within 60 s
	w.Ack(1, at[1])
	w.Expect(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
	w.Subscribe(parent, 3, "s", failover)
	w.NoneThat("the end for the second holder", func(g Got) bool {
		return g.Type == pulsarpb.BaseCommand_REACHED_END_OF_TOPIC && g.Command.GetReachedEndOfTopic().GetConsumerId() == 3
	})
}

// One active consumer gets delayed messages at once, in order, and sees for when they were
// meant.
func delayedAtOnce(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	w := t.At(segment)
	w.Produce(segment, 1, "")
	w.Store(1, 0, metadata("k", func(m *pulsarpb.MessageMetadata) { m.DeliverAtTime = proto.Int64(4_000_000_000_000) }), "late")
	w.Store(1, 1, metadata("k"), "plain")
	for id, typ := range map[uint64]pulsarpb.CommandSubscribe_SubType{2: exclusive, 3: failover} {
		w.Subscribe(segment, id, fmt.Sprint("s", id), typ)
		w.Flow(id, 10)
		g := w.Message(id)
		var m pulsarpb.MessageMetadata
		t.Must(proto.Unmarshal(g.Entry.Metadata, &m))
		if next := w.Message(id).Text(); g.Text() != "late" || m.GetDeliverAtTime() != 4_000_000_000_000 || next != "plain" {
			t.Errorf("%v: %q (%v), then %q", typ, g.Text(), &m, next)
		}
	}
}
