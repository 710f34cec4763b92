package conformance

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func regularScenarios() []Scenario {
	return []Scenario{
		{Name: "Compaction", Facts: []string{"P31"}, Run: compaction},
		{Name: "Nudge", Facts: []string{"P21", "P31"}, Run: nudge},
		{Name: "HoldingSubscription", Facts: []string{"P32"}, Run: holdingSubscription},
		{Name: "ManyProducers", Facts: []string{"P33"}, Run: manyProducers},
		{Name: "NameRelease", Facts: []string{"P34", "7e"}, Run: nameRelease},
		{Name: "IdleTopics", Facts: []string{"P31"}, Run: idleTopics},
		{Name: "AutoCreation", Facts: []string{"P35"}, Run: autoCreation},
	}
}

// regular names a regular topic of the scenario, not made yet.
func (t *T) regular(name string) string { return "persistent://" + t.Namespace + "/" + name }

func (t *T) restOf(topic string) string { return "persistent/" + topic[len("persistent://"):] }

// compact compacts a regular topic.
func (t *T) compact(topic string) {
	t.Helper()
	if a := t.REST(0, "PUT", t.restOf(topic)+"/compaction", nil); a.Code != 204 {
		t.Fatalf("compaction: %d %s", a.Code, a.Body)
	}
	t.Eventually("compaction", func() error {
		var status struct{ Status string }
		t.REST(0, "GET", t.restOf(topic)+"/compaction", nil).Into(t, &status)
		if status.Status != "SUCCESS" {
			return fmt.Errorf("status %s", status.Status)
		}
		return nil
	})
}

// hold makes a durable subscription at the earliest.
func (t *T) hold(topic, sub string) {
	t.Helper()
	if a := t.REST(0, "PUT", t.restOf(topic)+"/subscription/"+sub, map[string]any{"ledgerId": -1, "entryId": -1}); a.Code != 204 {
		t.Fatalf("subscription %s of %s: %d %s", sub, topic, a.Code, a.Body)
	}
}

func readCompacted(s *pulsarpb.CommandSubscribe) { s.ReadCompacted = proto.Bool(true) }

// read opens a reader from the earliest, and reads n messages, and that there are no more.
// A reader needs a name of its own: the end of one is not seen at once.
func (t *T) read(topic, reader string, n int, edits ...func(*pulsarpb.CommandSubscribe)) (texts []string) {
	t.Helper()
	w := t.At(topic)
	defer w.Close()
	w.Subscribe(topic, 1, "reader-"+reader, exclusive, append(edits, fromPosition(earliest()))...)
	w.Flow(1, 1000)
	texts = w.Texts(1, n)
	w.NoMessage(1)
	return texts
}

// Of a compacted topic, a reader that wants it so gets the last entry of each key, and what
// came later; entries without a key are gone.
func compaction(t *T) {
	topic := t.regular("__g.checkpoint")
	w := t.At(topic)
	w.Produce(topic, 1, "n")
	t.hold(topic, "holding")
	for i, key := range []string{"a", "b", "", "a", "c"} {
		w.Store(1, uint64(i), metadata(key), fmt.Sprint(key, i))
	}
	t.compact(topic)
	w.Store(1, 5, metadata("b"), "b5")
	if got := t.read(topic, "a", 4, readCompacted); !slices.Equal(got, []string{"b1", "a3", "c4", "b5"}) {
		t.Errorf("compacted: %q", got)
	}
	if got := t.read(topic, "b", 6); len(got) != 6 {
		t.Errorf("not compacted: %q", got)
	}
}

// A compacted reader is not given what a compaction left out: markers, and keys whose last entry is
// empty. Behind the last entry that it is given, they stay in its backlog, though a reader of all
// passes markers by itself. Once it has acknowledged a later entry, it has none.
func nudge(t *T) {
	for _, row := range []struct {
		name string
		tail func(w *Wire, sequence uint64) // behind the records k0 and k1
		kept int                            // of those records
	}{
		{"marker", func(w *Wire, sequence uint64) { w.Store(1, sequence, metadata("", marker), "") }, 2},
		{"empty", func(w *Wire, sequence uint64) { w.Store(1, sequence, metadata("k1"), "") }, 1},
	} {
		topic := t.regular("__g." + row.name)
		w := t.At(topic)
		w.Produce(topic, 1, "n")
		t.hold(topic, "holding")
		for i := range uint64(2) {
			w.Store(1, i, metadata(fmt.Sprint("k", i)), "record")
		}
		row.tail(w, 2)
		t.compact(topic)
		w.Subscribe(topic, 1, "compacted", exclusive, readCompacted, fromPosition(earliest()))
		w.Flow(1, 1000)
		var last Got
		for range row.kept {
			last = w.Message(1)
		}
		if r := w.Ack(1, last.ID()); r.Error != nil {
			t.Errorf("%s: ack: %v", row.name, r)
		}
		w.NoMessage(1)
		if got, want := w.Backlog(1), uint64(3-row.kept); got != want {
			t.Errorf("%s: backlog %d at the last entry that it is given, want %d", row.name, got, want)
		}
		w.Store(1, 3, metadata("nudge"), "{}")
		if r := w.Ack(1, w.Message(1).ID()); r.Error != nil {
			t.Errorf("%s: ack: %v", row.name, r)
		}
		if err := wantBacklog(w, 1, 0); err != nil {
			t.Errorf("%s: behind a later entry: %v", row.name, err)
		}
	}
}

