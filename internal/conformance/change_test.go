package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func changeScenarios() []Scenario {
	return []Scenario{
		{Name: "SplitMergeRebucket", Facts: []string{"2.2", "2.4", "1g", "13"}, Run: splitMergeRebucket},
		{Name: "UndrainedGoes", Facts: []string{"0.1", "2.4", "3.5"}, Run: undrainedGoes},
		{Name: "RecordedStays", Facts: []string{"0.1", "2.4", "3.5", "P14"}, Run: recordedStays},
		{Name: "TrimmedAtUnload", Facts: []string{"P23"}, Run: trimmedAtUnload},
	}
}

// One push tells each change of a layout, with the next epoch: parents sealed, children
// active. Only active segments have a broker, and only once somebody looked them up.
func splitMergeRebucket(t *T) {
	topic := t.Scalable("t", 1)
	w := t.Connect(0)
	w.Watch(topic.Topic(), 1)
	w.Update(1)
	t.Hold() // what is sealed goes within 60 s, which is an epoch, too
	for epoch, step := range []struct {
		change   func() error
		parents  []uint64
		children map[uint64][]uint32 // id → splits
	}{
		{func() error { return t.Rig.Split(t.Context(), topic, 0) }, []uint64{0}, map[uint64][]uint32{1: {32768}, 2: {32768}}},
		{func() error { return t.Rig.Rebucket(t.Context(), topic, 1, 4) }, []uint64{1}, map[uint64][]uint32{3: {16384, 32768, 49152}}},
		{func() error { return t.Rig.Merge(t.Context(), topic, 3, 2) }, []uint64{3, 2}, map[uint64][]uint32{4: {10922, 21845, 32768, 43690, 54613}}},
	} {
		next := uint64(epoch + 1)
		t.Must(step.change())
		dag := w.UpdateThat(1, "the next epoch", atEpoch(next)).GetDag()
		for _, id := range step.parents {
			s := segmentOf(dag, id)
			if s.GetState() != pulsarpb.SegmentState_SEALED || s.GetSealedAtEpoch() != next || s.GetSealedAtMs() == 0 || len(s.GetChildIds()) != len(step.children) {
				t.Errorf("epoch %d, parent: %v", next, s)
			}
		}
		for id, splits := range step.children {
			s := segmentOf(dag, id)
			if s.GetState() != pulsarpb.SegmentState_ACTIVE || s.GetCreatedAtEpoch() != next || !slices.Equal(s.GetParentIds(), step.parents) ||
				!slices.Equal(s.GetEntryBucketSplits(), splits) {
				t.Errorf("epoch %d, child: %v", next, s)
			}
		}
		for _, b := range dag.GetSegmentBrokers() {
			if segmentOf(dag, b.GetSegmentId()).GetState() != pulsarpb.SegmentState_ACTIVE {
				t.Errorf("epoch %d: a broker for sealed segment %d", next, b.GetSegmentId())
			}
		}
	}
}

// A sealed segment that no recorded subscription needs goes with its data, whoever reads
// it: the reader is closed, the layout's epoch rises, and its children forget it.
func undrainedGoes(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.StoreAll(segment, 10)
	w := t.At(segment)
	w.Watch(topic.Topic(), 1)
	w.Subscribe(segment, 1, "unrecorded", exclusive)
	w.Flow(1, 100)
	w.Texts(1, 10)
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	w.UpdateThat(1, "the split", atEpoch(1))
	t.Prune(t, topic.Topic())
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER).Command.GetCloseConsumer(); c.GetConsumerId() != 1 || c.GetRequestId() != unasked {
		t.Errorf("closed: %v", c)
	}
	dag := w.UpdateThat(1, "the pruned layout", atEpoch(2)).GetDag()
	if segmentOf(dag, 0) != nil || len(dag.GetSegments()) != 2 || len(segmentOf(dag, 1).GetParentIds()) != 0 {
		t.Errorf("after pruning: %v", dag)
	}
	w.LookUp(segment, false)
	if answer := w.Ask(subscribe(segment, 2, "unrecorded", exclusive)); answer.GetError().GetError() != pulsarpb.ServerError_TopicNotFound {
		t.Errorf("the pruned segment: %v", answer)
	}
}

// A recorded subscription keeps what it has not acknowledged, attached or not. When the last
// entry of the sealed segment is acknowledged, that goes.
func recordedStays(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "recorded"))
	at := t.StoreAll(segment, 10)
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	t.Prune(t, topic.Topic())
	w := t.At(segment)
	w.Watch(topic.Topic(), 1)
	if dag := w.Update(1).GetDag(); segmentOf(dag, 0) == nil {
		t.Fatalf("pruned although recorded and undrained: %v", dag)
	}
	w.Subscribe(segment, 1, "recorded", failover)
	w.Flow(1, 100)
	w.Texts(1, 10)
	if r := w.Ack(1, at[9]); r.Error != nil {
		t.Errorf("ack: %v", r)
	}
	w.Expect(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
	since := time.Now()
	t.Prune(t, topic.Topic())
	c := w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER)
	if c.Command.GetCloseConsumer().GetRequestId() != unasked {
		t.Errorf("closed: %v", c)
	}
	w.UpdateThat(1, "the layout without it", func(u *pulsarpb.CommandScalableTopicUpdate) bool {
		return u.GetDag().GetEpoch() == 2 && segmentOf(u.GetDag(), 0) == nil
	})
	t.Logf("pruned %v after the last acknowledgement", c.At.Sub(since).Round(time.Second))
}

// What every durable subscription of an active segment has acknowledged may go at the next
// unload; a recorded one that lags keeps it. A reader from a trimmed position begins with
// what is next.
func trimmedAtUnload(t *T) {
	t.Scalable("lost", 1)
	t.Must(t.Rig.Subscribe(t.Context(), t.Scalable("kept", 1), "guard"))
	for name, want := range map[string]string{"kept": "0", "lost": "new"} {
		segment := t.Segment(t.Name(name), 0)
		at := t.StoreAll(segment, 10)
		w := t.At(segment)
		w.Subscribe(segment, 1, "app", exclusive)
		w.Flow(1, 100)
		w.Texts(1, 10)
		if r := w.Ack(1, at[9]); r.Error != nil {
			t.Errorf("ack: %v", r)
		}
		w.Close()
		t.Unload()
		w = t.At(segment)
		w.Produce(segment, 1, "")
		w.Store(1, 0, metadata("k"), "new")
		if name == "lost" {
			w.Trimmed(segment, at[0])
		}
		for id, start := range []*pulsarpb.MessageIdData{earliest(), at[0]} {
			reader := uint64(10 + id)
			w.Subscribe(segment, reader, fmt.Sprint("reader-", reader), exclusive, fromPosition(start))
			w.Flow(reader, 100)
			if got := w.Message(reader).Text(); got != want {
				t.Errorf("%s: a reader from %v begins with %q, want %q", name, start, got, want)
			}
		}
	}
}
