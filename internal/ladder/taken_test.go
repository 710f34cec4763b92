package ladder

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/replicate"
)

// What operators, policies and brokers take away while, or before, geobridge copies.

// taking runs a script in a world without chance, and judges what came of it.
func taking(t *testing.T, script func(w *world)) {
	p := bare()
	p.prunes = true
	playing(t, p, script)
}

// playing is that in a world of any plan.
func playing(t *testing.T, p plan, script func(w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p)
		defer w.close()
		script(w)
		for _, i := range w.running() {
			i.stop()
		}
		r := w.judge()
		allowed := append([]keyorder.Kind{keyorder.Rewound}, w.losses...)
		for _, i := range w.instances {
			if i.count("evidence_lost_total") > 0 {
				allowed = append(allowed, keyorder.Duplicate)
			}
		}
		if problems := r.Problems(allowed...); len(problems) > 0 {
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

// dieInFlight kills the first instance with sends stored of whose receipts it did not hear.
func (w *world) dieInFlight() {
	w.t.Helper()
	w.west().injector.losesReceipts()
	w.publisher.burst(w.plan.rng, 20)
	sleep(w.ctx, 3*time.Second)
	w.running()[0].kill()
	sleep(w.ctx, time.Second)
	w.west().injector.play(nil)
	w.collect()
}

// steal leaves a crash's sends in doubt, and takes away what could tell about them:
// the guard is moved, and the segment loaded anew.
func (w *world) steal() {
	w.t.Helper()
	segment := w.west().layout().Active()[0].Topic(topicName)
	w.dieInFlight()
	w.must(w.west().SkipAll(topicName, reader))
	w.must(w.west().SkipAll(topicName, replicate.GuardName(subscription)))
	w.west().Unload(segment)
}

// What was in flight at a crash is trimmed at the target before anybody looked for it.
// By default the lane holds and sends nothing twice; at_least_once sends it again.
func TestEvidenceIsTaken(t *testing.T) {
	for _, policy := range []string{"stop", "at_least_once"} {
		t.Run(policy, func(t *testing.T) {
			taking(t, func(w *world) {
				w.options = ", on_lost_evidence: " + policy
				w.start("one")
				sleep(w.ctx, 2*time.Second)
				w.copy()
				w.steal()
				i := w.start("two")
				if policy == "at_least_once" {
					w.settle("after the loss")
				} else {
					w.await("the lane holds", func() bool {
						return w.trace.has("state=stopped reason=evidence lost: target segment 0: its log was trimmed")
					})
					sleep(w.ctx, 5*time.Minute)
				}
				if n := i.count("evidence_lost_total"); n != 1 {
					w.errorf("evidence_lost_total %v", n)
				}
				if notes := i.board.Report().Mappings[0].Notes; len(notes) != 1 {
					w.errorf("notes %v", notes)
				}
			})
		})
	}
}

// A guard that was moved or deleted, over a log that still holds everything: evidence
// enough.
func TestGuardIsTaken(t *testing.T) {
	for name, take := range map[string]func(*world) error{
		"moved":   func(w *world) error { return w.west().SkipAll(topicName, replicate.GuardName(subscription)) },
		"deleted": func(w *world) error { return w.west().DeleteSubscription(topicName, replicate.GuardName(subscription)) },
	} {
		t.Run(name, func(t *testing.T) {
			taking(t, func(w *world) {
				w.start("one")
				sleep(w.ctx, 2*time.Second)
				w.copy()
				w.dieInFlight()
				w.must(take(w))
				i := w.start("two")
				sleep(w.ctx, 20*time.Second)
				w.settle("after it")

				if i.count("evidence_lost_total") != 0 || i.avoided() == 0 {
					w.errorf("lost %v, avoided %v", i.count("evidence_lost_total"), i.avoided())
				}
			})
		})
	}
}

// A guard that was deleted, and is recorded again over what a crash left in doubt, keeps
// that, also when the reader has all and the segment is loaded anew.
func TestGuardIsRecordedAgainBelowTheEvidence(t *testing.T) {
	taking(t, func(w *world) {
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		w.dieInFlight()
		w.must(w.west().DeleteSubscription(topicName, replicate.GuardName(subscription)))
		w.beforeClaim(func() {
			w.must(w.west().SkipAll(topicName, reader))
			w.west().Unload(w.west().layout().Active()[0].Topic(topicName))
		})
		i := w.start("two")
		w.settle("after it")
		if i.count("evidence_lost_total") != 0 || i.avoided() == 0 {
			w.errorf("lost %v, avoided %v", i.count("evidence_lost_total"), i.avoided())
		}
	})
}

// beforeClaim does something once, before a target segment is taken.
func (w *world) beforeClaim(f func()) {
	done := false
	w.west().injector.play(func(c pulsartest.Command) (pulsartest.Action, bool) {
		if done || c.Type != pulsarpb.BaseCommand_PRODUCER || c.Sent || !strings.HasPrefix(c.Base.GetProducer().GetTopic(), "segment://") {
			return pulsartest.Pass(), false
		}
		done = true
		w.later(0, f)
		return pulsartest.Delay(time.Second), true
	})
}

// An operator, or a TTL, moves the guard while nothing is in flight: it is said, and it
// is over when the records have passed it.
func TestGuardIsMovedWhileIdle(t *testing.T) {
	taking(t, func(w *world) {
		i := w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		w.await("the guard protects", func() bool { return i.protected("guard") })
		w.must(w.west().SkipAll(topicName, replicate.GuardName(subscription)))
		w.await("the guard protects no longer", func() bool { return !i.protected("guard") })
		if !w.trace.has("the guard was moved beyond what the records need") {
			w.errorf("geobridge does not say it")
		}
		w.copy()
		w.await("the guard protects again", func() bool { return i.protected("guard") })
	})
}

// The checkpoint topic is deleted, with all who are on it, while a lane copies, or
// while none does. By default it holds, until an operator accepts; at_least_once
// goes on.
func TestCheckpointIsDeleted(t *testing.T) {
	for _, policy := range []string{"stop", "at_least_once"} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprint(policy, " running ", running), func(t *testing.T) {
				taking(t, func(w *world) {
					w.options = ", on_lost_evidence: " + policy
					i := w.start("one")
					sleep(w.ctx, 2*time.Second)
					w.copy()
					if !running {
						i.stop()
					}
					w.must(w.west().DeleteRegular(recordTopic))
					if !running {
						i = w.start("two")
					}
					w.publisher.burst(w.plan.rng, 20)
					if policy == "stop" {
						w.await("it holds", func() bool {
							m := i.board.Report().Mappings[0]
							return m.State == "stopped" && strings.Contains(m.Reason, "evidence lost") && strings.Contains(m.Reason, "--accept-gap")
						})
						sleep(w.ctx, 2*time.Minute)
						if w.unacked() == 0 {
							w.errorf("copied without evidence")
						}
						w.must(i.bridge.Resume("orders"))
					}
					w.settle("in the end")
					w.await("the checkpoint topic protects", func() bool { return i.protected("checkpoint") })
					if i.count("evidence_lost_total") < 1 && policy != "stop" {
						w.errorf("not counted")
					}
				})
			})
		}
	}
}

