package ladder

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
)

// TestSoak runs for GEOBRIDGE_SOAK: seeds one after the other, and between them
// one long-lived bridge, on real time, under one fault after the other. It ends
// with a summary, as Ctrl-C does.
func TestSoak(t *testing.T) {
	text := os.Getenv("GEOBRIDGE_SOAK")
	if text == "" {
		t.Skip("make soak FOR=1h")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	ctx, end := context.WithTimeout(ctx, d)
	defer end()
	s := &soak{t: t, began: time.Now(), sum: newSummary()}
	p := newPlan(uint64(s.began.UnixNano()) >> 20)
	p.rung, p.prunes = rung{fault: event}, true
	s.world = newWorld(t, p)
	s.world.real = true
	s.world.start("one")
	for seed := uint64(s.began.Unix()) * 1000; ctx.Err() == nil && !t.Failed(); {
		s.cycle(ctx)
		for until := time.Now().Add(30 * time.Second); ctx.Err() == nil && time.Now().Before(until); seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Cleanup(func() { s.sum.ended(t.Failed(), seed) })
				run(t, seed, func(_ *world, out outcome) { s.sum.add(out) })
			})
		}
		s.measure()
	}
	s.finish()
}

// soak is the long-lived bridge, and what was measured.
type soak struct {
	t      *testing.T
	world  *world
	began  time.Time
	sum    *summary
	faults int
	marks  []mark
}

// mark is what the process held while nothing was going on.
type mark struct {
	heap       uint64 // in use, after a collection
	goroutines int
}

// cycle is half a minute of faults at the long-lived bridge, and the wait until
// all is copied.
func (s *soak) cycle(ctx context.Context) {
	w := s.world
	for until := time.Now().Add(30 * time.Second); ctx.Err() == nil && time.Now().Before(until); {
		s.fault()
		for pause := time.Now().Add(3 * time.Second); ctx.Err() == nil && time.Now().Before(pause); {
			w.turn()
			sleep(ctx, 100*time.Millisecond)
		}
	}
	for _, side := range w.sides {
		side.injector.disarm()
		for _, b := range side.Brokers() {
			b.Resume()
			b.Restart()
		}
	}
	w.publisher.burst(w.plan.rng, 20)
	w.settle("in a soak")
	w.prune()
	w.publisher.forget()
	w.judge()
	w.forget()
}

// fault lets one rung strike at the long-lived bridge: at the next match.
func (s *soak) fault() {
	w, all := s.world, rungs()
	r := all[w.plan.rng.IntN(len(all))]
	if r.point == "storm" || r.point == "nothing" {
		return // that is what goes on here, or not
	}
	s.faults++
	if r.fault != event {
		w.plan.held = min(w.plan.held, time.Second)
		w.sides[r.side].injector.arm(r)
		return
	}
	w.note("%v", r)
	if r.point == "join" || r.point == "hand-over" {
		w.does("hand-over", w.sides[r.side])
		w.running()[0].stop()
		w.start("one")
		return
	}
	w.does(r.point, w.sides[r.side])
}

func (s *soak) measure() {
	w := s.world
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.marks = append(s.marks, mark{mem.HeapAlloc, runtime.NumGoroutine()})
	r := w.check.Report()
	fmt.Fprintf(os.Stderr, "%8s  seeds %d, failed %d; long-lived: %d faults, %v; heap %d KiB, goroutines %d\n",
		time.Since(s.began).Round(time.Second), s.sum.runs, len(s.sum.failed), s.faults, r, mem.HeapAlloc>>10, runtime.NumGoroutine())
	if problems := r.Problems(keyorder.Duplicate, keyorder.Rewound); len(problems) > 0 {
		w.errorf("%v", problems)
	}
}

// finish ends the bridge, and prints the summary.
func (s *soak) finish() {
	w := s.world
	for _, i := range w.running() {
		i.stop()
	}
	w.close()
	for _, line := range s.sum.lines() {
		fmt.Fprintln(os.Stderr, line)
	}
	fmt.Fprintln(os.Stderr, s.growth())
	if grew := s.grows(); grew != "" {
		s.t.Error(grew)
	}
}

// quarters are the first and the last quarter of the marks, without the first
// ones, in which everything is used for the first time.
func (s *soak) quarters() (first, last []mark) {
	marks := s.marks[min(len(s.marks)/10+1, len(s.marks)):]
	n := len(marks) / 4
	return marks[:n], marks[len(marks)-n:]
}

func least(marks []mark) (m mark) {
	m = marks[0]
	for _, o := range marks {
		m.heap, m.goroutines = min(m.heap, o.heap), min(m.goroutines, o.goroutines)
	}
	return m
}

// grows compares the least of the first quarter with the least of the last one:
// what is held for good shows there, what comes and goes does not.
func (s *soak) grows() string {
	first, last := s.quarters()
	if len(first) == 0 {
		return ""
	}
	a, b := least(first), least(last)
	if b.heap > 2*a.heap+16<<20 {
		return fmt.Sprintf("heap in use grew from %d to %d KiB", a.heap>>10, b.heap>>10)
	}
	if b.goroutines > a.goroutines+a.goroutines/2+50 {
		return fmt.Sprintf("goroutines grew from %d to %d", a.goroutines, b.goroutines)
	}
	return ""
}

func (s *soak) growth() string {
	first, last := s.quarters()
	if len(first) == 0 {
		return "too short to tell whether memory grows"
	}
	a, b := least(first), least(last)
	return fmt.Sprintf("heap in use %d KiB in the first quarter, %d in the last; goroutines %d, %d", a.heap>>10, b.heap>>10, a.goroutines, b.goroutines)
}

// forget lets go of producers on segments that take no more.
func (p *publisher) forget() {
	var live []string
	for _, s := range p.w.east().layout().Active() {
		live = append(live, s.Topic(topicName))
	}
	for topic, o := range p.outlets {
		if !slices.Contains(live, topic) {
			_ = o.Close(p.w.ctx)
			delete(p.outlets, topic)
		}
	}
}
