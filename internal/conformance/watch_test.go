package conformance

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func watchScenarios() []Scenario {
	return []Scenario{
		{Name: "WatchOfMissing", Facts: []string{"2.1", "0.10"}, Run: watchOfMissing},
		{Name: "WatchCreates", Facts: []string{"2.1", "2.2", "0.10"}, Run: watchCreates},
		{Name: "SessionIDTwice", Facts: []string{"2.7"}, Run: sessionIDTwice},
		{Name: "NamespaceWatch", Facts: []string{"2.1", "2.5"}, Run: namespaceWatch},
		{Name: "ControllerIsNews", Facts: []string{"2.3", "0.8"}, Run: controllerIsNews},
	}
}

// WatchNamespace opens a watch of the scalable topics of a namespace.
func (w *Wire) WatchNamespace(namespace string, id uint64) {
	w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS.Enum(), WatchScalableTopics: &pulsarpb.CommandWatchScalableTopics{
		WatchId: proto.Uint64(id), Namespace: proto.String(namespace)}})
}

// Namespace returns the next update of a namespace watch.
func (w *Wire) Namespace(id uint64) *pulsarpb.CommandWatchScalableTopicsUpdate {
	w.t.Helper()
	return w.ExpectThat("an update of the namespace watch", func(g Got) bool {
		u := g.Command.GetWatchScalableTopicsUpdate()
		return u != nil && u.GetWatchId() == id
	}).Command.GetWatchScalableTopicsUpdate()
}

// equalSegments checks that there are n segments of these buckets, of equal width, all active, in order of their ids.
func equalSegments(dag *pulsarpb.ScalableTopicDAG, n int, splits []uint32) error {
	if len(dag.GetSegments()) != n {
		return fmt.Errorf("%d segments, want %d", len(dag.GetSegments()), n)
	}
	for i := range n {
		s := segmentOf(dag, uint64(i))
		start, end := uint32(i*65536/n), uint32((i+1)*65536/n-1)
		if s.GetHashStart() != start || s.GetHashEnd() != end || s.GetState() != pulsarpb.SegmentState_ACTIVE || !slices.Equal(s.GetEntryBucketSplits(), splits) ||
			len(s.GetParentIds())+len(s.GetChildIds()) > 0 || s.GetCreatedAtMs() == 0 || s.GetCreatedAtEpoch() != 0 {
			return fmt.Errorf("segment %v, want an active one of %04x-%04x with buckets at %v", s, start, end, splits)
		}
	}
	return nil
}

// A watch of a missing topic that must not create it is dead with its answer.
func watchOfMissing(t *T) {
	topic := t.Name("t")
	w := t.Connect(0)
	w.Watch(topic.Topic(), 1)
	if u := w.Update(1); u.GetError() != pulsarpb.ServerError_TopicNotFound || u.GetDag() != nil {
		t.Errorf("a watch of a missing topic: %v", u)
	}
	t.Scalable("t", 1)
	w.None(pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE)
	w.Watch(t.Segment(topic, 0), 2)
	if u := w.Update(2); u.GetResolvedTopicName() != topic.Topic() || u.GetDag().GetEpoch() != 0 {
		t.Errorf("a watch by a segment's name: %v", u)
	}
}

// By default a watch creates the topic, even in a namespace that does not exist. New topics
// share four buckets.
func watchCreates(t *T) {
	w := t.Connect(0)
	topics := []string{t.Name("made").Topic(), "topic://public/c-nowhere/t"}
	for i, topic := range topics {
		w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP.Enum(), ScalableTopicLookup: &pulsarpb.CommandScalableTopicLookup{
			SessionId: proto.Uint64(uint64(i)), Topic: proto.String(topic)}})
		u := w.Update(uint64(i))
		if err := equalSegments(u.GetDag(), 1, []uint32{16384, 32768, 49152}); err != nil {
			t.Errorf("%s: %v: %v", topic, err, u)
		}
	}
	if r := w.LookUp("segment://public/c-nowhere/t/0000-ffff-0", false); r.GetResponse() != pulsarpb.CommandLookupTopicResponse_Failed {
		t.Errorf("look-up of a segment in a namespace that does not exist: %v", r)
	}
	for n, splits := range map[int][]uint32{2: {32768}, 4: nil} {
		topic := t.Scalable(fmt.Sprint("of", n), n)
		w.Watch(topic.Topic(), uint64(10+n))
		if u := w.Update(uint64(10 + n)); equalSegments(u.GetDag(), n, splits) != nil {
			t.Errorf("%v: %v", equalSegments(u.GetDag(), n, splits), u)
		}
	}
}

// Two watches of one id live side by side.
func sessionIDTwice(t *T) {
	a, b := t.Scalable("a", 1), t.Scalable("b", 1)
	w := t.Connect(0)
	w.Watch(a.Topic(), 1)
	w.Update(1)
	w.Watch(b.Topic(), 1)
	w.Update(1)
	for _, topic := range []string{a.Topic(), b.Topic()} {
		t.Must(t.Rig.Split(t.Context(), t.Name(topic[len(topic)-1:]), 0))
		w.UpdateThat(1, "the split of "+topic, func(u *pulsarpb.CommandScalableTopicUpdate) bool {
			return u.GetResolvedTopicName() == topic && u.GetDag().GetEpoch() == 1
		})
	}
}

// The namespace watch begins with what there is, and tells what comes.
func namespaceWatch(t *T) {
	old := t.Scalable("old", 1)
	w := t.Connect(0)
	w.WatchNamespace("public/c-nowhere-else", 1)
	if u := w.Namespace(1); u.GetSnapshot() == nil || len(u.GetSnapshot().GetTopics()) != 0 {
		t.Errorf("of an unknown namespace: %v", u)
	}
	w.WatchNamespace(t.Namespace, 2)
	if u := w.Namespace(2); !slices.Equal(u.GetSnapshot().GetTopics(), []string{old.Topic()}) {
		t.Errorf("at first: %v", u)
	}
	fresh := t.Scalable("new", 1)
	if u := w.Namespace(2); !slices.Equal(u.GetDiff().GetAdded(), []string{fresh.Topic()}) || len(u.GetDiff().GetRemoved()) > 0 {
		t.Errorf("a new topic: %v", u)
	}
}

// No controller is named until one was elected, here for a recorded subscription: then it
// comes without a new epoch.
func controllerIsNews(t *T) {
	topic := t.Scalable("t", 1)
	w := t.Connect(0)
	w.Watch(topic.Topic(), 1)
	if u := w.Update(1); u.GetDag().ControllerBrokerUrl != nil {
		t.Errorf("a controller at once: %v", u)
	}
	t.Must(t.Rig.Subscribe(t.Context(), topic, "s"))
	u := w.UpdateThat(1, "the controller's url", func(u *pulsarpb.CommandScalableTopicUpdate) bool { return u.GetDag().ControllerBrokerUrl != nil })
	if u.GetDag().GetEpoch() != 0 || u.GetDag().GetControllerBrokerUrl() != "pulsar://"+t.Service(0) {
		t.Errorf("the controller: %v", u)
	}
}
