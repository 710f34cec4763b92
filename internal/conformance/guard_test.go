package conformance

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func guardScenarios() []Scenario {
	return []Scenario{
		{Name: "Guard", Facts: []string{"P27"}, Run: guard},
		{Name: "MarkIsTold", Facts: []string{"P27"}, Run: markIsTold},
		{Name: "SeekBack", Facts: []string{"9.4", "P16", "P27"}, Run: seekBack},
		{Name: "BacklogQuota", Facts: []string{"P29"}, Run: backlogQuota},
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

// The refusal of a position older than everything tells where a subscription stands, to
// whoever attaches to it; a reader that begins at the earliest stands before the oldest
// ledger. A ledger that is acknowledged to its end is trimmed at an unload, and the
// subscription stands before the next one then.
func markIsTold(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "guard"))
	first := t.StoreAll(segment, 3)
	want := func(w *Wire, id uint64, ledger, entry int64) {
		r := w.Ack(id, position(unasked, unasked))
		if text := fmt.Sprintf("Current mark-delete: %d:%d ", ledger, entry); r.GetError() != pulsarpb.ServerError_UnknownError || !strings.Contains(r.GetMessage(), text) {
			t.Errorf("consumer %d: %v, want %q", id, r, text)
		}
	}
	old := int64(first[0].GetLedgerId())
	w := t.At(segment)
	w.Subscribe(segment, 1, "guard", failover)
	w.Subscribe(segment, 2, "guard", failover)
	want(w, 1, old, -1)
	if r := w.Ack(1, first[1]); r.Error != nil {
		t.Errorf("ack: %v", r)
	}
	want(w, 2, old, 1)
	w.Subscribe(segment, 3, "reader", exclusive, fromPosition(position(unasked, unasked)))
	want(w, 3, old, -1)
	t.Unload()
	next := t.StoreAll(segment, 1)
	w = t.At(segment)
	w.Subscribe(segment, 1, "guard", failover)
	want(w, 1, old, 1)
	if r := w.Ack(1, first[2]); r.Error != nil {
		t.Errorf("ack: %v", r)
	}
	t.Unload()
	t.StoreAll(segment, 1)
	w = t.At(segment)
	w.Subscribe(segment, 1, "guard", failover)
	w.Trimmed(segment, first[0])
	w.Subscribe(segment, 2, "reader", exclusive, fromPosition(position(unasked, unasked)))
	ledger := int64(next[0].GetLedgerId())
	want(w, 1, ledger, -1)
	want(w, 2, ledger, -1)
}

// SEEK goes back on a sealed segment that is drained, too, and the entry that it names is
// the first one not acknowledged. Who acknowledges where the subscription stands is not refused.
func seekBack(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "s"))
	at := t.StoreAll(segment, 4)
	w := t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	if r := w.Ack(1, at[3]); r.Error != nil {
		t.Errorf("ack: %v", r)
	}
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	ledger := int64(at[0].GetLedgerId())
	for i, step := range []struct {
		to   *pulsarpb.MessageIdData
		mark int64
		left uint64
	}{{at[2], 1, 2}, {position(unasked, unasked), -1, 4}, {at[0], -1, 4}} {
		if answer := w.Ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SEEK.Enum(), Seek: &pulsarpb.CommandSeek{
			ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(0), MessageId: step.to}}); answer.GetSuccess() == nil {
			t.Errorf("step %d: %v", i, answer)
		}
		w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER)
		w.Subscribe(segment, 1, "s", failover)
		r := w.Ack(1, position(unasked, unasked))
		if want := fmt.Sprintf("Current mark-delete: %d:%d ", ledger, step.mark); !strings.Contains(r.GetMessage(), want) {
			t.Errorf("step %d: %v, want %q", i, r, want)
		}
		if r := w.Ack(1, position(uint64(ledger), uint64(step.mark))); r.Error != nil {
			t.Errorf("step %d: ack of the mark: %v", i, r)
		}
		if err := wantBacklog(w, 1, step.left); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
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
	t.Pruned(t.Name("drained"))
	if _, there := t.Layout(t.Name("marker")).Segments["0"]; !there {
		t.Error("pruned though the guard lags behind a marker")
	}
}

// Pruned awaits that segment 0 is gone.
func (t *T) Pruned(topic restadmin.Name) {
	t.Helper()
	t.Eventually("pruning of "+string(topic), func() error {
		if s, there := t.Layout(topic).Segments["0"]; there {
			return fmt.Errorf("still there: %+v", s)
		}
		return nil
	})
}

// What a guard lags counts against the backlog quota of its namespace. As that says, all
// producers are closed and new ones refused, or the guard is moved.
func backlogQuota(t *T) {
	type limited struct {
		policy  string
		refusal pulsarpb.ServerError
		topic   restadmin.Name
		w       *Wire
	}
	all := []limited{
		{policy: "producer_request_hold", refusal: pulsarpb.ServerError_ProducerBlockedQuotaExceededError},
		{policy: "producer_exception", refusal: pulsarpb.ServerError_ProducerBlockedQuotaExceededException},
		{policy: "consumer_backlog_eviction"},
	}
	for i := range all {
		l := &all[i]
		namespace := fmt.Sprint(t.Namespace, "-", i)
		t.CreateNamespace(namespace)
		t.Must(t.Rig.Do(t.Context(), "POST", "namespaces/"+namespace+"/backlogQuota?backlogQuotaType=destination_storage",
			map[string]any{"limitSize": 20_000, "limitTime": -1, "policy": l.policy}, nil))
		l.topic = restadmin.Name(namespace + "/t")
		t.Must(t.Rig.CreateTopic(t.Context(), l.topic, 1, 0))
		t.Must(t.Rig.Subscribe(t.Context(), l.topic, "guard"))
		segment := t.Segment(l.topic, 0)
		l.w = t.At(segment)
		l.w.Produce(segment, 1, "")
		t.Hold() // the broker may look any minute
		for n := range 10 {
			l.w.Store(1, uint64(n), metadata("k"), strings.Repeat("x", 10_000))
		}
		t.Release()
	}
	t.CheckQuotas(t)
	for _, l := range all {
		if l.refusal == 0 {
			t.Eventually("the guard is moved", func() error {
				if n, err := t.Rig.SegmentBacklog(t.Context(), l.topic, 0, "guard"); n > 5 || err != nil {
					return fmt.Errorf("backlog %d, %w", n, err)
				}
				return nil
			})
			l.w.Store(1, 10, metadata("k"), "more")
			continue
		}
		if c := l.w.Expect(pulsarpb.BaseCommand_CLOSE_PRODUCER).Command.GetCloseProducer(); c.GetRequestId() != unasked {
			t.Errorf("%s: %v", l.policy, c)
		}
		if answer := l.w.Ask(producer(t.Segment(l.topic, 0), 2, "")); answer.GetError().GetError() != l.refusal {
			t.Errorf("%s: %v, want %v", l.policy, answer, l.refusal)
		}
	}
}
