package replicate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/geobridge/geobridge/reroute"
)

// faults says what may go wrong in a run of the model.
type faults struct {
	layouts  bool // split, merge and rebucket of the target
	stops    bool // clean stops
	losses   bool // connections cut, unloads: sends in doubt
	silence  bool // receipts are lost on a connection that lives
	prunes   bool // sealed target segments go
	thefts   bool // somebody moves the guard: what it should keep is trimmed, or pruned
	crashes  bool // kill -9
	handover bool // another instance becomes active
	once     bool // one crash, and no more
}

// step does one of the things that can happen now.
func (w *world) step(f faults) {
	var options []func()
	add := func(weight int, do func()) {
		for range weight {
			options = append(options, do)
		}
	}
	if n := len(w.pending); n > 0 {
		add(4, func() {
			i := w.rng.IntN(n)
			do := w.pending[i]
			w.pending = slices.Delete(w.pending, i, i+1)
			do()
		})
	}
	if w.permits > 0 && w.given < len(w.source) {
		add(4, w.deliver)
	}
	if len(w.writing) > 0 && w.checkpoint {
		add(2, func() {
			rec := w.writing[0].clone()
			w.writing = w.writing[1:]
			w.record = &rec
			w.do(Event{Kind: evRecordStored, Gen: w.claimGen})
		})
	}
	for _, l := range w.sorted() {
		if len(l.inbox) > 0 {
			add(3, func() { w.arrive(l) })
		}
		if len(l.owed) > 0 {
			add(3, func() { w.answer(l) })
		}
	}
	if w.pushed != w.layout {
		add(1, func() {
			w.pushed = w.layout
			w.do(Event{Kind: evLayout, Layout: w.layout})
		})
	}
	add(1, func() { w.do(Event{Kind: evTick}) })
	if w.silent() && w.m.stuck() != "" {
		add(1, func() { w.do(Event{Kind: evStalled, Err: fmt.Errorf("no progress: %s", w.m.stuck())}) })
	}
	w.faults(f, func(percent int, do func()) {
		if w.rng.IntN(100) < percent {
			add(2, do)
		}
	})
	options[w.rng.IntN(len(options))]()
}

func (w *world) faults(f faults, add func(int, func())) {
	if f.layouts && w.layout.Epoch < 12 {
		add(6, w.change)
	}
	if f.stops {
		add(2, func() { w.do(Event{Kind: evStop}) })
	}
	if f.handover {
		add(2, func() { w.do(Event{Kind: evInactive}) })
	}
	if f.silence {
		add(2, w.forgetReceipt)
	}
	if f.prunes {
		add(2, w.prune)
	}
	if f.thefts {
		add(3, w.steal)
	}
	if f.losses {
		add(4, w.lose)
		add(2, w.loseCheckpoint)
	}
	if f.crashes && (!f.once || !w.lossy) {
		add(2, func() {
			w.lossy = true
			w.result = &Result{}
		})
	}
}

// silent: whatever the machine waits for, nobody owes it. That is what stall_timeout
// stands for.
func (w *world) silent() bool {
	for _, l := range w.logs {
		if len(l.inbox)+len(l.owed) > 0 {
			return false
		}
	}
	return len(w.pending)+len(w.writing) == 0 && w.pushed == w.layout && (w.permits <= 0 || w.given == len(w.source))
}

// forgetReceipt loses an answer, and nothing else.
func (w *world) forgetReceipt() {
	for _, l := range w.sorted() {
		if len(l.owed) > 0 && l.owed[0].Kind == evReceipt {
			l.owed = l.owed[1:]
			w.lossy = true
			return
		}
	}
}

// prune removes a sealed segment. What the machine did not list there, or has
// settled, is all that may go.
func (w *world) prune() {
	for _, l := range w.sorted() {
		lists := func(rec Record) bool { return rec.floor(l.id) != nil }
		if l.sealed && !l.gone && (w.record == nil || !lists(*w.record)) && !slices.ContainsFunc(w.writing, lists) {
			l.gone = true
			w.forget(l.id)
		}
	}
}

// steal takes away what the guard should keep: all that is stored in a segment, or
// a sealed segment that is listed.
func (w *world) steal() {
	logs := w.sorted()
	l := logs[w.rng.IntN(len(logs))]
	if l.sealed && w.rng.IntN(2) == 0 {
		if l.inbox = nil; !l.gone {
			l.gone = true
			w.forget(l.id)
		}
		return
	}
	l.rolls, l.log = l.rolls+1, nil
}

