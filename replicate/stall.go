package replicate

import (
	"fmt"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// stuck says what the lane waits for that nothing else ends: a request has its
// own time-out, and what is tried again and again has its reason. Empty: nothing.
func (m *Machine) stuck() string {
	switch {
	case m.state == Standby && m.told > 0:
		return fmt.Sprintf("the source has a backlog of %d, and nobody copies it", m.told)
	case m.state != Running && m.state != Draining, m.hold != "", m.layout == nil:
		return ""
	case len(m.entries.queue) == 0:
		return m.idleWord()
	}
	first := m.entries.queue[0]
	for _, t := range m.targets {
		for i, p := range t.queue {
			switch {
			case p.entry != first && !m.abandoned: // else the first may never be complete here
			case t.state == targetEnded:
				return fmt.Sprintf("target segment %d is sealed, and no newer layout comes", t.id.Segment)
			case t.state == targetOpen && i < t.sent:
				return fmt.Sprintf("target segment %d gives no receipt", t.id.Segment)
			}
		}
	}
	return ""
}

// idleWord is for a lane that has nothing: only the source's word that there is
// nothing left ends the wait, and onBacklog counts that as progress.
func (m *Machine) idleWord() string {
	if m.untold != nil || m.told == 0 {
		return because("the source does not tell whether it has more", m.untold)
	}
	return fmt.Sprintf("the source has a backlog of %d and delivers nothing", m.told)
}

// hear takes the source's word about its backlog.
func (m *Machine) hear(ev Event) {
	m.untold = ev.Err
	if ev.Err != nil {
		return
	}
	m.told = ev.N
	if ev.N == 0 {
		m.moved++
	}
}

// behindSource reports whether the source has more than was copied. That is known
// while something is in flight, when the source has told so and nothing came since,
// and when what came is copied. In standby it is another instance's concern.
func (m *Machine) behindSource() (behind, known bool) {
	if m.state == Standby {
		return false, true
	}
	behind = len(m.entries.queue) > 0 || m.rest > 0
	return behind, behind || m.state >= Running && m.entries.last != noPosition()
}

// onOthersBacklog: as long as the backlog changes, somebody copies. If it does
// not, the news that this instance is the active one may be lost.
func (m *Machine) onOthersBacklog(ev Event) {
	before := m.told
	if m.hear(ev); m.told != before {
		m.moved++
	}
}

// onStalled opens the lane anew. What has no receipt by now may be stored.
func (m *Machine) onStalled(ev Event) {
	if m.state == Running && len(m.entries.queue) == 0 {
		m.result.Err = ev.Err
		m.drain()
		return
	}
	m.close(Result{Err: ev.Err, Clean: m.state < Recording})
}

// patience is the driver's clock: how long the machine has been stuck.
type patience struct {
	moved     uint64
	since     time.Time
	refreshed bool
}

// watch looks whether the lane is stuck, and whether a record has been without
// its receipt for too long. It runs in the driver.
func (s *session) watch() {
	now, limit := time.Now(), s.lane.env.StallTimeout
	if s.machine.writing && s.checkpoint != nil && !s.tally.proving && now.Sub(s.wrote) > s.lane.env.Target.Client.OperationTimeout() {
		s.wrote = now
		s.loseCheckpoint(s.checkpointGen, fmt.Errorf("record: %w", pulsar.ErrTimeout))
	}
	p, why := &s.patience, s.machine.stuck()
	if s.machine.idle() || s.machine.state == Standby {
		s.ask()
	}
	if why == "" || p.moved != s.machine.moved {
		*p = patience{moved: s.machine.moved, since: now}
		return
	}
	switch waited := now.Sub(p.since); {
	case waited >= limit:
		*p = patience{moved: s.machine.moved, since: now}
		s.step(Event{Kind: evStalled, Err: fmt.Errorf("no progress for %v: %s", limit, why)})
	case waited >= limit/2 && !p.refreshed:
		p.refreshed = true
		s.lane.env.Target.Layout.Refresh() // a lost update looks like a seal without end
	}
}

// watchInterval is how often a lane is looked at.
func watchInterval(stall time.Duration) time.Duration {
	return max(min(stall/4, beatInterval), 100*time.Millisecond)
}
