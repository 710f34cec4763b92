package replicate

import (
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// segment is a source segment, with the subscription on it, as its broker has it.
type segment struct {
	id      int
	lane    string // N(L)
	rng     reroute.HashRange
	parents []int
	sealed  bool // it has children, and all of it was there from the start
	gone    bool // pruned
	entries []*entry
	acked   int // entries up to the mark-delete position
	read    int // entries that the active consumer was given, or that are acknowledged

	attached []*holder
	active   *holder
	prefer   []int // instances, as the broker's hash of their names orders them
}

// mark is the subscription's mark-delete position.
func (s *segment) mark() Position { return Position{Ledger: 7, Entry: int64(s.acked) - 1} }

// attach is SUBSCRIBE.
func (w *world) attach(h *holder) {
	h.attached = true
	h.inbox = append(h.inbox, Event{Kind: evSubscribed})
	h.seg.attached = append(h.seg.attached, h)
	w.elect(h.seg)
	if h.seg.active != h {
		h.inbox = append(h.inbox, Event{Kind: evInactive})
	}
}

// detach: the broker forgets a consumer.
func (w *world) detach(h *holder) {
	if !h.attached {
		return
	}
	h.attached = false
	s := h.seg
	s.attached = slices.DeleteFunc(s.attached, func(o *holder) bool { return o == h })
	if s.active == h {
		s.active = nil
	}
	w.elect(s)
}

// throw is detach as the client hears of it, some time.
func (w *world) throw(h *holder) {
	w.detach(h)
	if w.without != deafOwner {
		h.inbox = append(h.inbox, Event{Kind: evSourceClosed, Err: errCut})
	}
}

// elect makes the consumer active that comes first, and tells those whom it
// concerns. What was delivered and is not acknowledged is delivered again.
func (w *world) elect(s *segment) {
	if len(s.attached) == 0 {
		return
	}
	first := slices.MinFunc(s.attached, func(a, b *holder) int {
		return slices.Index(s.prefer, a.in.id) - slices.Index(s.prefer, b.in.id)
	})
	if first == s.active {
		return
	}
	if s.active != nil && w.without != deafOwner {
		s.active.inbox = append(s.active.inbox, Event{Kind: evInactive})
	}
	s.active, s.read = first, s.acked
	first.inbox = append(first.inbox, Event{Kind: evActive})
}

func (s *segment) deliverable() bool {
	return s.active != nil && s.active.permits > 0 && s.read < len(s.entries)
}

// deliver sends the next entry to the active consumer.
func (w *world) deliver(s *segment) {
	h, e := s.active, s.entries[s.read]
	s.read++
	h.permits -= e.messages()
	// Each delivery is a copy of its own.
	h.inbox = append(h.inbox, Event{Kind: evEntry, Entry: &entry{pos: e.pos, raw: e.raw, info: e.info}})
}

// ack is ACK, of whatever consumer is attached: the active one or one that was.
func (w *world) ack(h *holder, pos Position) {
	switch {
	case !h.attached:
		return // the news is on its way
	case w.faulty.acks && w.rng.IntN(4) == 0:
		h.inbox = append(h.inbox, Event{Kind: evAcked, Err: errCut})
		return
	}
	h.seg.acked = max(h.seg.acked, int(pos.Entry)+1)
	h.seg.read = max(h.seg.read, h.seg.acked)
	h.inbox = append(h.inbox, Event{Kind: evAcked})
}

// ask is CONSUMER_STATS.
func (h *holder) ask() {
	if h.asking {
		return
	}
	h.asking = true
	sealed, early := h.m.sealed, !h.m.quiet()
	h.remote(func() {
		if h.attached {
			h.inbox = append(h.inbox, Event{Kind: evBacklog, N: int64(len(h.seg.entries) - h.seg.acked), Sealed: sealed, Early: early})
		}
	})
}

// rollBack is the source broker's crash: what it had not written of the mark-delete
// position is forgotten, and so is who was attached.
func (w *world) rollBack(s *segment) {
	if s.acked > 0 {
		w.counts[rolledBack]++
		s.acked = w.rng.IntN(s.acked)
	}
	for _, h := range slices.Clone(s.attached) {
		w.throw(h)
	}
}

// parentsDone: each parent's record says finished, or it has left the layout.
func (w *world) parentsDone(s *segment) bool {
	for _, p := range s.parents {
		parent := w.segments[p]
		if !parent.gone && !w.records[parent.lane].Finished && w.without != eagerChild {
			return false
		}
	}
	return true
}

// done reports whether nothing of the segment is left to copy. A lane that has
// finished is not opened again by the instance that finished it.
func (w *world) done(s *segment) bool {
	return s.gone || s.acked == len(s.entries) || w.records[s.lane].Finished
}
