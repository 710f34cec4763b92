package replicate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// What made a gap: the label reason of source_gaps_total.
const (
	gapExpired      = "expired"      // the subscription was moved over it: a TTL, an evicting quota, or an operator
	gapTruncated    = "truncated"    // it is not there any more
	gapUnsubscribed = "unsubscribed" // the subscription was deleted
	gapRecreated    = "recreated"    // the topic was deleted
)

func gapReasons() []string {
	return []string{gapExpired, gapTruncated, gapUnsubscribed, gapRecreated}
}

// hole is a stretch of the source segment that was not delivered: above after, up
// to and with upTo. Nearly always it holds only markers, or aborted entries.
type hole struct {
	after, upTo Position
	opening     bool     // between the record's frontier and the subscription
	seen        Position // the last entry that the record knows to exist

	// What was found there:
	entries int  // for the target, delivered to nobody
	trimmed bool // some of it, perhaps nothing, is not there any more
}

// gap says why data was gone before it was copied; empty: nothing is known to be.
// A subscription that has acknowledged a whole ledger is moved on by the broker, so
// that a trimmed stretch alone proves nothing.
func (h hole) gap(unsubscribed bool) string {
	switch {
	case h.entries == 0 && !h.trimmed:
		return ""
	case unsubscribed:
		return gapUnsubscribed
	case h.entries > 0 && !h.trimmed:
		return gapExpired
	case h.entries > 0, h.seen.Compare(h.after) > 0:
		return gapTruncated
	}
	return ""
}

func (h hole) String() string {
	if h.trimmed {
		return fmt.Sprintf("at least %d entries after %v, up to %v", h.entries, h.after, h.upTo)
	}
	return fmt.Sprintf("%d entries after %v, up to %v", h.entries, h.after, h.upTo)
}

// skips reports whether something may lie between two entries delivered one after
// the other: in one ledger, or at the end of the first one's.
func skips(a, b Position) bool { return b.Ledger != a.Ledger || b.Entry > a.Entry+1 }

// beginAt is told where the subscription stands when the lane opens. What lies
// between that and the frontier was acknowledged by somebody else.
func (m *Machine) beginAt(mark Position) {
	m.through = mark
	after := m.record.Frontier
	if p := m.record.Passed; p != nil && p.Compare(after) > 0 {
		after = *p
	}
	if mark != noPosition() && after.Compare(mark) > 0 {
		m.through = after // it is acknowledged up to there when the record is stored
	}
	if mark.Compare(after) <= 0 || after == noPosition() && (m.cfg.FromLatest || mark.Entry < 0) {
		m.sought = true
		return
	}
	h := hole{after: after, upTo: mark, opening: true, seen: noPosition()}
	if m.record.Seen != nil {
		h.seen = *m.record.Seen
	}
	m.look(h)
}

// look has a hole looked into. With on_gap: stop nothing behind it is begun before.
func (m *Machine) look(h hole) {
	m.looking++
	m.emit(Effect{Kind: efLook, Hole: h})
}

// follows looks at the place of an entry that was just delivered.
func (m *Machine) follows(pos Position) {
	if pos.Compare(m.through) <= 0 {
		return
	}
	if m.through != noPosition() && skips(m.through, pos) {
		m.look(hole{after: m.through, upTo: below(pos), seen: noPosition()})
	}
	m.through = pos
}

// onMark hears where the subscription stands: beyond what was delivered, it was
// moved, or passed markers.
func (m *Machine) onMark(ev Event) {
	if m.through == noPosition() || ev.Pos.Compare(m.through) <= 0 {
		return
	}
	m.look(hole{after: m.through, upTo: ev.Pos, seen: noPosition()})
	m.through = ev.Pos
}

// onLooked knows what was in a hole.
func (m *Machine) onLooked(ev Event) {
	m.looking--
	h := ev.Hole
	if reason := h.gap(m.cfg.Unsubscribed && h.opening); reason != "" {
		ef := Effect{Kind: efGap, N: 1, Reason: reason, Why: fmt.Sprintf("source data was gone before it was copied (%s): %v", reason, h)}
		if h.opening && m.cfg.Accept {
			ef.N, ef.Why = 0, "accepted: "+ef.Why
		} else if m.cfg.StopGap {
			m.hold, m.loss = ef.Why+gapRemedy, true
		}
		m.emit(ef)
		if m.hold != "" {
			return
		}
	}
	m.sought = m.sought || h.opening
	if p := m.record.Passed; p == nil || h.upTo.Compare(*p) > 0 {
		m.record.Passed = &h.upTo
		m.dirty = true
	}
	m.progress()
}

const gapRemedy = "; go on without it by `geobridge resume MAPPING --accept-gap`, or set on_gap: continue"

// inspect reads a hole, and leaves nothing behind.
func (s *session) inspect(ctx context.Context, h hole) (hole, error) {
	client := s.lane.env.Source.Client
	begins, err := beginning(ctx, client, s.lane.topic)
	if err != nil {
		return h, err
	}
	h.trimmed = h.after != noPosition() && begins.Ledger > h.after.Ledger
	rules := &s.machine.cfg.Rules
	sc := newScanner(h.upTo, func(m pulsar.Message) {
		_, skip := rules.Skips(&m.Info, m.Entry.Metadata)
		if m.ID.Compare(h.after) > 0 && m.ID.Compare(h.upTo) <= 0 && (m.Err != nil || !skip) {
			h.entries++
		}
	})
	start := h.after
	if h.trimmed {
		start = pulsar.Earliest()
	}
	err = sc.read(ctx, client, s.lane.topic, "look", start)
	return h, err
}

// lookInto looks into a hole beside the driver, for as long as it takes.
func (s *session) lookInto(h hole) {
	s.op(func(ctx context.Context) {
		wait := newBackoff()
		for {
			found, err := s.inspect(ctx, h)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil, notFound(err): // pruned or deleted: told otherwise
				if found.trimmed && found.gap(false) == "" && h.opening {
					s.log.Warn("what followed the frontier is not there any more; that is so after any reload of a drained segment, and nothing tells whether something was lost",
						"after", h.after, "stands", h.upTo)
				}
				s.box.post(Event{Kind: evLooked, Hole: found})
				return
			}
			s.log.Warn("cannot look into what was not delivered, trying again", "after", h.after, "to", h.upTo, "error", err)
			pause(ctx, wait.NextBackOff())
		}
	})
}

// mark asks where the source subscription stands; no position where the broker
// does not tell.
func (s *session) mark(ctx context.Context) (Position, error) {
	p, err := markOf(ctx, s.source)
	if errors.Is(err, errNoMark) {
		s.log.Debug("gaps cannot be noticed", "error", err)
		err = nil
	}
	return p, err
}

// markInterval is how often a lane asks where its subscription stands.
const markInterval = 30 * time.Second

// askMark asks, now and then, whether the subscription was moved.
func (s *session) askMark(now time.Time) {
	if s.machine.state != Running || now.Sub(s.marked) < markInterval {
		return
	}
	s.marked = now
	s.op(func(ctx context.Context) {
		if p, err := s.mark(ctx); err == nil {
			s.box.post(Event{Kind: evMark, Pos: p})
		}
	})
}