// forget takes a pruned segment out of the layout.
func (w *world) forget(id TargetID) {
	var segs []reroute.Segment
	for _, s := range w.layout.Segments() {
		if targetID(s) == id {
			continue
		}
		c := *s
		c.Parents = slices.DeleteFunc(slices.Clone(c.Parents), func(p uint64) bool { return p == id.Segment })
		segs = append(segs, c)
	}
	w.layout = mustLayout(w.t, w.layout.Epoch+1, segs...)
}

func (w *world) sorted() []*targetLog {
	var all []*targetLog
	for _, l := range w.logs {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *targetLog) int { return int(a.id.Segment) - int(b.id.Segment) })
	return all
}

func (w *world) deliver() {
	e := w.source[w.given]
	w.given++
	w.permits -= e.messages()
	// Each delivery is a copy of its own.
	w.do(Event{Kind: evEntry, Entry: &entry{pos: e.pos, raw: e.raw, info: e.info}})
}

// lose cuts the connection to one target segment: what is on the wire may or
// may not arrive, and no answer comes.
func (w *world) lose() {
	logs := w.sorted()
	l := logs[w.rng.IntN(len(logs))]
	if l.gen < 0 {
		return
	}
	for n := w.rng.IntN(len(l.inbox) + 1); n > 0 && len(l.inbox) > 0; n-- {
		w.arrive(l)
	}
	gen := l.gen
	l.owed, l.gen, l.closed = nil, -1, true
	w.do(Event{Kind: evDoubt, Target: l.id, Gen: gen, Err: fmt.Errorf("connection lost")})
}

// loseCheckpoint cuts the connection to the checkpoint topic; a record on the
// wire may be stored, without an answer.
func (w *world) loseCheckpoint() {
	if !w.checkpoint {
		return
	}
	w.checkpoint = false
	if len(w.writing) > 0 && w.rng.IntN(2) == 0 {
		rec := w.writing[0].clone()
		w.record = &rec
	}
	w.writing = nil
	w.do(Event{Kind: evCheckpointLost, Gen: w.claimGen, Err: fmt.Errorf("connection lost")})
}

// change splits, merges or rebuckets one active segment. The seal is clean: what
// was stored is receipted, then the producer is told, and the layout is pushed
// at some time after.
func (w *world) change() {
	active := w.layout.Active()
	i := w.rng.IntN(len(active))
	ends := []*reroute.Segment{active[i]}
	var ranges []reroute.HashRange
	r := active[i].Range
	switch {
	case w.rng.IntN(3) == 0 && i+1 < len(active):
		ends = append(ends, active[i+1])
		ranges = []reroute.HashRange{{Start: r.Start, End: active[i+1].Range.End}}
	case w.rng.IntN(2) == 0 && r.End > r.Start && len(active) < 6:
		mid := r.Start + (r.End-r.Start)/2
		ranges = []reroute.HashRange{{Start: r.Start, End: mid}, {Start: mid + 1, End: r.End}}
	default:
		ranges = []reroute.HashRange{r}
	}
	var segs []reroute.Segment
	for _, s := range w.layout.Segments() {
		c := *s
		if slices.Contains(ends, s) {
			c.Sealed = true
		}
		segs = append(segs, c)
	}
	for _, rg := range ranges {
		s := reroute.Segment{ID: w.nextID, Range: rg, CreatedAtMs: int64(w.nextID + 1), Splits: randomSplits(w.rng)}
		for _, e := range ends {
			s.Parents = append(s.Parents, e.ID)
		}
		w.nextID++
		segs = append(segs, s)
		w.logs[targetID(&s)] = &targetLog{id: targetID(&s), gen: -1}
	}
	w.layout = mustLayout(w.t, w.layout.Epoch+1, segs...)
	for _, e := range ends {
		w.seal(w.logs[targetID(e)])
	}
}

func randomSplits(rng *rand.Rand) []uint16 {
	var out []uint16
	for _, at := range []uint16{0x2000, 0x8000, 0xc000} {
		if rng.IntN(2) == 0 {
			out = append(out, at)
		}
	}
	return out
}

