package ladder

import (
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// pruneEast has a segment deleted with all that it holds, as brokers do with a sealed one
// that no subscription needs.
func (w *world) pruneEast() {
	w.t.Helper()
	c := w.east()
	old := c.layout().Active()[0].ID
	w.must(c.Split(topicName, old))
	w.must(c.SkipAll(topicName, subscription))
	if n, err := c.Prune(topicName); n == 0 || err != nil {
		w.errorf("%d segments were pruned, %v", n, err)
	}
}

// The source segment is deleted under a lane that the broker gives nothing. By policy its
// children wait.
func TestSegmentIsPrunedUnderALane(t *testing.T) {
	losing(t, func(w *world) {
		w.options = ", on_gap: stop"
		i := w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		w.must(w.east().Starve(w.east().layout().Active()[0].Topic(topicName), subscription))
		w.publisher.burst(w.plan.rng, 20)
		sleep(w.ctx, 20*time.Second)
		w.pruneEast()
		w.publisher.burst(w.plan.rng, 20)
		w.gaps(i, "truncated", 1) // and time passes
		if w.unacked() == 0 {
			w.errorf("copied from the children")
		}
		if m := i.board.Report().Mappings[0]; m.State != "stopped" {
			w.errorf("shown as %s: %s", m.State, m.Reason)
		}
		w.must(i.bridge.Resume("orders"))
		w.await("the rest is copied", func() bool { return w.unacked() == 0 })
	})
}

// So it is while nobody copies, and the record knew of more than was copied.
func TestSegmentIsPrunedWhileAway(t *testing.T) {
	for policy, waits := range map[string]bool{"continue": false, "stop": true} {
		t.Run(policy, func(t *testing.T) {
			losing(t, func(w *world) {
				w.options = ", on_gap: " + policy
				w.start("one")
				sleep(w.ctx, 2*time.Second)
				w.copy()
				w.dieInFlight()
				w.pruneEast()
				i := w.start("two")
				w.publisher.burst(w.plan.rng, 20)
				w.gaps(i, "truncated", 1)
				if copied := w.unacked() == 0; copied == waits {
					w.errorf("copied from the children: %v", copied)
				}
				w.must(i.bridge.Resume("orders"))
				w.await("the rest is copied", func() bool { return w.unacked() == 0 })
			})
		})
	}
}

// So is a sealed segment as soon as the last entry of it is acknowledged, before the
// lane has asked whether there is more: no gap.
func TestPrunedAtTheEndIsNoGap(t *testing.T) {
	taking(t, func(w *world) {
		w.options = ", on_gap: stop"
		i := w.start("one")
		for range 10 {
			sleep(w.ctx, 2*time.Second)
			c := w.east()
			w.publisher.burst(w.plan.rng, 20)
			old := c.layout().Active()[0].ID
			w.must(c.Split(topicName, old))
			for n := 0; w.unacked() > 0 && n < 60_000; n++ {
				sleep(w.ctx, time.Millisecond)
			}
			if n, err := c.Prune(topicName); n == 0 || err != nil {
				w.errorf("%d segments were pruned, %v", n, err)
			}
		}
		sleep(w.ctx, 2*time.Second)
		if n := i.count("source_gaps_total"); n != 0 {
			w.errorf("%v gaps", n)
		}
	})
}

// An instance that lost its connection to a source segment with entries in flight, and
// finds another instance there, has no part in its end.
func TestPrunedOfAnotherIsNoGap(t *testing.T) {
	taking(t, func(w *world) {
		w.options = ", on_gap: stop"
		one := w.start("two")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		segment := w.east().layout().Active()[0]
		w.west().injector.play(func(c pulsartest.Command) (pulsartest.Action, bool) {
			return pulsartest.Drop(), c.Sent && c.Type == pulsarpb.BaseCommand_SEND_RECEIPT
		})
		w.publisher.burst(w.plan.rng, 20)
		sleep(w.ctx, time.Second)
		w.east().Unload(segment.Topic(topicName))
		w.west().Unload(w.west().layout().Active()[0].Topic(topicName))
		two := w.start("one") // whose name the segment falls to
		w.west().injector.play(nil)
		w.settle("by the other")
		if m := one.board.Report().Mappings[0]; len(m.Lanes) != 1 || m.Lanes[0].State != "standby" {
			w.fatalf("the first one still copies: %+v", m.Lanes)
		}
		w.must(w.east().Split(topicName, segment.ID))
		if n, err := w.east().Prune(topicName); n == 0 || err != nil {
			w.errorf("%d segments were pruned, %v", n, err)
		}
		sleep(w.ctx, 20*time.Second)
		for _, i := range []*instance{one, two} {
			if n, m := i.count("source_gaps_total"), i.board.Report().Mappings[0]; n != 0 || m.State == "stopped" {
				w.errorf("%v gaps, shown as %s: %s", n, m.State, m.Reason)
			}
		}
		w.copy()
	})
}

// All of it was copied: no gap.
func TestPrunedIsNoGap(t *testing.T) {
	taking(t, func(w *world) {
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		sleep(w.ctx, 10*time.Second)
		w.running()[0].kill()
		w.pruneEast()
		i := w.start("two")
		sleep(w.ctx, 2*time.Minute)
		w.copy()
		if n := i.count("source_gaps_total"); n != 0 {
			w.errorf("%v gaps", n)
		}
	})
}
