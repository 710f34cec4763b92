package conformance

import (
	"fmt"
	"strings"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func emptyLogScenarios() []Scenario {
	return []Scenario{
		{Name: "EmptyLog", Facts: []string{"3.2", "P23", "P27"}, Run: emptyLog},
	}
}

// A sealed segment that has no entry left, or never had one, has no earliest from its next
// load on: who begins there is refused, durable or not, and so is who falls back to it from
// beyond the end; a durable name that was refused has no answer from then on, until the next
// load; a record makes no cursor. From any other position a reader is served, also from one
// below all ledgers: it is at the end, and stands in a ledger behind those that are trimmed.
// A subscription that was there goes on.
func emptyLog(t *T) {
	never, trimmed, full := t.Scalable("never", 1), t.Scalable("trimmed", 1), t.Scalable("full", 1)
	segment := t.Segment(trimmed, 0)
	at := t.StoreAll(segment, 3)
	t.StoreAll(t.Segment(full, 0), 3)
	trim(t, segment, at)
	t.record(string(full), "record")
	t.record(string(never), "early")
	t.Hold() // what is sealed and drained goes within 60 s
	for _, topic := range []string{"never", "trimmed", "full"} {
		t.Must(t.Rig.Split(t.Context(), t.Name(topic), 0))
	}
	if answer := ask(t, segment, called("asks"), fromPosition(earliest())); answer.GetSuccess() == nil {
		t.Errorf("before the next load: %v", answer)
	}
	t.Unload()
	t.record(string(trimmed), "record") // from now on they stay in the layout: nobody drains them
	t.record(string(never), "record")
	t.Release()
	const refused = "refused"
	for i, row := range []struct {
		what   string
		served bool
		edits  []func(*pulsarpb.CommandSubscribe)
	}{
		{"a reader at the earliest", false, edits(fromPosition(earliest()))},
		{"a reader beyond the end", false, edits(fromPosition(position(at[0].GetLedgerId()+1_000_000, 0)))},
		{"a reader beyond the end, else at the latest", true, edits(fromPosition(position(at[0].GetLedgerId()+1_000_000, 0)), fromLatest)},
		{"a reader at the latest", true, edits(fromPosition(latest()), fromLatest)},
		{"a reader below all", true, edits(fromPosition(position(0, 0)))},
		{"a durable one at the latest", true, edits(fromLatest)},
		{"a durable one at the earliest", false, edits(called(refused))},
		{"a recorded one at the latest", true, edits(called("record"), fromLatest)},
	} {
		for _, n := range []string{"never", "trimmed"} {
			s := t.Segment(t.Name(n), 0)
			if answer := ask(t, s, append(edits(called(fmt.Sprint("asks-", i))), row.edits...)...); row.served != (answer.GetSuccess() != nil) || !row.served && answer.GetError().GetError() != pulsarpb.ServerError_UnknownError {
				t.Errorf("%s of %s: %v", row.what, n, answer)
			}
		}
	}
	w := t.At(segment)
	w.Start(subscribe(segment, 4, refused, failover, fromLatest))
	w.None(pulsarpb.BaseCommand_SUCCESS, pulsarpb.BaseCommand_ERROR)
	w.Subscribe(segment, 1, "reads", exclusive, fromPosition(position(0, 0)))
	w.Subscribe(segment, 2, "reads what is gone", exclusive, fromPosition(at[1]))
	w.Subscribe(segment, 3, "old", failover)
	for id := uint64(1); id <= 3; id++ {
		if err := wantBacklog(w, id, 0); err != nil {
			t.Errorf("consumer %d: %v", id, err)
		}
		if r := w.Ack(id, earliest()); !strings.Contains(r.GetMessage(), "Current mark-delete: ") || standsIn(r, at[0]) {
			t.Errorf("consumer %d: %v", id, r)
		}
		w.Flow(id, 100)
		w.NoMessage(id)
	}
	s := t.Segment(never, 0)
	w = t.At(s)
	w.Subscribe(s, 1, "early", failover)
	if err := wantBacklog(w, 1, 0); err != nil {
		t.Errorf("never written: %v", err)
	}
	s = t.Segment(full, 0)
	w = t.At(s)
	for id, start := range []*pulsarpb.MessageIdData{earliest(), position(0, 0)} {
		w.Subscribe(s, uint64(id), fmt.Sprint("reader-", id), exclusive, fromPosition(start))
		w.Flow(uint64(id), 100)
		w.Texts(uint64(id), 3)
	}
}

// trim has a segment lose what it stored, by a subscription that acknowledges it.
func trim(t *T, segment string, at []*pulsarpb.MessageIdData) {
	t.Helper()
	var w *Wire
	for range 2 { // into a ledger of their own; and for good
		t.Unload()
		w = t.At(segment)
		w.Subscribe(segment, 1, "old", failover)
		w.Ack(1, at[len(at)-1]) // refused, the second time
	}
	w.Trimmed(segment, at[0])
}

// Trimmed awaits that the ledger of a position is gone, which a broker sees to in the
// background: a reader from the earliest does not stand in it any more.
func (w *Wire) Trimmed(topic string, at *pulsarpb.MessageIdData) {
	w.t.Helper()
	id := uint64(1000)
	w.t.Eventually("the trimming of "+topic, func() error {
		id++
		w.Subscribe(topic, id, fmt.Sprint("reader-", id), exclusive, fromPosition(earliest()))
		defer w.CloseConsumer(id)
		if r := w.Ack(id, earliest()); standsIn(r, at) {
			return fmt.Errorf("%v", r)
		}
		return nil
	})
}

// standsIn tells whether the refusal names the ledger of a position as that of the mark.
func standsIn(r *pulsarpb.CommandAckResponse, at *pulsarpb.MessageIdData) bool {
	return strings.Contains(r.GetMessage(), fmt.Sprintf("Current mark-delete: %d:", at.GetLedgerId()))
}

// ask subscribes to a segment on a connection of its own, and ends that.
func ask(t *T, segment string, edits ...func(*pulsarpb.CommandSubscribe)) *pulsarpb.BaseCommand {
	t.Helper()
	w := t.At(segment)
	defer w.Close()
	return w.open(segment, subscribe(segment, 1, "", failover, edits...))
}

func edits(all ...func(*pulsarpb.CommandSubscribe)) []func(*pulsarpb.CommandSubscribe) { return all }

// called is an edit of subscribe.
func called(subscription string) func(*pulsarpb.CommandSubscribe) {
	return func(s *pulsarpb.CommandSubscribe) { s.Subscription = &subscription }
}
