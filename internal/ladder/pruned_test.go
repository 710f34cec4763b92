package ladder

import (
	"testing"
	"time"
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
