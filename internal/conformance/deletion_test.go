package conformance

import (
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func deletionScenarios() []Scenario {
	return []Scenario{
		{Name: "DeleteLeavesOrphans", Facts: []string{"0.5", "2.5", "P14"}, Run: deleteLeavesOrphans},
		{Name: "DeleteWithForce", Facts: []string{"2.5", "P14"}, Run: deleteWithForce},
		{Name: "RecreateOverOrphans", Facts: []string{"0.5", "2.6"}, Run: recreateOverOrphans},
		{Name: "RecreateOverSealed", Facts: []string{"0.5", "2.6"}, Run: recreateOverSealed},
		{Name: "Recreate", Facts: []string{"2.6", "0.8"}, Run: recreate},
	}
}

// Deleted without force while clients are attached, a topic's segments live on as orphans:
// they take sends and acknowledgements, new producers too. Layout watches hear nothing of
// the end; the namespace watch does.
func deleteLeavesOrphans(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Watch(topic.Topic(), 1)
	w.Update(1)
	w.WatchNamespace(t.Namespace, 2)
	w.Namespace(2)
	w.Produce(segment, 1, "p")
	w.Subscribe(segment, 2, "s", exclusive)
	w.Flow(2, 10)
	if a := t.REST(0, "DELETE", "scalable/"+string(topic), nil); a.Code != 204 {
		t.Errorf("delete: %d %s", a.Code, a.Body)
	}
	if u := w.Namespace(2); !slices.Equal(u.GetDiff().GetRemoved(), []string{topic.Topic()}) {
		t.Errorf("namespace watch: %v", u)
	}
	w.NoneThat("a word to the layout watch", func(g Got) bool {
		u := g.Command.GetScalableTopicUpdate()
		return u != nil && (u.Error != nil || u.GetDag().GetEpoch() != 0)
	})
	at := w.Store(1, 0, metadata("k"), "ghost")
	w.Produce(segment, 3, "q")
	w.Store(3, 0, metadata("k"), "another")
	w.Texts(2, 2)
	if r := w.Ack(2, at); r.Error != nil {
		t.Errorf("ack of an orphan's entry: %v", r)
	}
	w.None(pulsarpb.BaseCommand_CLOSE_PRODUCER, pulsarpb.BaseCommand_CLOSE_CONSUMER)
	if a := t.REST(0, "GET", "scalable/"+string(topic), nil); !a.Gone() {
		t.Errorf("layout of a deleted topic: %d %s", a.Code, a.Body)
	}
	w.Watch(topic.Topic(), 4)
	if u := w.Update(4); u.GetError() != pulsarpb.ServerError_TopicNotFound {
		t.Errorf("a new watch: %v", u)
	}
}

// Force closes all clients, and nothing is left to open.
func deleteWithForce(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Produce(segment, 1, "p")
	w.Subscribe(segment, 2, "s", exclusive)
	if a := t.REST(0, "DELETE", "scalable/"+string(topic)+"?force=true", nil); a.Code != 204 {
		t.Errorf("delete: %d %s", a.Code, a.Body)
	}
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_PRODUCER).Command.GetCloseProducer(); c.GetRequestId() != unasked {
		t.Errorf("closed: %v", c)
	}
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER).Command.GetCloseConsumer(); c.GetRequestId() != unasked {
		t.Errorf("closed: %v", c)
	}
	w.LookUp(segment, false)
	for _, cmd := range []*pulsarpb.BaseCommand{producer(segment, 3, ""), subscribe(segment, 4, "s", exclusive)} {
		if answer := w.Ask(cmd); answer.GetError().GetError() != pulsarpb.ServerError_TopicNotFound {
			t.Errorf("%v on a deleted segment: %v", cmd.GetType(), answer)
		}
	}
}

