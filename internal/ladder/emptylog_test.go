package ladder

import (
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// touch has a segment loaded.
func (w *world) touch(s *side, topic string) {
	w.t.Helper()
	client, err := pulsar.New(pulsar.Options{Cluster: s.name, ServiceURL: s.url(), Dial: w.net.Dial})
	w.must(err)
	defer client.Close()
	latest := pulsar.Latest()
	c, err := client.Subscribe(w.ctx, pulsar.SubscribeOptions{Topic: topic, Subscription: "touch", Type: pulsar.Exclusive, Start: &latest}, deaf{})
	w.must(err)
	w.must(c.Close(w.ctx))
}

// sealAnew splits a segment, and has what is left of it loaded anew.
func (w *world) sealAnew(s *side, segment *reroute.Segment) {
	w.t.Helper()
	w.must(s.Split(topicName, segment.ID))
	s.Unload(segment.Topic(topicName))
	w.touch(s, segment.Topic(topicName))
}

// What was in flight at a crash is trimmed, and the segment sealed and loaded anew: no entry
// is left of it, and it has no earliest. That is evidence that is gone, not trouble to wait
// out.
func TestEvidenceIsAnEmptyLog(t *testing.T) {
	for _, policy := range []string{"stop", "at_least_once"} {
		t.Run(policy, func(t *testing.T) {
			taking(t, func(w *world) {
				w.options = ", on_lost_evidence: " + policy
				w.start("one")
				sleep(w.ctx, 2*time.Second)
				w.copy()
				w.dieInFlight()
				c := w.west()
				s := c.layout().Active()[0]
				segment := s.Topic(topicName)
				w.must(c.SkipAll(topicName, reader))
				w.must(c.SkipAll(topicName, replicate.GuardName(subscription)))
				c.Unload(segment)
				w.touch(c, segment)
				w.must(c.Split(topicName, s.ID))
				c.Unload(segment)
				if left := w.stored(segment); len(left) != 0 {
					w.fatalf("%d entries are left", len(left))
				}
				i := w.start("two")
				if policy == "at_least_once" {
					w.settle("after the loss")
				} else {
					w.await("the lane holds", func() bool {
						return w.trace.has("state=stopped reason=evidence lost: target segment 0: its log was trimmed")
					})
				}
				if n := i.count("evidence_lost_total"); n != 1 {
					w.errorf("evidence_lost_total %v", n)
				}
			})
		})
	}
}

// A source segment that was sealed before anything was stored in it keeps nobody waiting.
func TestSourceSegmentWasNeverWritten(t *testing.T) {
	taking(t, func(w *world) {
		c := w.east()
		s := c.layout().Active()[0]
		w.touch(c, s.Topic(topicName))
		w.sealAnew(c, s)
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
	})
}

// A target segment that is sealed and empty when the guard is first recorded gets none; the lanes'
// protection does not wait for it, and it is pruned.
func TestTargetSegmentWasNeverWritten(t *testing.T) {
	taking(t, func(w *world) {
		c := w.west()
		s := c.layout().Active()[0]
		w.must(c.DeleteSubscription(topicName, reader))
		w.touch(c, s.Topic(topicName))
		w.sealAnew(c, s)
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		w.await("the empty one is pruned", func() bool {
			_, err := c.Prune(topicName)
			w.must(err)
			return c.layout().Segment(s.ID) == nil
		})
	})
}

// A source segment that was sealed, with what it holds, before a mapping is new: recording the
// subscription gives it no cursor, and it is copied from its beginning.
func TestSourceSegmentWasSealedBefore(t *testing.T) {
	taking(t, func(w *world) {
		c := w.east()
		w.must(c.RecordSubscription(topicName, "application"))
		w.publisher.burst(w.plan.rng, 20)
		s := c.layout().Active()[0]
		w.sealAnew(c, s)
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
	})
}
