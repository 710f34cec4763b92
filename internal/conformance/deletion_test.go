package conformance

import (
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func deletionScenarios() []Scenario {
	return []Scenario{
		{Name: "DeleteLeavesOrphans", Facts: []string{"0.5", "2.5", "P14"}, Run: deleteLeavesOrphans},
		{Name: "DeleteWithForce", Facts: []string{"2.5", "P14"}, Run: deleteWithForce},
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