// Recreated under its name, a topic begins again at epoch 0, and a watch that is still open
// shows it: only the creation times of its segments tell the incarnations apart.
func recreate(t *T) {
	topic := t.Scalable("t", 1)
	w := t.Connect(0)
	w.Watch(topic.Topic(), 1)
	first := segmentOf(w.Update(1).GetDag(), 0)
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	w.UpdateThat(1, "the split", atEpoch(1))
	t.Must(t.Rig.Delete(t.Context(), topic))
	t.Scalable("t", 1)
	second := segmentOf(w.UpdateThat(1, "the new incarnation", func(u *pulsarpb.CommandScalableTopicUpdate) bool {
		return u.GetDag().GetEpoch() == 0 && segmentOf(u.GetDag(), 0).GetCreatedAtMs() != first.GetCreatedAtMs()
	}).GetDag(), 0)
	if second.GetCreatedAtMs() < first.GetCreatedAtMs() || second.GetState() != pulsarpb.SegmentState_ACTIVE {
		t.Errorf("first %v, then %v", first, second)
	}
}

// Recreated over orphans of its segments, a topic takes them over as they are: with their
// entries, their cursors, their producers and consumers. Only its layout is new.
func recreateOverOrphans(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.StoreAll(segment, 3)
	ghost := t.At(segment)
	ghost.Watch(topic.Topic(), 1)
	before := segmentOf(ghost.Update(1).GetDag(), 0).GetCreatedAtMs()
	ghost.Produce(segment, 1, "ghost")
	ghost.Subscribe(segment, 2, "s", exclusive)
	ghost.Flow(2, 100)
	ghost.Texts(2, 3)
	if a := t.REST(0, "DELETE", "scalable/"+string(topic), nil); a.Code != 204 {
		t.Errorf("delete: %d %s", a.Code, a.Body)
	}
	t.Scalable("t", 1)
	ghost.UpdateThat(1, "the new incarnation", func(u *pulsarpb.CommandScalableTopicUpdate) bool {
		return u.GetDag().GetEpoch() == 0 && segmentOf(u.GetDag(), 0).GetCreatedAtMs() != before
	})
	w := t.At(segment)
	w.Subscribe(segment, 1, "new", exclusive)
	w.Flow(1, 100)
	if got := w.Texts(1, 3); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("of the former incarnation: %q", got)
	}
	if answer := w.Ask(producer(segment, 1, "ghost")); answer.GetError().GetError() != pulsarpb.ServerError_ProducerBusy {
		t.Errorf("the ghost's name: %v", answer)
	}
	ghost.Store(1, 3, metadata("k"), "from the ghost")
	w.Produce(segment, 2, "new")
	w.Store(2, 0, metadata("k"), "new")
	for who, got := range map[string][]string{"the new reader": w.Texts(1, 2), "the ghost": ghost.Texts(2, 2)} {
		if !slices.Equal(got, []string{"from the ghost", "new"}) {
			t.Errorf("%s gets %q", who, got)
		}
	}
}

// An orphan that was sealed stays so: the recreated topic has an active segment that nobody
// can write to.
func recreateOverSealed(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.StoreAll(segment, 3)
	w := t.At(segment)
	w.Subscribe(segment, 1, "s", exclusive)
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	if a := t.REST(0, "DELETE", "scalable/"+string(topic), nil); a.Code != 204 {
		t.Errorf("delete: %d %s", a.Code, a.Body)
	}
	t.Scalable("t", 1)
	if s := t.Layout(topic).Segments["0"]; !s.Active || topic.SegmentTopic(s) != segment {
		t.Errorf("the new incarnation: %+v", s)
	}
	w.LookUp(segment, false)
	if answer := w.Ask(producer(segment, 1, "new")); answer.GetError().GetError() != pulsarpb.ServerError_TopicTerminatedError {
		t.Errorf("PRODUCER: %v", answer)
	}
	w.Subscribe(segment, 2, "new", exclusive)
	w.Flow(2, 100)
	if got := w.Texts(2, 3); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("of the former incarnation: %q", got)
	}
}
