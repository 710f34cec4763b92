package replicate

import (
	"errors"
	"fmt"
	"slices"
)

// option is one thing that can happen now.
type option struct {
	weight int
	do     func()
}

func (w *world) may(weight int, do func()) { w.options = append(w.options, option{weight, do}) }

// step does one of the things that can happen now.
func (w *world) step(f faults) {
	w.steps++
	w.faulty, w.options = f, w.options[:0]
	for _, in := range w.instances {
		w.instanceSteps(in)
	}
	for _, h := range w.holders {
		w.holderSteps(h)
	}
	w.lines = slices.DeleteFunc(w.lines, func(l *line) bool { return l.gone && len(l.owed) == 0 })
	for _, l := range w.lines {
		w.lineSteps(l)
	}
	w.brokerSteps()
	w.faultSteps(f)
	total := 0
	for _, o := range w.options {
		total += o.weight
	}
	if total == 0 {
		return // all are away
	}
	at := w.rng.IntN(total)
	for _, o := range w.options {
		if at -= o.weight; at < 0 {
			o.do()
			return
		}
	}
}

func (w *world) instanceSteps(in *instance) {
	switch {
	case (in.down || in.paused) && w.steps >= in.until:
		w.may(2, func() { in.down, in.paused = false, false })
	case in.down || in.paused:
	default:
		for _, s := range w.segments {
			if l := in.lanes[s.id]; l.h == nil && !l.finished && !s.gone {
				w.may(2, func() { in.start(s) })
			}
		}
	}
}

// holderSteps are what happens in one session, and what its requests do.
func (w *world) holderSteps(h *holder) {
	if n := len(h.there); n > 0 && !h.dead {
		w.may(4, func() {
			i := w.rng.IntN(n)
			do := h.there[i].do
			h.there = slices.Delete(h.there, i, i+1)
			do()
		})
	}
	if h.mute() {
		w.may(1, func() { w.giveUp(h) })
		return
	}
	if n := len(h.here); n > 0 {
		w.may(4, func() {
			i := w.rng.IntN(n)
			do := h.here[i]
			h.here = slices.Delete(h.here, i, i+1)
			do()
		})
	}
	if len(h.inbox) > 0 {
		w.may(4, func() {
			ev := h.inbox[0]
			if h.inbox = h.inbox[1:]; ev.Kind == evBacklog {
				h.asking = false
			}
			h.do(ev)
		})
	}
	if h.pushed != w.layout {
		w.may(1, func() {
			h.pushed = w.layout
			h.do(Event{Kind: evLayout, Layout: w.layout})
		})
	}
	if !h.told && w.parentsDone(h.seg) {
		w.may(2, func() {
			h.told = true
			h.do(Event{Kind: evParentsDone})
		})
	}
	if h.seg.sealed && !h.m.sealed {
		w.may(1, func() { h.do(Event{Kind: evSealed}) })
	}
	w.may(1, func() { h.do(Event{Kind: evTick}) })
	w.patience(h)
}

// patience is what the driver's clock does.
func (w *world) patience(h *holder) {
	if h.m.idle() {
		w.may(1, h.ask)
	}
	if h.m.state == Running && h.attached && w.rng.IntN(10) == 0 {
		w.may(1, func() {
			h.remote(func() {
				if h.attached {
					h.inbox = append(h.inbox, Event{Kind: evMark, Pos: h.seg.mark()})
				}
			})
		})
	}
	quiet := len(h.here)+len(h.there)+len(h.inbox) == 0 && h.pushed == w.layout && (h.seg.active != h || !h.seg.deliverable())
	for _, l := range w.lines {
		quiet = quiet && (l.h != h || len(l.wire)+len(l.owed) == 0)
	}
	if !quiet {
		return
	}
	// Whatever the machine waits for, nobody owes it.
	if h.m.writing && h.checkpoint != nil {
		w.may(1, func() {
			l := h.checkpoint
			h.checkpoint = nil
			h.close(l)
			h.do(l.loss(w, errors.New("no receipt in time")))
		})
	} else if why := h.m.stuck(); why != "" && h.m.state > Standby && len(h.m.entries.queue) > 0 {
		w.may(1, func() { h.do(Event{Kind: evStalled, Err: fmt.Errorf("no progress: %s", why)}) })
	}
}

// giveUp: a broker closes the connection of one that does not answer.
func (w *world) giveUp(h *holder) {
	if h.dead {
		w.bury(h)
		return
	}
	if w.rng.IntN(2) == 0 && h.attached {
		w.throw(h)
		return
	}
	for _, l := range w.lines {
		if l.h == h && !l.closing {
			w.cut(l)
		}
	}
}

func (w *world) lineSteps(l *line) {
	if len(l.wire) > 0 {
		w.may(3, func() { w.arrive(l) })
	}
	if l.closing && !l.gone {
		w.may(2, func() { w.end(l) })
	}
	if len(l.owed) > 0 && (l.h.over || !l.h.mute()) {
		w.may(3, func() { w.answer(l) })
	}
}

func (w *world) brokerSteps() {
	for _, s := range w.segments {
		if s.deliverable() {
			w.may(4, func() { w.deliver(s) })
		}
	}
	for _, s := range w.segments {
		if len(w.checkpoint.limbo[s.lane]) > 0 {
			w.may(1, func() { w.land(w.checkpoint, s.lane) })
		}
		for _, t := range w.order {
			if len(t.limbo[s.lane]) > 0 {
				w.may(1, func() { w.land(t, s.lane) })
			}
		}
	}
	w.may(1, func() {
		if t := w.order[w.rng.IntN(len(w.order))]; w.rng.IntN(2) == 0 && !t.sealed {
			t.roll()
		} else {
			w.trim(t)
		}
	})
}

// calmAfter: whatever has happened by this step, it must come to an end.
const (
	calmAfter = 8_000
	stuckAt   = 40_000
)

// run plays until all is copied.
func (w *world) run(f faults) {
	for w.steps < stuckAt {
		if !slices.ContainsFunc(w.segments, func(s *segment) bool { return !w.done(s) }) {
			return
		}
		calm := f
		if w.steps > calmAfter {
			calm = faults{}
		}
		w.step(calm)
	}
	text := "stuck:"
	for _, s := range w.segments {
		text += fmt.Sprintf(" segment %d: %d of %d acknowledged;", s.id, s.acked, len(s.entries))
	}
	for _, h := range w.holders {
		text += fmt.Sprintf(" instance %d, segment %d: %v, %s;", h.in.id, h.seg.id, h.m.State(), h.m.Why())
	}
	w.t.Fatalf("%s", text)
}
