package replicate

import (
	"math/rand/v2"
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// faults says what may go wrong in a run of the model.
type faults struct {
	layouts   bool // split, merge and rebucket of the target
	stops     bool // clean stops
	losses    bool // connections cut, unloads: sends and records in doubt
	silence   bool // receipts are lost on a connection that lives
	prunes    bool // drained segments go, at the target and at the source
	thefts    bool // somebody moves the guard: what it should keep is trimmed, or pruned
	crashes   bool // kill -9
	pauses    bool // SIGSTOP; the brokers give the instance up meanwhile, or do not
	handover  bool // another instance becomes active
	rollbacks bool // crashes of the source's broker: its cursor stands where it stood before
	acks      bool // acknowledgements are lost
	once      bool // one crash, and no more
}

func (w *world) faultSteps(f faults) {
	add := func(is bool, percent int, do func()) {
		if is && w.rng.IntN(100) < percent {
			w.may(2, do)
		}
	}
	live := slices.DeleteFunc(slices.Clone(w.holders), (*holder).mute)
	add(f.layouts && w.layout.Epoch < 12, 6, w.change)
	if len(live) > 0 {
		h := live[w.rng.IntN(len(live))]
		add(f.stops, 2, func() { h.do(Event{Kind: evStop}) })
		add(f.handover, 2, func() { w.handOver(h) })
		add(f.losses, 1, func() { w.throw(h) })
	}
	if len(w.lines) > 0 {
		add(f.losses, 6, func() { w.cut(w.lines[w.rng.IntN(len(w.lines))]) })
	}
	add(f.silence, 2, w.forgetReceipt)
	add(f.prunes, 2, w.prune)
	add(f.thefts, 3, w.steal)
	s := w.segments[w.rng.IntN(len(w.segments))]
	add(f.rollbacks && !s.gone, 2, func() { w.rollBack(s) })
	in := w.instances[w.rng.IntN(len(w.instances))]
	up := !in.down && !in.paused
	add(f.crashes && !in.down && (!f.once || !w.crashed), 2, func() {
		w.crashed = true
		in.kill()
	})
	add(f.pauses && up, 3, func() {
		in.paused = true
		w.note("instance %d is paused", in.id)
		w.counts[pauses]++
		w.nap(in)
	})
}

// handOver makes another instance the active one of a segment, or, where there is
// none, tells the only one so.
func (w *world) handOver(h *holder) {
	if s := h.seg; len(w.instances) > 1 {
		s.prefer = append(s.prefer[1:], s.prefer[0])
		w.elect(s)
		return
	}
	h.inbox = append(h.inbox, Event{Kind: evInactive})
}

// forgetReceipt loses an answer, and nothing else.
func (w *world) forgetReceipt() {
	for _, l := range w.lines {
		if len(l.owed) > 0 && (l.owed[0].Kind == evReceipt || l.owed[0].Kind == evRecordStored) {
			l.owed = l.owed[1:]
			return
		}
	}
}

// prune removes sealed target segments that no record lists, and drained source
// segments that have children.
func (w *world) prune() {
	for _, t := range w.order {
		if _, listed := w.floor(t.id); t.sealed && !t.gone && !listed {
			w.remove(t)
		}
	}
	for _, s := range w.segments {
		if s.sealed && !s.gone && s.acked == len(s.entries) && w.rng.IntN(2) == 0 {
			s.gone = true
			for _, h := range slices.Clone(s.attached) {
				w.throw(h)
			}
		}
	}
}

// steal takes away what the guard should keep: all that is stored in a segment, or
// a sealed segment that is listed.
func (w *world) steal() {
	t := w.order[w.rng.IntN(len(w.order))]
	if t.sealed && w.rng.IntN(2) == 0 {
		if !t.gone {
			w.remove(t)
		}
		return
	}
	t.roll()
	t.log, t.begins = nil, t.at.Ledger
}

// change splits, merges or rebuckets one active segment. The seal is clean: what
// was stored is receipted, then the producers are told, and the layout is pushed
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
		w.add(newTopic(targetID(&s)))
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
