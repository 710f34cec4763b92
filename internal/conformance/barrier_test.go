package conformance

import (
	"fmt"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func barrierScenarios() []Scenario {
	return []Scenario{
		{Name: "BarrierAfterUnload", Facts: []string{"P18", "P19"}, Run: func(t *T) {
			barrier(t, 0, func(string, int) error { return t.Rig.Unload(t.Context(), t.Namespace) }, 5)
		}},
		{Name: "BarrierAfterMove", Facts: []string{"P18", "P19", "P11"}, Needs: TwoBrokers, Run: func(t *T) {
			barrier(t, 1, func(segment string, to int) error {
				t.Move(t, segment, to)
				return nil
			}, 3)
		}},
		{Name: "BarrierAfterCrash", Facts: []string{"P18", "P11"}, Needs: TwoBrokers, Alone: true, Run: barrierAfterCrash},
		{Name: "BarrierAfterPause", Facts: []string{"P18", "P9"}, Needs: TwoBrokers, Alone: true, Run: barrierAfterPause},
	}
}

// Holder opens a producer at the broker that serves the segment now, and stores a barrier.
func (t *T) Holder(broker int, segment, name string) *Wire {
	t.Helper()
	w := t.Connect(broker)
	t.Eventually("a producer for "+name, func() error {
		w.LookUp(segment, false)
		if answer := w.Ask(producer(segment, 9, name)); answer.GetProducerSuccess() == nil {
			return fmt.Errorf("PRODUCER: %v", answer)
		}
		return nil
	})
	w.Store(9, 0, metadata("", marker), "")
	w.Store(9, 1, metadata("k"), "barrier")
	return w
}

// checkBarrier reads what is stored from the beginning, and checks that a dead producer's
// entries are below the barrier. It asks the broker that serves the segment now: one that was
// stopped past its session names itself in look-ups for a while.
func (t *T) checkBarrier(broker int, segment string, sent int, receipted []int) (silently int) {
	t.Helper()
	stored := t.ReadAt(broker, segment, earliest())
	for n, text := range stored {
		if text == "barrier" {
			for _, above := range stored[n+1:] {
				t.Errorf("%q landed above the barrier", above)
			}
			return t.checkStored(stored[:n], sent, receipted)
		}
	}
	t.Error("the barrier is not stored")
	return 0
}

// When a segment is given up under load, what its producer had sent lands, with a receipt or
// without, below all that the next one stores; that is at the broker so many further on.
func barrier(t *T, further int, giveUp func(segment string, to int) error, rounds int) {
	for round := range rounds {
		topic := t.Scalable(fmt.Sprint("t", round), 1)
		t.Must(t.Rig.Subscribe(t.Context(), topic, "keeps"))
		segment := t.Segment(topic, 0)
		w := t.At(segment)
		w.Produce(segment, 1, "old")
		to := (w.Broker + further) % t.Brokers()
		sent, receipted := w.load(func() error { return giveUp(segment, to) })
		t.Holder(to, segment, "new")
		late, refused := w.late()
		silently := t.checkBarrier(t.BrokerOf(segment), segment, sent, append(receipted, late...))
		t.Logf("round %d: %d sent, %d receipted, %d late, %d refused, %d stored without a receipt", round, sent, len(receipted), len(late), len(refused), silently)
	}
}

// flood is load without a window: it sends until n are in flight, and returns at once.
func (w *Wire) flood(n int) {
	w.t.Helper()
	for i := range n {
		w.Put(1, uint64(i), metadata("k"), fmt.Sprint(i))
	}
}

// receipts are those for producer 1 that have come.
func (w *Wire) receipts() (receipted []int) {
	for {
		g, ok := w.take(func(g Got) bool { return g.Type == pulsarpb.BaseCommand_SEND_RECEIPT && g.Receipt.ProducerID == 1 }, 0)
		if !ok {
			return receipted
		}
		receipted = append(receipted, int(g.Receipt.SequenceID))
	}
}

// The same where the broker is killed with much in flight, and another one takes the segment.
func barrierAfterCrash(t *T) {
	topic := t.Scalable("t", 1)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "keeps"))
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Produce(segment, 1, "old")
	t.Hold() // later, nothing would be in flight
	w.flood(2000)
	w.Receipt(1, 100)
	t.Kill(t, w.Broker)
	t.Release()
	w.Ended()
	t.Expire(t, w.Broker, segment)
	receipted := append(w.receipts(), 100)
	t.Holder(1-w.Broker, segment, "new")
	t.Restart(t, w.Broker)
	silently := t.checkBarrier(1-w.Broker, segment, 2000, receipted)
	t.Logf("2000 sent, %d receipted, %d stored without a receipt", len(receipted), silently)
}

// The same where the broker is stopped until it has lost its session, and goes on when another
// one has served the segment for a while.
func barrierAfterPause(t *T) {
	topic := t.Scalable("t", 1)
	t.Must(t.Rig.Subscribe(t.Context(), topic, "keeps"))
	segment := t.Segment(topic, 0)
	w := t.At(segment)
	w.Produce(segment, 1, "old")
	w.Subscribe(segment, 2, "s", failover)
	t.Hold() // as above; and a broker that was stopped for too long begins with ending connections
	w.flood(2000)
	w.Receipt(1, 100)
	t.Pause(t, w.Broker)
	t.Expire(t, w.Broker, segment)
	next := t.Connect(1 - w.Broker)
	next.Produce(segment, 9, "new")
	next.Store(9, 0, metadata("k"), "barrier")
	next.Subscribe(segment, 2, "s", failover)
	next.Active(2, true) // the stopped one has no say
	t.Resume(t, w.Broker)
	t.Release()
	w.take(func(g Got) bool { return g.Type == pulsarpb.BaseCommand_CLOSE_PRODUCER }, t.Patience())
	receipted := append(w.receipts(), 100)
	silently := t.checkBarrier(1-w.Broker, segment, 2000, receipted)
	t.Logf("2000 sent, %d receipted, %d stored without a receipt", len(receipted), silently)
}