// With it goes the word that a parent was read to its end. Its children, which copy
// already, do not wait for that to come again.
func TestCheckpointIsDeletedAfterASplit(t *testing.T) {
	for _, policy := range []string{"stop", "at_least_once"} {
		t.Run(policy, func(t *testing.T) {
			taking(t, func(w *world) {
				w.options = ", on_gap: stop, on_lost_evidence: " + policy
				i := w.start("one")
				sleep(w.ctx, 2*time.Second)
				w.copy()
				w.must(w.east().Split(topicName, w.east().layout().Active()[0].ID))
				sleep(w.ctx, 10*time.Second)
				w.copy()
				w.must(w.west().DeleteRegular(recordTopic))
				w.publisher.burst(w.plan.rng, 20)
				if policy == "stop" {
					w.await("it holds", func() bool {
						return strings.Count(fmt.Sprint(i.board.Report().Mappings[0].Lanes), "--accept-gap") >= 2
					})
					w.must(i.bridge.Resume("orders"))
				}
				w.settle("in the end")
				if n := i.count("source_gaps_total"); n != 0 {
					w.errorf("%v gaps", n)
				}
			})
		})
	}
}

// A child that waits for the other parent does not wait for the first one again.
func TestCheckpointIsDeletedDuringAMerge(t *testing.T) {
	taking(t, func(w *world) {
		w.options = ", on_lost_evidence: at_least_once"
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		c := w.east()
		w.must(c.Split(topicName, c.layout().Active()[0].ID))
		w.copy()
		sleep(w.ctx, 10*time.Second)
		slow, done := c.layout().Active()[0], c.layout().Active()[1]
		w.must(c.Starve(slow.Topic(topicName), subscription))
		w.publisher.burst(w.plan.rng, 20)
		w.must(c.Merge(topicName, slow.ID, done.ID))
		w.await("one parent is read to its end", func() bool {
			rec, _ := w.record(done.ID, done.CreatedAtMs)
			return rec.Finished
		})
		if rec, _ := w.record(slow.ID, slow.CreatedAtMs); rec.Finished {
			w.fatalf("so is the other one")
		}
		w.must(w.west().DeleteRegular(recordTopic))
		w.publisher.burst(w.plan.rng, 20)
		w.settle("in the end")
	})
}

// The parking topic is deleted: said, and made again.
func TestParkingIsDeleted(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint("running ", running), func(t *testing.T) {
			taking(t, func(w *world) {
				i := w.start("one")
				sleep(w.ctx, 2*time.Second)
				w.copy()
				if !running {
					i.stop()
				}
				w.must(w.east().DeleteRegular(parkingTopic))
				if !running {
					i = w.start("two")
				}
				w.await("it is said", func() bool { return len(i.board.Report().Mappings[0].Notes) == 1 })
				w.copy()
				w.await("it protects again", func() bool { return i.protected("parking") })
				i.stop()
				w.start("three")
				w.copy()
			})
		})
	}
}