func (w *world) seal(l *targetLog) {
	l.sealed = true
	if l.gen < 0 {
		return
	}
	gen := l.gen
	l.owed = append(l.owed, Event{Kind: evDoubt, Target: l.id, Gen: gen, Err: fmt.Errorf("closed by the broker")})
	for range w.rng.IntN(3) { // some of the rest is refused, in any order
		l.owed = append(l.owed, Event{Kind: evDoubt, Target: l.id, Gen: gen, Err: fmt.Errorf("terminated")})
	}
}

// run plays until all is copied; it returns the number of steps.
func (w *world) run(f faults) int {
	w.open()
	for n := range 200_000 {
		if w.result != nil {
			if w.result.Clean {
				w.counts.clean++
			}
			w.open()
		}
		if w.acked == len(w.source) {
			return n
		}
		calm := f
		if n > 50_000 {
			calm = faults{} // whatever happened, it must come to an end
		}
		w.step(calm)
	}
	w.t.Fatalf("stuck: %d of %d entries acknowledged, state %v, %s", w.acked, len(w.source), w.m.State(), w.m.Why())
	return 0
}

// check compares what the target holds with what the source held.
func (w *world) check(once bool) {
	want := map[string]int{}
	for _, e := range w.source {
		for _, m := range messagesOf(w.t, &part{entry: e}) {
			want[m.key] = max(want[m.key], m.seq)
		}
	}
	last, twice := map[string]int{}, 0
	for _, m := range w.stored {
		switch {
		case m.seq == last[m.key]+1:
			last[m.key] = m.seq
		case m.seq <= last[m.key]:
			twice++
		default:
			w.t.Fatalf("%s: %d came after %d", m.key, m.seq, last[m.key])
		}
	}
	for key, n := range want {
		if last[key] != n {
			w.t.Fatalf("%s: %d of %d arrived", key, last[key], n)
		}
	}
	switch {
	case once && twice > 0:
		w.t.Fatalf("%d messages arrived twice", twice)
	case twice > 0 && w.counts.lost == 0:
		w.t.Fatalf("%d messages arrived twice, and nobody says that evidence was lost", twice)
	}
}

func TestModel(t *testing.T) {
	rows := []struct {
		name   string
		faults faults
		once   bool // nothing may be doubled
	}{
		{"calm", faults{}, true},
		{"layouts", faults{layouts: true}, true},
		{"clean stops", faults{layouts: true, stops: true}, true},
		{"hand-overs", faults{stops: true, handover: true}, true},
		{"pruned segments", faults{layouts: true, prunes: true}, true},
		{"silence", faults{layouts: true, silence: true, prunes: true}, true},
		{"losses", faults{layouts: true, losses: true}, true},
		{"hand-overs under layouts", faults{layouts: true, handover: true}, true},
		{"one crash", faults{layouts: true, crashes: true, once: true}, true},
		{"crashes", faults{layouts: true, crashes: true, losses: true, silence: true, prunes: true, stops: true, handover: true}, true},
		{"thefts", faults{layouts: true, crashes: true, losses: true, thefts: true, prunes: true, stops: true, handover: true}, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			runs, first := modelRuns(t), rand.Uint64()
			if s := os.Getenv("GEOBRIDGE_SEED"); s != "" {
				seed, err := strconv.ParseUint(s, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				runs, first = 1, seed
			}
			reroutes, sessions := 0, 0
			for i := range runs {
				seed := first + uint64(i)
				w := newWorld(failWith{t, seed}, seed)
				w.publish(40)
				w.run(row.faults)
				w.check(row.once)
				reroutes += w.counts.reroutes
				sessions += w.counts.sessions
			}
			t.Logf("%d runs from seed %d: %d sessions, %d parts rerouted", runs, first, sessions, reroutes)
			if row.faults.layouts && reroutes == 0 && runs > 1 {
				t.Error("no seal hit a part in flight: the model proves nothing")
			}
		})
	}
}

// modelRuns is how many schedules each row tries: GEOBRIDGE_MODEL_RUNS, or few
// enough for every day.
func modelRuns(t *testing.T) int {
	s := os.Getenv("GEOBRIDGE_MODEL_RUNS")
	if s == "" {
		return 300
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// failWith names the seed of a failing run.
type failWith struct {
	testing.TB
	seed uint64
}

func (f failWith) Fatalf(format string, args ...any) {
	f.Helper()
	f.TB.Fatalf("GEOBRIDGE_SEED=%d: %s", f.seed, fmt.Sprintf(format, args...))
}
