package ladder

import (
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
)

// Source data that is gone before it was copied: counted, told, and by policy a stop.

// losing is taking, with losses allowed where they were counted.
func losing(t *testing.T, script func(w *world)) {
	taking(t, func(w *world) {
		w.losses = []keyorder.Kind{keyorder.Lost}
		script(w)
	})
}

func (w *world) gaps(i *instance, reason string, want float64) {
	w.t.Helper()
	w.await("gaps are counted as "+reason, func() bool { return i.count("source_gaps_total", reason) == want })
	sleep(w.ctx, 2*time.Minute) // once is enough
	if all := i.count("source_gaps_total"); all != want {
		w.errorf("%v gaps, %v of them %s, want %v", all, i.count("source_gaps_total", reason), reason, want)
	}
	if notes := i.board.Report().Mappings[0].Notes; len(notes) != int(want) {
		w.errorf("notes %v", notes)
	}
}

// away publishes while no instance runs.
func (w *world) away(while func()) *instance {
	w.start("one")
	sleep(w.ctx, 2*time.Second)
	w.copy()
	w.running()[0].stop()
	w.publisher.burst(w.plan.rng, 20)
	while()
	return w.start("two")
}

// A TTL, a quota or an operator moved the subscription while nobody copied.
func TestSourceExpiresWhileAway(t *testing.T) {
	losing(t, func(w *world) {
		i := w.away(func() { w.must(w.east().SkipAll(topicName, subscription)) })
		w.gaps(i, "expired", 1)
		w.publisher.burst(w.plan.rng, 20)
		w.await("the rest is copied", func() bool { return w.unacked() == 0 })
	})
}

// By policy the lane holds there, and copies nothing behind the gap.
func TestSourceExpiresAndStops(t *testing.T) {
	losing(t, func(w *world) {
		w.options = ", on_gap: stop"
		i := w.away(func() { w.must(w.east().SkipAll(topicName, subscription)) })
		w.publisher.burst(w.plan.rng, 20)
		w.gaps(i, "expired", 1)
		if w.unacked() == 0 {
			w.errorf("copied behind the gap")
		}
		if l := i.board.Report().Mappings[0]; l.State != "stopped" || !strings.Contains(l.Reason, "resume MAPPING --accept-gap") {
			w.errorf("shown as %s: %s", l.State, l.Reason)
		}
		w.must(i.bridge.Resume("orders"))
		w.await("the rest is copied", func() bool { return w.unacked() == 0 })
		if n := i.count("source_gaps_total"); n != 1 {
			w.errorf("%v gaps in the end", n)
		}
	})
}

// The subscription is moved under a lane that the broker gives nothing.
func TestSourceExpiresUnderALane(t *testing.T) {
	losing(t, func(w *world) {
		i := w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		w.must(w.east().Starve(w.east().layout().Active()[0].Topic(topicName), subscription))
		w.publisher.burst(w.plan.rng, 20)
		w.must(w.east().SkipAll(topicName, subscription))
		w.gaps(i, "expired", 1)
	})
}

// What the last record knew to exist was trimmed with the ledger.
func TestSourceIsTruncated(t *testing.T) {
	losing(t, func(w *world) {
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		w.dieInFlight()
		w.must(w.east().SkipAll(topicName, subscription))
		w.east().Unload(w.east().layout().Active()[0].Topic(topicName))
		w.gaps(w.start("two"), "truncated", 1)
	})
}

// A drained segment that is loaded anew looks the same, and is no gap.
func TestReloadIsNoGap(t *testing.T) {
	taking(t, func(w *world) {
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		w.running()[0].kill()
		w.east().Unload(w.east().layout().Active()[0].Topic(topicName))
		sleep(w.ctx, time.Second)
		i := w.start("two")
		sleep(w.ctx, 2*time.Minute)
		w.copy()
		if n := i.count("source_gaps_total"); n != 0 {
			w.errorf("%v gaps", n)
		}
	})
}

// The subscription is deleted while nobody copies: what is there is copied, and
// nothing twice.
func TestSubscriptionIsDeleted(t *testing.T) {
	taking(t, func(w *world) {
		i := w.away(func() { w.must(w.east().DeleteSubscription(topicName, subscription)) })
		w.gaps(i, "unsubscribed", 1)
		w.settle("what is there")
	})
}

// So is the topic, and made again, while nobody copies, and while somebody does.
func TestSourceIsRecreated(t *testing.T) {
	again := func(w *world) {
		w.must(w.east().DeleteScalable(topicName, true))
		sleep(w.ctx, 5*time.Second)
		w.must(w.east().CreateScalable(topicName, 1))
	}
	t.Run("away", func(t *testing.T) {
		losing(t, func(w *world) {
			i := w.away(func() { again(w) })
			w.gaps(i, "recreated", 1)
			w.publisher.burst(w.plan.rng, 20)
			w.await("the new one is copied", func() bool { return w.unacked() == 0 })
		})
	})
	t.Run("copied before", func(t *testing.T) {
		losing(t, func(w *world) {
			i := w.start("one")
			sleep(w.ctx, 2*time.Second)
			w.copy()
			sleep(w.ctx, 10*time.Second)
			again(w)
			sleep(w.ctx, 20*time.Second)
			w.publisher.burst(w.plan.rng, 20)
			w.await("the new one is copied", func() bool { return w.unacked() == 0 })
			if n := i.count("source_gaps_total"); n != 0 {
				w.errorf("%v gaps", n)
			}
		})
	})
	t.Run("not copied before", func(t *testing.T) {
		losing(t, func(w *world) {
			w.options = ", on_gap: stop"
			i := w.start("one")
			sleep(w.ctx, 2*time.Second)
			w.copy()
			w.must(w.east().Starve(w.east().layout().Active()[0].Topic(topicName), subscription))
			w.publisher.burst(w.plan.rng, 20)
			sleep(w.ctx, 20*time.Second)
			again(w)
			w.gaps(i, "recreated", 1)
			w.publisher.burst(w.plan.rng, 20)
			sleep(w.ctx, 20*time.Second)
			if w.unacked() == 0 {
				w.errorf("copied from the new topic")
			}
			w.must(i.bridge.Resume("orders"))
			w.await("the new one is copied", func() bool { return w.unacked() == 0 })
		})
	})
}
