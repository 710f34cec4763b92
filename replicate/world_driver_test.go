package replicate

import (
	"fmt"
)

// clientEnd is the driver's side of one target segment.
type clientEnd struct {
	line *line
	op   *operation
}

// operation is a claim or a scan; one that was given up has no effect.
type operation struct{ off bool }

func (h *clientEnd) renew() *operation {
	h.abandon()
	h.op = &operation{}
	return h.op
}
func (h *clientEnd) abandon() {
	if h.op != nil {
		h.op.off = true
	}
}

func (h *holder) write(rec Record) {
	l := h.checkpoint
	if l == nil {
		return // its loss is known
	}
	h.lane().epoch = rec.Epoch
	h.put(l, sent{record: &rec})
}

func (h *holder) send(ef Effect) {
	if t := h.targets[ef.Target]; t != nil && t.line != nil && t.line.gen == ef.Gen {
		h.put(t.line, sent{part: ef.Part})
	}
}

// put sends. What goes to a producer that is gone says so.
func (h *holder) put(l *line, s sent) {
	if l.gone {
		h.local(func() { h.in.w.hear(l, l.loss(h.in.w, errCut)) })
		return
	}
	l.wire = append(l.wire, s)
}

// claimTarget closes the producer before, which brings its last answers, and
// claims the segment.
func (h *holder) claimTarget(ef Effect) {
	t := h.targets[ef.Target]
	if t == nil {
		t = &clientEnd{}
		h.targets[ef.Target] = t
	}
	old, op := t.line, t.renew()
	t.line = nil
	h.local(func() {
		if old != nil {
			for !old.gone && len(old.wire) > 0 {
				h.in.w.arrive(old)
			}
			old.release()
			for len(old.owed) > 0 {
				h.in.w.answer(old)
			}
		}
		h.claim(h.in.w.logs[ef.Target], ef.Gen, op)
	})
}

// claim asks for the producer until it has it: CLAIM(T).
func (h *holder) claim(on *topic, gen int, op *operation) {
	w := h.in.w
	again := func(ev Event) {
		h.local(func() {
			if !op.off {
				h.do(ev)
				h.local(func() { h.claim(on, gen, op) })
			}
		})
	}
	h.remote(func() {
		switch {
		case op.off:
			return
		case on.gone:
			again(Event{Kind: evGone, Target: on.id, Gen: gen, Err: fmt.Errorf("topic not found")})
			return
		case on.sealed:
			h.local(func() {
				if !op.off {
					h.do(Event{Kind: evEnded, Target: on.id, Gen: gen})
				}
			})
			return
		}
		l, busy := w.open(h, on, gen, op)
		if !busy {
			h.local(func() { h.put(l, sent{}) }) // the barrier
			return
		}
		// Whoever is told that the name is busy looks who opened the lane since.
		if (on != w.checkpoint || gen > 1) && h.deposed() && w.rng.IntN(2) == 0 {
			w.counts[depositions]++
			h.local(func() { h.do(Event{Kind: evFailed, Err: errDeposed}) })
			return
		}
		ev := Event{Kind: evTargetTrouble, Target: on.id, Gen: gen, Err: fmt.Errorf("producer busy")}
		if on == w.checkpoint {
			ev = Event{Kind: evCheckpointTrouble, Err: ev.Err}
		}
		again(ev)
	})
}

// answer lets the first answer of a line reach the client.
func (w *world) answer(l *line) {
	ev := l.owed[0]
	l.owed = l.owed[1:]
	w.hear(l, ev)
}

func (w *world) hear(l *line, ev Event) {
	h := l.h
	switch {
	case h.over || h.dead:
	case l.claimed:
		if ev.Kind == evCheckpointLost && h.checkpoint == l {
			h.checkpoint = nil
			h.close(l)
		}
		h.do(ev)
	case l.op.off: // it comes too late
		h.close(l)
	case ev.Kind == evClaimed:
		w.early(l)
		l.claimed, h.targets[ev.Target].line = true, l
		h.do(ev)
	case ev.Kind == evCheckpointClaimed && !h.attached && l.gen == 1:
		h.close(l) // where the subscription stands gets no answer
	case ev.Kind == evCheckpointClaimed:
		w.early(l)
		l.claimed, h.checkpoint = true, l
		if rec, ok := w.records[h.seg.lane]; ok {
			rec = rec.clone()
			ev.Record = &rec
		}
		ev.Begun, ev.Pos = true, h.seg.mark()
		h.do(ev)
	case ev.Kind == evCheckpointLost || ev.Kind == evDoubt: // before the barrier's receipt: the claim is tried on
		if l.failed {
			return
		}
		l.failed, l.owed = true, nil
		on, gen, op := l.on, l.gen, l.op
		h.local(func() { h.claim(on, gen, op) })
	}
}

// early: a loss may be known before the claim that it ends.
func (w *world) early(l *line) {
	if n := len(l.owed); n > 0 && l.gone && w.rng.IntN(2) == 0 {
		loss := l.owed[n-1]
		l.owed = l.owed[:n-1]
		l.h.do(loss)
	}
}

// scan reads, and has the result some time after.
func (h *holder) scan(ef Effect) {
	w, on, op := h.in.w, h.in.w.logs[ef.Target], h.targets[ef.Target].renew()
	h.remote(func() {
		if op.off {
			return
		}
		ev := Event{Kind: evGone, Target: ef.Target, Gen: ef.Gen, Err: fmt.Errorf("topic not found")}
		if !on.gone {
			ev.Kind, ev.Err = evScanned, nil
			ev.Found, ev.Pos = w.read(on, h.seg.lane, ef.From, ef.Pos)
		}
		h.local(func() {
			if op.off {
				return
			}
			h.do(ev)
			if ev.Kind == evGone && !op.off && h.m.targets[ef.Target] != nil && h.m.targets[ef.Target].state == targetScanning {
				h.scan(ef) // the driver goes on trying
			}
		})
	})
}

// close asks the broker to close a line, which happens at once or some time after.
func (h *holder) close(l *line) {
	if l == nil || l.gone {
		return
	}
	if l.closing = true; h.in.w.rng.IntN(2) == 0 {
		h.in.w.end(l)
	}
}
