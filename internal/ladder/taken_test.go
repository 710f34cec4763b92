package ladder

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/replicate"
)

// What operators, policies and brokers take away while, or before, geobridge copies.

// taking runs a script in a world without chance, and judges what came of it.
func taking(t *testing.T, script func(w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := bare()
		p.prunes = true
		w := newWorld(t, p)
		defer w.close()
		script(w)
		for _, i := range w.running() {
			i.stop()
		}
		r := w.judge()
		if problems := r.Problems(keyorder.Rewound); len(problems) > 0 {
			w.errorf("%v", problems)
		}
	})
}

// copy publishes some and waits until they have come.
func (w *world) copy() {
	w.t.Helper()
	w.publisher.burst(w.plan.rng, 20)
	sleep(w.ctx, 3*time.Second)
	w.settle("for now")
}

// await waits until something is so.
func (w *world) await(what string, so func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !so(); sleep(w.ctx, time.Second) {
		if time.Now().After(deadline) {
			w.fatalf("still not so: %s", what)
		}
	}
}

// record is the newest record of the lane of a source segment.
func (w *world) record(segment uint64, createdAtMs int64) (rec replicate.Record, there bool) {
	lane := replicate.LaneID{Subscription: subscription, SourceCluster: east, SourceTopic: topicName, Segment: segment,
		CreatedAtMs: createdAtMs, TargetCluster: west, TargetTopic: topicName}.Name()
	all, err := w.west().Entries(recordTopic)
	w.must(err)
	for _, e := range all {
		if string(e.Info.PartitionKey) != lane {
			continue
		}
		if there = len(e.Payload) > 0; there {
			rec, err = replicate.DecodeRecord(e.Payload)
			w.must(err)
		}
	}
	return rec, there
}

// The record of a lane whose segment has left the source is dropped, also where the
// instance that copied it is gone, and pins no evidence for those who come after.
func TestRecordIsDroppedWithItsSegment(t *testing.T) {
	taking(t, func(w *world) {
		first := w.east().layout().Active()[0]
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		if _, there := w.record(first.ID, first.CreatedAtMs); !there {
			w.fatalf("no record of segment %d", first.ID)
		}
		w.must(w.east().Split(topicName, first.ID))
		w.copy()
		w.await("the parent is read to its end", func() bool {
			rec, _ := w.record(first.ID, first.CreatedAtMs)
			return rec.Finished
		})
		w.running()[0].kill()
		sleep(w.ctx, time.Second)
		w.prune()
		if w.east().layout().Segment(first.ID) != nil {
			w.fatalf("segment %d is not pruned", first.ID)
		}
		w.start("two")
		w.await("the record is dropped", func() bool {
			_, there := w.record(first.ID, first.CreatedAtMs)
			return !there
		})
		for _, s := range w.east().layout().Active() {
			if _, there := w.record(s.ID, s.CreatedAtMs); !there {
				w.errorf("the record of segment %d is dropped, too", s.ID)
			}
		}
		w.must(w.west().Compact(recordTopic))
		w.copy()
	})
}
