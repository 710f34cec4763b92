package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func sealScenarios() []Scenario {
	return []Scenario{
		{Name: "SealUnderLoad", Facts: []string{"6a", "6d", "P19"}, Run: sealUnderLoad},
		{Name: "UnloadLooksAlike", Facts: []string{"6b", "P3", "P12", "P19"}, Run: unloadLooksAlike},
	}
}

// load sends entries "0", "1" and so on through producer 1, some of them in flight all the
// time, while a change of the topic is made, until its CLOSE_PRODUCER has come. It returns how
// many were sent, and what was receipted before the CLOSE_PRODUCER.
func (w *Wire) load(change func() error) (sent int, receipted []int) {
	w.t.Helper()
	w.t.Hold() // a broker ends the connection of who sends through a producer that it closed 30 s ago
	defer w.t.Release()
	const window = 50
	failed := make(chan error, 1)
	receipt := func(g Got) bool {
		return g.Type == pulsarpb.BaseCommand_SEND_RECEIPT && g.Receipt.ProducerID == 1 ||
			g.Type == pulsarpb.BaseCommand_CLOSE_PRODUCER && g.Command.GetCloseProducer().GetProducerId() == 1
	}
	for ; sent < window; sent++ {
		w.Put(1, uint64(sent), metadata("k"), fmt.Sprint(sent))
	}
	for started := false; ; sent++ {
		w.Put(1, uint64(sent), metadata("k"), fmt.Sprint(sent))
		g := w.ExpectThat("a receipt or the CLOSE_PRODUCER", receipt)
		if g.Command != nil {
			if r := g.Command.GetCloseProducer().GetRequestId(); r != unasked {
				w.t.Errorf("closed by request %d", r)
			}
			w.t.Must(<-failed)
			return sent + 1, receipted
		}
		receipted = append(receipted, int(g.Receipt.SequenceID))
		if len(receipted) > 200 && !started {
			started = true
			go func() { failed <- change() }()
		}
	}
}

// late are the receipts and refusals for producer 1 that came behind its CLOSE_PRODUCER.
func (w *Wire) late() (receipted, refused []int) {
	w.t.Helper()
	w.t.Quiet(w)
	for {
		g, ok := w.take(func(g Got) bool {
			return g.Type == pulsarpb.BaseCommand_SEND_RECEIPT || g.Type == pulsarpb.BaseCommand_SEND_ERROR
		}, 0)
		switch {
		case !ok:
			return receipted, refused
		case g.Type == pulsarpb.BaseCommand_SEND_RECEIPT:
			receipted = append(receipted, int(g.Receipt.SequenceID))
		default:
			refused = append(refused, int(g.Command.GetSendError().GetSequenceId()))
		}
	}
}

// Read reads a segment from a position to its end, with a reader of its own: what is stored.
func (t *T) Read(segment string, from *pulsarpb.MessageIdData) (texts []string) {
	t.Helper()
	return t.ReadAt(t.BrokerOf(segment), segment, from)
}

// ReadAt reads at a broker that is known to serve the segment.
func (t *T) ReadAt(broker int, segment string, from *pulsarpb.MessageIdData) (texts []string) {
	t.Helper()
	w := t.Connect(broker)
	defer w.Close()
	w.Subscribe(segment, 1, fmt.Sprint("reader-", time.Now().UnixNano()), exclusive, fromPosition(from))
	w.Flow(1, 1<<20)
	for w.Backlog(1) > 0 {
		g := w.Message(1)
		texts = append(texts, g.Text())
		w.Ask(ack(1, pulsarpb.CommandAck_Cumulative, g.ID()))
	}
	return texts
}

