package conformance

import (
	"fmt"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func guardScenarios() []Scenario {
	return []Scenario{
		{Name: "Guard", Facts: []string{"P27"}, Run: guard},
		{Name: "GuardKeepsSealed", Facts: []string{"P21", "P28"}, Run: guardKeepsSealed},
	}
}

// A recorded subscription is moved to the end by skip-all. Who holds it without permits may
// acknowledge any stored position, markers too, and neither beyond nor back; an unload does
// not change where it is. On a child it begins at the beginning.
func guard(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	old := t.StoreAll(segment, 3)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "guard"))
	if a := t.REST(0, "POST", fmt.Sprintf("scalable/%s/subscriptions/guard/skip-all", topic), nil); a.Code != 204 {
		t.Errorf("skip-all: %d %s", a.Code, a.Body)
	}
	w := t.At(segment)
	w.Subscribe(segment, 1, "guard", failover)
	if err := wantBacklog(w, 1, 0); err != nil {
		t.Errorf("after skip-all: %v", err)
	}
	w.Produce(segment, 2, "")
	mark := w.Store(2, 0, metadata("", marker), "")
	plain := w.Store(2, 1, metadata("k"), "plain")
	end := w.Store(2, 2, metadata("", marker), "")
	for i, step := range []struct {
		at      *pulsarpb.MessageIdData
		refused bool
		left    uint64
	}{{mark, false, 2}, {old[0], true, 2}, {plain, false, 1}, {position(end.GetLedgerId(), end.GetEntryId()+1), true, 1}} {
		r := w.Ack(1, step.at)
		if (r.Error != nil) != step.refused || step.refused && r.GetError() != pulsarpb.ServerError_UnknownError {
			t.Errorf("step %d: %v", i, r)
		}
		if err := wantBacklog(w, 1, step.left); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	w.NoMessage(1)
	t.Unload()
	w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER)
	w = t.At(segment)
	w.Subscribe(segment, 1, "guard", failover)
	if err := wantBacklog(w, 1, 1); err != nil {
		t.Errorf("after the unload: %v", err)
	}
	if r := w.Ack(1, end); r.Error != nil {
		t.Errorf("after the unload: %v", r)
	}
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	t.StoreAll(t.Segment(topic, 1), 3)
	if n, err := t.Rig.SegmentBacklog(t.Context(), topic, 1, "guard"); n != 3 || err != nil {
		t.Errorf("the child's guard: backlog %d, %v", n, err)
	}
}

// A sealed segment stays while a guard lags, if only by a marker behind the last message.
func guardKeepsSealed(t *T) {
	var topics []string
	for _, name := range []string{"marker", "drained"} {
		topic := t.Scalable(name, 1)
		topics = append(topics, topic.Topic())
		segment := t.Segment(topic, 0)
		t.Must(t.Rig.Subscribe(t.Context(), topic, "guard"))
		w := t.At(segment)
		w.Produce(segment, 1, "")
		last := w.Store(1, 0, metadata("k"), "plain")
		if end := w.Store(1, 1, metadata("", marker), ""); name == "drained" {
			last = end
		}
		w.Subscribe(segment, 2, "guard", failover)
		if r := w.Ack(2, last); r.Error != nil {
			t.Errorf("ack: %v", r)
		}
		t.Must(t.Rig.Split(t.Context(), topic, 0))
	}
	t.Prune(t, topics...)
	if _, there := t.Layout(t.Name("marker")).Segments["0"]; !there {
		t.Error("pruned though the guard lags behind a marker")
	}
	if _, there := t.Layout(t.Name("drained")).Segments["0"]; there {
		t.Error("not pruned though drained")
	}
}
