package demo

import (
	"fmt"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
)

// clock writes a time since the start.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// line is an event on a line of its own.
func (e event) line() string { return fmt.Sprintf("%s %s: %s", clock(e.at), e.who, e.text) }

// line is the state on one line of name=value, for a pipe.
func (s *snapshot) line() string {
	whole, split := shares(s.figures.whole, s.figures.split)
	found := s.order.Found
	return fmt.Sprintf("%s published=%d copied=%d delivered=%d rate=%.0f/s lag=%.2fs whole=%d%% split=%d%% resent=%d "+
		"changes=%d readers=%d out_of_order=%d twice=%d",
		clock(s.elapsed), s.published.n, s.copied.n, s.delivered.n, s.copied.perSecond, s.figures.lag, whole, split, s.figures.rerouted,
		s.changes, s.readers, found[keyorder.OutOfOrder], found[keyorder.Duplicate])
}