// checkStored compares what is stored with what was sent: in order, nothing twice, and all
// that was receipted. It returns how many were stored without a receipt.
func (t *T) checkStored(stored []string, sent int, receipted []int) (silently int) {
	t.Helper()
	last := -1
	var numbers []int
	for _, text := range stored {
		n, err := strconv.Atoi(text)
		if err != nil || n <= last || n >= sent {
			t.Errorf("stored %q behind %d, of %d that were sent", text, last, sent)
			continue
		}
		last = n
		numbers = append(numbers, n)
	}
	for _, n := range receipted {
		if _, found := slices.BinarySearch(numbers, n); !found {
			t.Errorf("%d was receipted and is not stored", n)
		}
	}
	return len(numbers) - len(receipted)
}

// A seal is clean. Receipts come in order, then the CLOSE_PRODUCER, to idle producers too;
// refusals after that in any order; nothing is answered any more. What is stored is exactly
// what was receipted, and can be read though nobody can write.
func sealUnderLoad(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Watch(topic.Topic(), 1)
	w.Produce(segment, 1, "p")
	w.Produce(segment, 2, "idle")
	t.Hold() // see load; and nothing keeps what is sealed longer than 60 s
	sent, receipted := w.load(func() error { return t.Rig.Split(t.Context(), topic, 0) })
	w.ExpectThat("CLOSE_PRODUCER of the idle one", func(g Got) bool { return g.Command.GetCloseProducer().GetProducerId() == 2 })
	w.UpdateThat(1, "the split", atEpoch(1))
	more, refused := w.late()
	if len(more) > 0 || !slices.IsSorted(receipted) || len(receipted)+len(refused) > sent {
		t.Errorf("of %d, receipted %d, %v late, %d refused", sent, len(receipted), more, len(refused))
	}
	w.Put(1, uint64(sent), metadata("k"), fmt.Sprint(sent))
	w.None(pulsarpb.BaseCommand_SEND_RECEIPT, pulsarpb.BaseCommand_SEND_ERROR)
	w.LookUp(segment, false)
	if answer := w.Ask(producer(segment, 3, "p")); answer.GetError().GetError() != pulsarpb.ServerError_TopicTerminatedError {
		t.Errorf("a new producer: %v", answer)
	}
	if n := t.checkStored(t.Read(segment, earliest()), sent, receipted); n != 0 {
		t.Errorf("%d stored, and not receipted", n)
	}
	t.Logf("%d sent, %d receipted, %d refused", sent, len(receipted), len(refused))
}

// An unload begins like a seal; only a look-up and a PRODUCER tell them apart. Neither a
// refusal nor silence means that an entry is not stored, receipts may come late, and what is
// stored is in order all the same. Watch and registration live on.
func unloadLooksAlike(t *T) {
	topic := t.Scalable("t", 1)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "keeps"))
	segment := t.Segment(topic, 0)
	w, stream := t.At(segment), t.Connect(0)
	stream.Watch(topic.Topic(), 1)
	stream.Register(topic.Topic(), "s", "a", 1)
	for round := range 3 {
		from := len(t.Read(segment, earliest()))
		w.Produce(segment, 1, "p")
		sent, receipted := w.load(func() error { return t.Rig.Unload(t.Context(), t.Namespace) })
		more, refused := w.late()
		t.Eventually("a producer again", func() error {
			w.LookUp(segment, false)
			if answer := w.Ask(producer(segment, 2, "q")); answer.GetProducerSuccess() == nil {
				return fmt.Errorf("PRODUCER: %v", answer)
			}
			return nil
		})
		w.CloseProducer(2)
		silently := t.checkStored(t.Read(segment, earliest())[from:], sent, append(receipted, more...))
		t.Logf("round %d: %d sent, %d receipted, %d late, %d refused, %d stored without a receipt", round, sent, len(receipted), len(more), len(refused), silently)
	}
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	stream.UpdateThat(1, "the split", atEpoch(1))
	stream.ExpectThat("an assignment of the new epoch", assigned(1, func(a *pulsarpb.ScalableConsumerAssignment) bool { return a.GetLayoutEpoch() == 1 }))
}
