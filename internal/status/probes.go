package status

import "fmt"

// A Verdict is the answer of a probe, with a line for everything that a person should know.
type Verdict struct {
	OK    bool
	Lines []string
}

// Health is the liveness of the process: every part that ticks has ticked within [TickLimit]. It never looks at the
// network, so that an outage elsewhere restarts nothing here.
func (b *Board) Health() Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	silent := b.silentLocked()
	v := Verdict{OK: len(silent) == 0}
	for _, part := range silent {
		v.Lines = append(v.Lines, fmt.Sprintf("%s has not ticked for %v", part, b.now().Sub(b.ticks[part]).Round(1e9)))
	}
	return v
}

// Readiness is true once each cluster was connected and authenticated to, and each mapping runs or shows its reason.
// It stays true from then on, except while stopping: a target that stalls later must not block a roll-out or take the
// status away. The lines list what does not run, and why, whether ready or not.
func (b *Board) Readiness() Verdict {
	r := b.Report()
	v := Verdict{OK: r.Ready}
	if r.Stopping {
		v.Lines = append(v.Lines, "stopping")
	}
	for _, c := range r.Clusters {
		if c.State != Connected {
			v.Lines = append(v.Lines, line("cluster "+c.Name, string(c.State), c.Reason))
		}
	}
	for _, m := range r.Mappings {
		if m.State != Running {
			v.Lines = append(v.Lines, line("mapping "+m.Name, string(m.State), m.Reason))
		}
		for _, l := range m.Lanes {
			if l.State != Running && (l.State != m.State || l.Reason != m.Reason) {
				v.Lines = append(v.Lines, line("mapping "+m.Name+" lane "+l.ID, string(l.State), l.Reason))
			}
		}
	}
	return v
}

func line(what, state, reason string) string {
	if reason == "" {
		return what + ": " + state
	}
	return what + ": " + state + ": " + reason
}

// readyLocked judges r, and latches.
func (b *Board) readyLocked(r Report) bool {
	if !b.latched {
		b.latched = settled(r)
	}
	return b.latched && !r.Stopping
}

func settled(r Report) bool {
	for _, c := range r.Clusters {
		if !c.EverConnected {
			return false
		}
	}
	for _, m := range r.Mappings {
		if m.State == Starting || m.State != Running && m.State != Standby && m.Reason == "" {
			return false
		}
	}
	return true
}