// Once compacted, records outlive the end of the subscription that held them, and a reload;
// before, they do not.
func holdingSubscription(t *T) {
	lost, kept := t.regular("lost"), t.regular("kept")
	end := map[string]*pulsarpb.MessageIdData{}
	for _, topic := range []string{lost, kept} {
		w := t.At(topic)
		w.Produce(topic, 1, "n")
		t.hold(topic, "holding")
		for i := range 5 {
			end[topic] = w.Store(1, uint64(i), metadata(fmt.Sprint("k", i)), fmt.Sprint(i))
		}
		if topic == kept {
			t.compact(topic)
		}
		w.Subscribe(topic, 1, "holding", exclusive)
		if r := w.Ack(1, end[topic]); r.Error != nil {
			t.Errorf("ack: %v", r)
		}
		w.Close()
	}
	t.Unload()
	for topic, at := range end {
		t.At(topic).Trimmed(topic, at)
	}
	if got := t.read(kept, "r", 5, readCompacted); !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("kept: %q", got)
	}
	t.read(lost, "r", 0, readCompacted)
}

// A thousand producers of one topic share a connection.
func manyProducers(t *T) {
	const n = 1000
	topic := t.regular("t")
	w := t.At(topic)
	since := time.Now()
	requests := make([]uint64, n)
	for i := range requests {
		requests[i] = w.Start(producer(topic, uint64(i), fmt.Sprint("geobridge-", i)))
	}
	for i, r := range requests {
		if p := w.Answer(r).GetProducerSuccess(); p.GetProducerName() != fmt.Sprint("geobridge-", i) || p.GetLastSequenceId() != -1 {
			t.Fatalf("producer %d: %v", i, p)
		}
	}
	opened := time.Since(since)
	for i := range n {
		w.Put(uint64(i), 0, metadata(fmt.Sprint(i)), "record")
	}
	for i := range n {
		w.Receipt(uint64(i), 0)
	}
	t.Logf("opened in %v, %d records in %v", opened.Round(time.Millisecond), n, (time.Since(since) - opened).Round(time.Millisecond))
}

// A name is free when its holder has closed it or its connection has ended. A live holder
// keeps it; of a mute one the broker waits 5 s, and then gives the name away.
func nameRelease(t *T) {
	topic := t.regular("t")
	holder := t.At(topic)
	holder.Produce(topic, 1, "n")
	w := t.At(topic)
	if answer := w.Ask(producer(topic, 1, "n")); answer.GetError().GetError() != pulsarpb.ServerError_ProducerBusy {
		t.Errorf("a live holder: %v", answer)
	}
	if answer := holder.Ask(producer(topic, 2, "n")); answer.GetError().GetError() != pulsarpb.ServerError_ProducerBusy {
		t.Errorf("the same connection: %v", answer)
	}
	holder.CloseProducer(1)
	w.Produce(topic, 1, "n")
	w.Close()
	holder.Alive() // and some time for the end to be seen
	t.Eventually("the name of an ended connection", func() error {
		if answer := holder.Ask(producer(topic, 3, "n")); answer.GetProducerSuccess() == nil {
			return fmt.Errorf("%v", answer)
		}
		return nil
	})
	heir := t.At(topic)
	t.Hold() // the holder may be cut 30 s from now
	holder.Mute()
	since := time.Now()
	heir.Produce(topic, 1, "n")
	if took := time.Since(since); took < 4*time.Second {
		t.Errorf("a mute holder's name after %v", took)
	}
	t.Release()
	holder.Ended()
}

// A regular topic that nobody is on goes, unless it has a durable subscription.
func idleTopics(t *T) {
	idle, held := t.regular("__idle"), t.regular("__held")
	for _, topic := range []string{idle, held} {
		w := t.At(topic)
		w.Produce(topic, 1, "n")
		w.Store(1, 0, metadata("k"), "x")
		w.Close()
	}
	t.hold(held, "s")
	t.DeleteIdle(t)
	t.Eventually("the idle one goes", func() error {
		if a := t.REST(0, "GET", t.restOf(idle)+"/subscriptions", nil); !a.Gone() {
			return fmt.Errorf("%d %s", a.Code, a.Body)
		}
		return nil
	})
	if a := t.REST(0, "GET", t.restOf(held)+"/subscriptions", nil); a.Code != 200 {
		t.Errorf("held: %d %s", a.Code, a.Body)
	}
	if got := t.read(held, "r", 1); got[0] != "x" {
		t.Errorf("held: %q", got)
	}
}

// A PRODUCER makes a regular topic, in a namespace that is there; a SUBSCRIBE that must not
// does not.
func autoCreation(t *T) {
	topic, nowhere := t.regular("t"), "persistent://public/c-no-such-namespace/t"
	w := t.At(topic)
	if answer := w.Ask(subscribe(topic, 1, "s", exclusive)); answer.GetError().GetError() != pulsarpb.ServerError_TopicNotFound {
		t.Errorf("a SUBSCRIBE that must not create: %v", answer)
	}
	w.Produce(topic, 1, "n")
	w.Subscribe(topic, 2, "s", exclusive)
	if r := w.LookUp(nowhere, false); r.GetResponse() != pulsarpb.CommandLookupTopicResponse_Failed || r.GetError() != pulsarpb.ServerError_TopicNotFound {
		t.Errorf("look-up in a missing namespace: %v", r)
	}
	if answer := w.Ask(producer(nowhere, 3, "n")); answer.GetError().GetError() != pulsarpb.ServerError_ServiceNotReady {
		t.Errorf("PRODUCER in a missing namespace: %v", answer)
	}
}
