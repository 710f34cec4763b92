package conformance

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func startScenarios() []Scenario {
	return []Scenario{
		{Name: "StartLatest", Facts: []string{"P16", "9.4"}, Run: startLatest},
		{Name: "RecordOnSealed", Facts: []string{"3.5"}, Run: recordOnSealed},
		{Name: "SkipAllIsSilent", Facts: []string{"P16", "P27"}, Run: skipAllIsSilent},
		{Name: "RecordDeleted", Facts: []string{"P17"}, Run: recordDeleted},
	}
}

// record is PUT of a subscription.
func (t *T) record(topic, sub string) {
	t.Helper()
	if a := t.REST(0, "PUT", "scalable/"+topic+"/subscriptions/"+sub, nil); a.Code != 204 {
		t.Errorf("PUT of %s: %d %s", sub, a.Code, a.Body)
	}
}

// seekToEnd moves a subscription, whose consumers are closed behind the answer.
func (w *Wire) seekToEnd(id uint64) {
	w.t.Helper()
	answer := w.Ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SEEK.Enum(), Seek: &pulsarpb.CommandSeek{
		ConsumerId: proto.Uint64(id), RequestId: proto.Uint64(0), MessageId: latest()}})
	if answer.GetSuccess() == nil {
		w.t.Errorf("seek: %v", answer)
	}
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER).Command.GetCloseConsumer(); c.GetConsumerId() != id || c.GetRequestId() != unasked {
		w.t.Errorf("closed: %v", c)
	}
}

// Which of ten old messages a subscription that begins at the latest gets depends on the
// order of its steps. Recording it makes the missing cursors at the earliest, and moves
// none that is there.
func startLatest(t *T) {
	for i, row := range []struct {
		name  string
		steps func(topic, segment string, w *Wire)
		old   bool // the old messages come
	}{
		{"subscribed, then recorded twice", func(topic, segment string, w *Wire) {
			w.Subscribe(segment, 1, "s", failover, fromLatest)
			t.record(topic, "s")
			t.record(topic, "s")
			w.CloseConsumer(1)
		}, false},
		{"subscribed and closed, then recorded", func(topic, segment string, w *Wire) {
			w.Subscribe(segment, 1, "s", failover, fromLatest)
			w.CloseConsumer(1)
			t.record(topic, "s")
		}, false},
		{"recorded, then subscribed", func(topic, segment string, w *Wire) {
			t.record(topic, "s")
			w.Subscribe(segment, 1, "s", failover, fromLatest)
			w.CloseConsumer(1)
		}, true},
		{"recorded, then skipped", func(topic, _ string, _ *Wire) {
			t.record(topic, "s")
			if a := t.REST(0, "POST", "scalable/"+topic+"/subscriptions/s/skip-all", nil); a.Code != 204 {
				t.Errorf("skip-all: %d %s", a.Code, a.Body)
			}
		}, false},
		{"recorded, then sought", func(topic, segment string, w *Wire) {
			t.record(topic, "s")
			w.Subscribe(segment, 1, "s", failover)
			w.seekToEnd(1)
		}, false},
	} {
		topic := t.Scalable(fmt.Sprint("t", i), 1)
		segment := t.Segment(topic, 0)
		t.StoreAll(segment, 10)
		w := t.At(segment)
		row.steps(string(topic), segment, w)
		w.Produce(segment, 1, "")
		w.Store(1, 0, metadata("k"), "new")
		t.ReadOn(w) // also of one that has closed: a broker reads on a second after it came
		w.Subscribe(segment, 2, "s", failover, fromLatest)
		w.Flow(2, 100)
		want := "new"
		if row.old {
			want = "0"
		}
		if got := w.Message(2).Text(); got != want {
			t.Errorf("%s: begins with %q, want %q", row.name, got, want)
		}
	}
}

// Recording a subscription makes no cursor on a segment that is sealed: who attaches there
// first chooses where it begins.
func recordOnSealed(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.StoreAll(segment, 3)
	t.Hold() // the segment goes within 60 s
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	t.record(string(topic), "latest")
	t.record(string(topic), "earliest")
	w := t.At(segment)
	w.Subscribe(segment, 1, "latest", failover, fromLatest)
	w.Subscribe(segment, 2, "earliest", failover)
	for id, want := range map[uint64]uint64{1: 0, 2: 3} {
		if err := wantBacklog(w, id, want); err != nil {
			t.Errorf("consumer %d: %v", id, err)
		}
	}
}

// A consumer that is attached is not told that its subscription was moved to the end: what
// it has in hand it may acknowledge no more, and the next it gets is new.
func skipAllIsSilent(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.record(string(topic), "s")
	at := t.StoreAll(segment, 10)
	w := t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 5)
	w.Texts(1, 5)
	if a := t.REST(0, "POST", "scalable/"+string(topic)+"/subscriptions/s/skip-all", nil); a.Code != 204 {
		t.Errorf("skip-all: %d %s", a.Code, a.Body)
	}
	w.None(pulsarpb.BaseCommand_CLOSE_CONSUMER)
	if n := w.Backlog(1); n != 0 {
		t.Errorf("backlog %d after skip-all", n)
	}
	if r := w.Ack(1, at[4]); r.GetError() != pulsarpb.ServerError_UnknownError {
		t.Errorf("ack of what was skipped: %v", r)
	}
	w.Flow(1, 100)
	w.Produce(segment, 1, "")
	w.Store(1, 0, metadata("k"), "new")
	if got := w.Message(1).Text(); got != "new" {
		t.Errorf("after skip-all came %q", got)
	}
}

// Deleting the record of a subscription takes its cursor along only where nobody is
// attached; who is attached hears nothing, and is unprotected from then on.
func recordDeleted(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	at := t.StoreAll(segment, 2)
	t.record(string(topic), "s")
	w := t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 100)
	w.Texts(1, 2)
	if r := w.Ack(1, at[0]); r.Error != nil {
		t.Errorf("ack: %v", r)
	}
	path := "scalable/" + string(topic) + "/subscriptions/s"
	types := func() map[string]restadmin.Subscription {
		all, err := t.Rig.Subscriptions(t.Context(), topic)
		t.Must(err)
		return all
	}
	if got := types()["s"].Type; got != "STREAM" {
		t.Errorf("recorded: type %q", got)
	}
	if a := t.REST(0, "DELETE", path, nil); a.Code != 204 {
		t.Errorf("delete: %d %s", a.Code, a.Body)
	}
	w.None(pulsarpb.BaseCommand_CLOSE_CONSUMER)
	if got := types()["s"]; got.Type != "QUEUE" || w.Backlog(1) != 1 {
		t.Errorf("not recorded any more, but attached: %+v, backlog %d", got, w.Backlog(1))
	}
	w.CloseConsumer(1)
	if a := t.REST(0, "DELETE", path, nil); a.Code != 204 {
		t.Errorf("delete of what is not recorded: %d %s", a.Code, a.Body)
	}
	if _, there := types()["s"]; there {
		t.Errorf("still there: %v", types())
	}
	w.Subscribe(segment, 2, "s", failover)
	if n := w.Backlog(2); n != 2 {
		t.Errorf("a new cursor has a backlog of %d, want 2", n)
	}
}
