package conformance

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func scanScenarios() []Scenario {
	return []Scenario{
		{Name: "StartMessageID", Facts: []string{"P23"}, Run: startMessageID},
		{Name: "EndOfScan", Facts: []string{"P24", "P21", "P28"}, Run: endOfScan},
		{Name: "BacklogOfReader", Facts: []string{"P21", "P24"}, Run: backlogOfReader},
		{Name: "Acknowledgements", Facts: []string{"9.3", "P27"}, Run: acknowledgements},
		{Name: "Redelivery", Facts: []string{"9.3", "P10"}, Run: redelivery},
		{Name: "SeekAndCompacted", Facts: []string{"9.4"}, Run: seekAndCompacted},
	}
}

// A reader's start is inclusive. The position behind the last entry is the end. Beyond that, or
// in a ledger to come, it is silently the initial position; that goes for "latest", too. A name
// has one reader at a time.
func startMessageID(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	at := t.StoreAll(segment, 5)
	w := t.At(segment)
	ledger := at[0].GetLedgerId()
	for i, row := range []struct {
		start *pulsarpb.MessageIdData
		want  string
	}{
		{earliest(), "0"}, {at[0], "0"}, {at[3], "3"}, {at[4], "4"},
		{position(ledger, 6), "0"}, {position(ledger, 1000), "0"}, {position(ledger+1_000_000, 0), "0"}, {latest(), "0"},
	} {
		id := uint64(10 + i)
		w.Subscribe(segment, id, fmt.Sprint("reader-", i), exclusive, fromPosition(row.start))
		w.Flow(id, 100)
		if got := w.Message(id).Text(); got != row.want {
			t.Errorf("from %v: %q, want %q", row.start, got, row.want)
		}
		if answer := w.Ask(subscribe(segment, 50+id, fmt.Sprint("reader-", i), exclusive, fromPosition(row.start))); answer.GetError().GetError() != pulsarpb.ServerError_ConsumerBusy {
			t.Errorf("a second reader: %v", answer)
		}
	}
	for i, start := range []*pulsarpb.MessageIdData{position(ledger, 5), position(ledger, 6), latest()} {
		id := uint64(100 + i)
		w.Subscribe(segment, id, fmt.Sprint("reader-", id), exclusive, fromPosition(start), func(s *pulsarpb.CommandSubscribe) {
			if i > 0 {
				fromLatest(s)
			}
		})
		w.Flow(id, 100)
		w.NoMessage(id)
	}
}

