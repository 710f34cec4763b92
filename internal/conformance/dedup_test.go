package conformance

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func dedupScenarios() []Scenario {
	return []Scenario{
		{Name: "Deduplication", Facts: []string{"7a", "7b", "7c", "7e"}, Run: deduplication},
		{Name: "DeduplicationAfterCrash", Facts: []string{"0.4", "7d", "3.6"}, Alone: true, Run: deduplicationAfterCrash},
	}
}

// deduplicated makes a topic whose namespace has the policy.
func (t *T) deduplicated() (segment string) {
	t.Helper()
	t.Must(t.Rig.Do(t.Context(), "POST", "namespaces/"+t.Namespace+"/deduplication", true, nil))
	topic := t.Scalable("t", 1)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "keeps"))
	segment = t.Segment(topic, 0)
	// The policy is news to the broker a little later: a topic that was opened before that remembers nothing.
	sequence := uint64(0)
	w := t.At(segment)
	t.Eventually("the policy", func() error {
		w.Produce(segment, 99, "probe")
		defer w.CloseProducer(99)
		sequence++
		for range 2 {
			w.Put(99, sequence, metadata("", producedBy("probe", sequence)), "probe")
			if w.Receipt(99, sequence).Ledger == -1 {
				return nil
			}
		}
		return fmt.Errorf("the second of two with sequence id %d was stored", sequence)
	})
	return segment
}

// producedBy is an edit of metadata.
func producedBy(name string, sequence uint64) func(*pulsarpb.MessageMetadata) {
	return func(m *pulsarpb.MessageMetadata) {
		m.ProducerName, m.SequenceId = proto.String(name), proto.Uint64(sequence)
	}
}

// PutBatch sends an entry whose SEND and metadata have sequence ids from first to last, and
// tells whether it was taken for new.
func (w *Wire) PutBatch(id uint64, name string, first, last uint64) (stored bool) {
	w.t.Helper()
	m := metadata("k", producedBy(name, first), batchOf(int32(last-first+1)))
	m.HighestSequenceId = proto.Uint64(last)
	head, err := proto.Marshal(m)
	w.t.Must(err)
	w.PutRaw(&frame.SendCommand{ProducerID: id, SequenceID: first, HighestSequenceID: last, HasHighestSequenceID: true,
		NumMessages: int32(last - first + 1)}, head, fmt.Sprint(first, "-", last))
	return w.Receipt(id, first).Ledger != -1
}

// An entry at or below the last sequence id of its name is dropped whole, with a receipt that
// names no position. PRODUCER tells the last one; children know none. A name has one producer
// at a time, and is free when the connection ends.
func deduplication(t *T) {
	segment := t.deduplicated()
	w := t.At(segment)
	if last := w.Produce(segment, 1, "p").GetLastSequenceId(); last != -1 {
		t.Errorf("at first, the last sequence id is %d", last)
	}
	for _, row := range []struct {
		first, last uint64
		stored      bool
	}{{10, 19, true}, {10, 19, false}, {15, 24, false}, {20, 20, true}, {5, 30, false}, {21, 30, true}, {31, 31, true}} {
		if stored := w.PutBatch(1, "p", row.first, row.last); stored != row.stored {
			t.Errorf("%d to %d: stored %v", row.first, row.last, stored)
		}
	}
	other := t.At(segment)
	if answer := other.Ask(producer(segment, 1, "p")); answer.GetError().GetError() != pulsarpb.ServerError_ProducerBusy {
		t.Errorf("a second producer of the name: %v", answer)
	}
	if last := other.Produce(segment, 2, "q").GetLastSequenceId(); last != -1 {
		t.Errorf("of another name, the last sequence id is %d", last)
	}
	w.Close()
	t.Eventually("the name is free", func() error {
		answer := other.Ask(producer(segment, 3, "p"))
		if answer.GetProducerSuccess() == nil {
			return fmt.Errorf("%v", answer)
		}
		if last := answer.GetProducerSuccess().GetLastSequenceId(); last != 31 {
			t.Errorf("the last sequence id is %d, want 31", last)
		}
		return nil
	})
	t.Must(t.Rig.Split(t.Context(), t.Name("t"), 0))
	child := t.Segment(t.Name("t"), 1)
	w = t.At(child)
	if last := w.Produce(child, 1, "p").GetLastSequenceId(); last != -1 {
		t.Errorf("of a child, the last sequence id is %d", last)
	}
}

// After a crash the state is what the stored metadata say, whoever sent that. Registrations
// are still there: a name that comes back has its own share at once. What was not acknowledged
// comes again.
func deduplicationAfterCrash(t *T) {
	segment := t.deduplicated()
	topic := t.Scalable("two", 2).Topic()
	stream := t.Connect(0)
	stream.Register(topic, "s", "a", 1)
	stream.Register(topic, "s", "b", 2)
	w := t.At(segment)
	w.Produce(segment, 1, "bridge")
	w.Produce(segment, 2, "good")
	w.Store(1, 7, metadata("k", producedBy("orig", 500)), "foreign")
	w.Store(2, 8, metadata("k", producedBy("good", 8)), "own")
	w.Subscribe(segment, 3, "s", failover)
	w.Flow(3, 100)
	first := w.Message(3).Text()
	t.Kill(t, w.Broker)
	w.Ended()
	t.Hold() // the grace of a and b begins with the broker
	t.Restart(t, w.Broker)
	w = t.At(segment)
	for i, want := range []int64{-1, 500, 8} {
		name := []string{"bridge", "orig", "good"}[i]
		if last := w.Produce(segment, uint64(10+i), name).GetLastSequenceId(); last != want {
			t.Errorf("after the crash, %s: %d, want %d", name, last, want)
		}
	}
	w.Subscribe(segment, 3, "s", failover)
	w.Flow(3, 100)
	if again := w.Message(3).Text(); again != first {
		t.Errorf("redelivered: %q, at first %q", again, first)
	}
	if a := t.Connect(0).Register(topic, "s", "b", 2); share(a) != "1" {
		t.Errorf("b is assigned %v, want its own", a)
	}
}
