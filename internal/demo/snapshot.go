package demo

import (
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// snapshot is everything that is shown, at one moment.
type snapshot struct {
	elapsed, limit time.Duration // no limit: 0
	seed           uint64
	phase          string // what goes on after the end of the traffic; "" before
	addresses      *addresses

	published, copied, delivered rated
	guests                       int
	figures                      figures
	order                        keyorder.Report
	changes                      int
	readers                      int

	east, west []pulsartest.Segment // active
	lanes      []laneView
	matrix     map[cell]share
	log        []event // oldest first
}

// rated is a count, and how it grows.
type rated struct {
	n         int
	perSecond float64
}

// event is something that happened.
type event struct {
	at   time.Duration
	who  string // east, west, bridge or reader
	text string
}

// addresses are where a user's own client connects.
type addresses struct{ east, eastAdmin, west, westAdmin string }

// meter makes rates of counts: over the last few samples.
type meter struct {
	samples []sample
}

type sample struct {
	at time.Time
	n  int
}

// meterWindow is what a rate is the mean of.
const meterWindow = 3 * time.Second

func (m *meter) rate(now time.Time, n int) rated {
	m.samples = append(m.samples, sample{now, n})
	for len(m.samples) > 2 && now.Sub(m.samples[0].at) > meterWindow {
		m.samples = m.samples[1:]
	}
	first := m.samples[0]
	if d := now.Sub(first.at).Seconds(); d > 0 {
		return rated{n, float64(n-first.n) / d}
	}
	return rated{n: n}
}
