package ladder

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
)

// outcome is what one run came to.
type outcome struct {
	rung           rung
	claim          claim
	struck, flying bool
	undrained      bool
	avoided        float64 // messages that recoveries found stored
	report         keyorder.Report
	took           time.Duration // of fake time
}

// run plays one seed in a bubble of its own. What came of it is handed to after,
// whether it went well or not.
func run(t *testing.T, seed uint64, after func(*world, outcome)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newPlan(seed))
		defer w.close()
		defer func() { after(w, w.outcome()) }()
		w.run()
	})
}

func (w *world) outcome() outcome {
	avoided := 0.0
	for _, i := range w.instances {
		avoided += i.avoided()
	}
	return outcome{avoided: avoided, rung: w.plan.rung, claim: claimOf(w.plan), struck: w.struck.Load(), flying: w.flying.Load(),
		undrained: w.undrained.count.Load() > 0, report: w.judge(), took: time.Since(w.began)}
}

func (w *world) run() {
	w.start("one")
	w.script()
	w.quiet()
	w.settle("after the fault")
	for late := time.Now().Add(patience); !w.struck.Load() && time.Now().Before(late); {
		w.turn()
		sleep(w.ctx, time.Second)
	}
	w.publisher.burst(w.plan.rng, 20) // nothing stands still behind an idle look
	w.settle("at the end")
	for _, i := range w.running() {
		i.stop()
	}
	for _, i := range w.instances {
		<-i.done
	}
	w.verdict(w.outcome())
}

func (w *world) running() (all []*instance) {
	for _, i := range w.instances {
		select {
		case <-i.done:
		default:
			if !i.line.refuses("") {
				all = append(all, i)
			}
		}
	}
	return all
}

const (
	// longest is how long publishing goes on for a point that is not passed.
	longest = 75 * time.Second
	// patient is how long matches are let pass.
	patient = 12 * time.Second
	// patience is how long a point is waited for once all is quiet.
	patience = 70 * time.Second
	// bound is how long the copy may take once all is quiet.
	bound = 15 * time.Minute
)

// script publishes, changes both layouts, and lets instances come and go, until
// the fault has struck and everything planned is published.
func (w *world) script() {
	rng := w.plan.rng
	sleep(w.ctx, w.plan.firstAt)
	joinAt, leaveAt := time.Duration(-1), time.Duration(-1)
	if w.plan.joins {
		joinAt = w.plan.firstAt + time.Duration(2000+rng.IntN(4000))*time.Millisecond
		leaveAt = joinAt + time.Duration(3000+rng.IntN(5000))*time.Millisecond
	}
	eventAt := w.plan.firstAt + time.Duration(3000+rng.IntN(3000))*time.Millisecond
	nudgeAt := eventAt
	for {
		since := time.Since(w.began)
		if w.publisher.count >= w.plan.messages && (w.struck.Load() || since > longest) && joinAt < 0 && leaveAt < 0 {
			return
		}
		w.turn()
		if since > patient {
			w.eager.Store(true)
		}
		if since > nudgeAt && !w.struck.Load() {
			nudgeAt = since + 5*time.Second
			w.nudge()
		}
		switch {
		case joinAt >= 0 && since > joinAt:
			w.burstInFlight()
			w.start("two")
			joinAt = -1
		case leaveAt >= 0 && joinAt < 0 && since > leaveAt:
			w.burstInFlight()
			w.parts.Go(w.running()[rng.IntN(len(w.running()))].stop) // publishing goes on
			leaveAt = -1
			if !w.struck.Load() && w.plan.rung.atStart() && since < longest/2 {
				joinAt = since + 2*time.Second
				leaveAt = joinAt + 4*time.Second
			}
		case w.plan.rung.fault == event && !w.struck.Load() && since > eventAt:
			w.event(since > eventAt+20*time.Second)
		}
		sleep(w.ctx, time.Duration(20+rng.IntN(300))*time.Millisecond)
	}
}

// burstInFlight publishes until the target has sends without receipt, or a while.
func (w *world) burstInFlight() {
	w.publisher.burst(w.plan.rng, 10)
	for range 50 {
		if w.west().injector.inFlight() > 0 {
			return
		}
		sleep(w.ctx, 5*time.Millisecond)
	}
}

