package ladder

import (
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// The target topic is deleted while lanes write to it, and made again: in another shape, or in
// the same over the orphans, which then are its own; with force there are none. Nothing that
// was published since the topic was last seen is lost, and nothing comes twice. No watch tells
// of the end: the next record does not find the topic.
func TestTargetIsDeleted(t *testing.T) {
	for name, row := range map[string]struct {
		force    bool
		segments int
	}{
		"another shape": {false, 3},
		"same shape":    {false, 1},
		"force":         {true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			taking(t, func(w *world) {
				w.must(w.east().Split(topicName, w.east().layout().Active()[0].ID))
				i := w.start("one")
				sleep(w.ctx, 2*time.Second)
				w.copy()
				sleep(w.ctx, 5*time.Second) // all is recorded
				w.collect()
				w.deafen()
				segment := w.west().layout().Active()[0].Topic(topicName)
				before, acked := len(w.stored(segment)), w.unacked()
				w.must(w.west().DeleteScalable(topicName, row.force))
				for range 5 {
					w.publisher.burst(w.plan.rng, 20)
					sleep(w.ctx, 200*time.Millisecond)
				}
				w.await("it is noticed", func() bool {
					m := i.board.Report().Mappings[0]
					reasons := ""
					for _, l := range m.Lanes {
						reasons += l.Reason
					}
					return strings.Count(reasons, "does not exist") >= 2
				})
				ghost := w.messages(w.stored(segment)[min(before, len(w.stored(segment))):])
				counted := i.count("ghost_receipts_total")
				if row.force && counted != 0 || !row.force && (ghost == 0 || counted != float64(ghost)) {
					w.errorf("%v counted, a ghost took %d", counted, ghost)
				}
				if notes := i.board.Report().Mappings[0].Notes; row.force != (len(notes) == 0) || len(notes) > 1 {
					w.errorf("notes %v", notes)
				}
				if n := w.unacked(); acked != 0 || n == 0 {
					w.errorf("%d unacknowledged before, %d after", acked, n)
				}
				w.west().injector.play(nil)
				w.must(w.west().CreateScalable(topicName, row.segments))
				w.must(w.west().RecordSubscription(topicName, reader))
				w.settle("on the new topic")
				w.copy()
			})
		})
	}
}

// While nobody answers whether the target topic is there, no record rests on new receipts,
// and nothing is acknowledged; it is said, and it ends by itself. A crash meanwhile costs
// nothing.
func TestTargetCannotBeLookedUp(t *testing.T) {
	taking(t, func(w *world) {
		i := w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		sleep(w.ctx, 5*time.Second)
		mute := func(c pulsartest.Command) (pulsartest.Action, bool) {
			return pulsartest.Drop(), !c.Sent && c.Type == pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP
		}
		w.west().injector.play(mute)
		w.publisher.burst(w.plan.rng, 20)
		w.await("it is said", func() bool {
			return strings.Contains(i.board.Report().Mappings[0].Reason, "cannot see that the target topic is there")
		})
		sleep(w.ctx, 2*time.Minute)
		if len(w.missing()) != 0 || w.unacked() == 0 {
			w.errorf("%d messages not copied, %d entries not acknowledged", len(w.missing()), w.unacked())
		}
		i.kill()
		sleep(w.ctx, time.Second)
		w.west().injector.play(nil)
		i = w.start("two")
		w.settle("after the crash")
		if i.avoided() == 0 {
			w.errorf("nothing was found stored")
		}
		w.west().injector.play(mute)
		w.publisher.burst(w.plan.rng, 20)
		sleep(w.ctx, time.Minute)
		w.west().injector.play(nil)
		w.settle("when it answers again")
	})
}

// An instance that cannot see whether the target topic is there does not keep another one,
// which can, from the segment: it leaves what has no record to it.
func TestHandOverWithoutLookUp(t *testing.T) {
	taking(t, func(w *world) {
		last := 0
		w.west().injector.play(func(c pulsartest.Command) (pulsartest.Action, bool) {
			last = max(last, c.Conn)
			return pulsartest.Pass(), false
		})
		w.start("two")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		sleep(w.ctx, 5*time.Second)
		w.west().injector.play(func(c pulsartest.Command) (pulsartest.Action, bool) {
			return pulsartest.Drop(), !c.Sent && c.Type == pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP && c.Conn <= last
		})
		w.publisher.burst(w.plan.rng, 20)
		sleep(w.ctx, time.Second)
		i := w.start("one") // whose name the segment falls to
		w.settle("by the other")
		if i.avoided() == 0 {
			w.errorf("nothing was found stored")
		}
		w.west().injector.play(nil)
	})
}

// deafen loses what the namespace watch would tell.
func (w *world) deafen() {
	w.west().injector.play(func(c pulsartest.Command) (pulsartest.Action, bool) {
		return pulsartest.Drop(), c.Sent && c.Type == pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_UPDATE
	})
}

// stored is what a topic of the target holds, also as an orphan.
func (w *world) stored(topic string) []pulsartest.Stored {
	all, err := w.west().Entries(topic)
	if err != nil {
		return nil
	}
	return all
}

func (w *world) messages(all []pulsartest.Stored) (n int) {
	for i := range all {
		if all[i].Info.HasMarker {
			continue
		}
		found, err := messagesOf(&all[i])
		w.must(err)
		n += len(found)
	}
	return n
}