// A scan is at the end when the last one it got is acknowledged and its backlog is 0, whatever
// else is stored: markers are passed. REACHED_END comes only then, or at a start at the end; and
// only on a sealed segment.
func endOfScan(t *T) {
	topic := t.Scalable("t", 1)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "keeps"))
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Produce(segment, 1, "")
	w.Store(1, 0, metadata("", marker), "")
	for i := range 3 {
		w.Store(1, uint64(1+i), metadata("k"), fmt.Sprint(i))
	}
	last := w.Store(1, 9, metadata("", marker), "")
	scan := func(id uint64, sealed bool) {
		w.Subscribe(segment, id, fmt.Sprint("scan-", id), exclusive, fromPosition(earliest()))
		w.Flow(id, 100)
		var got []string
		for range 3 {
			g := w.Message(id)
			got = append(got, g.Text())
			if n := w.Backlog(id); n == 0 {
				t.Error("backlog 0 before the last one is acknowledged")
			}
			if len(got) == 3 {
				w.None(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
			}
			w.Ack(id, g.ID())
		}
		if !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("scanned %v", got)
		}
		t.Eventually("the scan's end", func() error { return wantBacklog(w, id, 0) })
		if sealed {
			w.Expect(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
		} else {
			w.None(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
			w.CloseConsumer(id)
		}
	}
	scan(2, false)
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	scan(3, true)
	w.Subscribe(segment, 4, "at the end", exclusive, fromPosition(latest()), fromLatest)
	w.Flow(4, 100)
	w.Expect(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
	w.Subscribe(segment, 5, "at the last one", exclusive, fromPosition(last))
	w.Flow(5, 100)
	t.Eventually("the end behind a marker", func() error { return wantBacklog(w, 5, 0) })
}

// What a reader that is not durable has for a backlog, is what lies from its start to the end,
// in entries, before it is given anything. Messages count on until they are acknowledged;
// markers, until they are passed. What comes later counts, too.
func backlogOfReader(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	w := t.At(segment)
	w.Produce(segment, 1, "")
	var at []*pulsarpb.MessageIdData
	for i := range 6 {
		at = append(at, w.Store(1, uint64(i), metadata("k"), fmt.Sprint(i)))
	}
	w.Store(1, 9, metadata("", marker), "")
	w.Subscribe(segment, 2, "all", exclusive, fromPosition(earliest()))
	w.Subscribe(segment, 3, "from the fourth", exclusive, fromPosition(at[3]))
	backlogs := func(when string, all, some uint64) {
		for id, want := range map[uint64]uint64{2: all, 3: some} {
			if n := w.Backlog(id); n != want {
				t.Errorf("%s: backlog %d of consumer %d, want %d", when, n, id, want)
			}
		}
	}
	backlogs("before any permit", 7, 4)
	w.Flow(2, 100)
	w.Flow(3, 100)
	w.Texts(2, 6)
	w.Texts(3, 3)
	backlogs("all given", 6, 3)
	w.Store(1, 10, metadata("k"), "late")
	w.Texts(2, 1)
	w.Texts(3, 1)
	backlogs("one more", 7, 4)
}

// Acknowledgements are cumulative or single. Beyond the last entry, and behind the mark, they
// are refused; through a consumer that is not there, they have no answer.
func acknowledgements(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	at := t.StoreAll(segment, 6)
	w := t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 100)
	w.Texts(1, 6)
	for _, step := range []struct {
		what    string
		typ     pulsarpb.CommandAck_AckType
		at      []*pulsarpb.MessageIdData
		refused bool
		left    uint64
	}{
		{"one", pulsarpb.CommandAck_Individual, at[3:4], false, 5},
		{"up to the second", pulsarpb.CommandAck_Cumulative, at[1:2], false, 3},
		{"behind the mark", pulsarpb.CommandAck_Cumulative, at[:1], true, 3},
		{"beyond the end", pulsarpb.CommandAck_Cumulative, []*pulsarpb.MessageIdData{position(at[5].GetLedgerId(), 6)}, true, 3},
		{"in a ledger to come", pulsarpb.CommandAck_Cumulative, []*pulsarpb.MessageIdData{position(at[5].GetLedgerId()+1_000_000, 0)}, true, 3},
		{"two", pulsarpb.CommandAck_Individual, []*pulsarpb.MessageIdData{at[2], at[5]}, false, 1},
		{"all", pulsarpb.CommandAck_Cumulative, at[5:6], false, 0},
	} {
		r := w.Ask(ack(1, step.typ, step.at...)).GetAckResponse()
		if (r.Error != nil) != step.refused || step.refused && r.GetError() != pulsarpb.ServerError_UnknownError {
			t.Errorf("%s: %v", step.what, r)
		}
		if n := w.Backlog(1); n != step.left {
			t.Errorf("%s: backlog %d, want %d", step.what, n, step.left)
		}
	}
	w.Start(ack(77, pulsarpb.CommandAck_Cumulative, at[5]))
	w.None(pulsarpb.BaseCommand_ACK_RESPONSE, pulsarpb.BaseCommand_ERROR)
}

// Whoever asks for one unacknowledged entry of a subscription with one active consumer gets all
// from the first hole on, as if they were new.
func redelivery(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	at := t.StoreAll(segment, 6)
	w := t.At(segment)
	for id, typ := range map[uint64]pulsarpb.CommandSubscribe_SubType{1: exclusive, 2: failover} {
		w.Subscribe(segment, id, fmt.Sprint("s", id), typ)
		w.Flow(id, 100)
		w.Texts(id, 6)
		w.Ask(ack(id, pulsarpb.CommandAck_Individual, at[0], at[3]))
		for _, named := range [][]*pulsarpb.MessageIdData{nil, {at[4]}} {
			w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_REDELIVER_UNACKNOWLEDGED_MESSAGES.Enum(),
				RedeliverUnacknowledgedMessages: &pulsarpb.CommandRedeliverUnacknowledgedMessages{ConsumerId: proto.Uint64(id), MessageIds: named}})
			var got []string
			for range 4 {
				g := w.Message(id)
				got = append(got, g.Text())
				if g.Message.RedeliveryCount != 0 {
					t.Errorf("redelivery count %d", g.Message.RedeliveryCount)
				}
			}
			if !slices.Equal(got, []string{"1", "2", "4", "5"}) {
				t.Errorf("%v, asked for %v: %v", typ, named, got)
			}
		}
	}
}

// SEEK moves the subscription, and closes the consumer: before its answer or behind it. Only one who reads
// alone may read what is compacted.
func seekAndCompacted(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	at := t.StoreAll(segment, 4)
	w := t.At(segment)
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 100)
	w.Texts(1, 4)
	w.Ack(1, at[3])
	if answer := w.Ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SEEK.Enum(), Seek: &pulsarpb.CommandSeek{
		ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(0), MessageId: at[1]}}); answer.GetSuccess() == nil {
		t.Errorf("SEEK: %v", answer)
	}
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER).Command.GetCloseConsumer(); c.GetRequestId() != unasked {
		t.Errorf("closed: %v", c)
	}
	w.Subscribe(segment, 1, "s", failover)
	w.Flow(1, 100)
	if got := w.Message(1).Text(); got != "1" {
		t.Errorf("after SEEK: %q", got)
	}
	compacted := func(s *pulsarpb.CommandSubscribe) { s.ReadCompacted = proto.Bool(true) }
	w.Subscribe(segment, 2, "c", exclusive, compacted)
	if answer := w.Ask(subscribe(segment, 3, "d", shared, compacted)); answer.GetError().GetError() != pulsarpb.ServerError_NotAllowedError {
		t.Errorf("Shared: %v", answer)
	}
}