// turn is one thing that applications or operators do.
func (w *world) turn() {
	rng := w.plan.rng
	trickles := w.publisher.count >= w.plan.messages
	n := rng.IntN(20)
	if trickles {
		n = rng.IntN(80)
	}
	if n < 5 && w.struck.Load() && w.plan.still {
		n = 10
	}
	if n < 5 && !w.struck.Load() {
		w.burstInFlight() // so that what a change of layout brings about hits something
	}
	switch {
	case w.plan.rung.parks() && n%8 == 7:
		w.publisher.locked(rng, 2+rng.IntN(3))
		w.burstInFlight()
	case n < 2:
		w.relayout(w.east())
	case n < 5:
		w.relayout(w.west())
	case n == 5:
		w.prune()
	case n == 6:
		w.publisher.locked(rng, 2+rng.IntN(3))
	case trickles:
		w.publisher.burst(rng, 1+rng.IntN(3))
	default:
		w.publisher.burst(rng, 1+rng.IntN(12))
	}
}

// relayout splits, merges or rebuckets.
func (w *world) relayout(s *side) {
	rng := w.plan.rng
	active := s.layout().Active()
	i := rng.IntN(len(active))
	var err error
	var what string
	switch n := rng.IntN(3); {
	case n == 0 && i+1 < len(active) || len(active) > 5:
		i = min(i, len(active)-2)
		what, err = fmt.Sprintf("merge %d %d", active[i].ID, active[i+1].ID), s.Merge(topicName, active[i].ID, active[i+1].ID)
	case n == 1:
		buckets := 1 + rng.IntN(4)
		what, err = fmt.Sprintf("rebucket %d to %d", active[i].ID, buckets), s.Rebucket(topicName, active[i].ID, buckets)
	default:
		what, err = fmt.Sprintf("split %d", active[i].ID), s.Split(topicName, active[i].ID)
	}
	w.must(err)
	w.note("%s: %s", s.name, what)
}

// prune lets both clusters delete what is drained, once the source's subscription
// is there: before that nobody has asked it to keep anything.
func (w *world) prune() {
	for _, seg := range w.east().layout().Segments() {
		if _, err := w.east().Backlog(seg.Topic(topicName), subscription); err != nil {
			return
		}
	}
	w.collect()
	w.must(w.west().SkipAll(topicName, reader))
	for _, s := range []*side{w.east(), w.west()} {
		n, err := s.Prune(topicName)
		w.must(err)
		if n > 0 {
			w.note("%s: pruned %d", s.name, n)
		}
	}
}

// quiet ends the faults, and what makes the target slow.
func (w *world) quiet() {
	w.note("quiet")
	if !w.struck.Load() {
		w.fallback.Store(true)
	}
	for _, s := range w.sides {
		for _, b := range s.Brokers() {
			b.Resume()
			b.Restart()
		}
	}
	w.calm()
}

// settle waits until everything is copied and acknowledged.
func (w *world) settle(when string) {
	w.t.Helper()
	for deadline := time.Now().Add(bound); ; {
		missing, unacked := w.missing(), w.unacked()
		if len(missing) == 0 && unacked == 0 {
			w.note("all is copied %s", when)
			return
		}
		if time.Now().After(deadline) {
			some := ""
			for _, m := range missing[:min(len(missing), 5)] {
				some += fmt.Sprintf("\n%s: %v", m.text(), w.trail(m))
			}
			w.fatalf("%s: %d messages have not come, %d entries are not acknowledged after %v%s\n%v\n%s", when, len(missing), unacked, bound, some,
				w.copied.wrong, w.boards())
		}
		sleep(w.ctx, time.Second)
	}
}

func (w *world) boards() string {
	out := ""
	for _, i := range w.running() {
		b, err := json.MarshalIndent(i.board.Report(), "", " ")
		w.must(err)
		out += fmt.Sprintf("instance %s: %s\n", i.name, b)
	}
	return out
}

// verdict holds the run to the contract.
func (w *world) verdict(out outcome) {
	w.t.Helper()
	if problems := out.report.Problems(keyorder.Duplicate, keyorder.Rewound); len(problems) > 0 {
		w.errorf("%v", problems)
	}
	if wrong := w.copied.wrong; len(wrong) > 0 {
		w.errorf("%d are where they do not belong: %v", len(wrong), wrong[:min(len(wrong), 5)])
	}
	if twice := out.report.Found[keyorder.Duplicate]; twice > 0 && !out.claim.allows(out) {
		i := slices.IndexFunc(out.report.Findings, func(f keyorder.Finding) bool { return f.Kind == keyorder.Duplicate })
		w.errorf("%d messages came twice, the first %v; of this fault the claim is: %s (undrained sessions: %v)", twice, out.report.Findings[i], out.claim, out.undrained)
	}
}
