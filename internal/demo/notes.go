package demo

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// keptEvents is how many events are kept for the view.
const keptEvents = 100

// notes is what happened, in order. It is safe for concurrent use, and a
// slog.Handler for what the bridge warns of.
type notes struct {
	began time.Time

	mu      sync.Mutex
	events  []event
	total   int // ever
	changes int // of layouts
}

func (n *notes) add(who, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.total++
	n.events = append(n.events, event{time.Since(n.began), who, text})
	if len(n.events) > 2*keptEvents {
		n.events = slices.Clone(n.events[keptEvents:])
	}
}

// changed notes changes of a side's layout.
func (n *notes) changed(s *side, all []change) {
	for _, c := range all {
		n.add(s.name, c.text)
		if !c.pruned {
			n.mu.Lock()
			n.changes++
			n.mu.Unlock()
		}
	}
}

// since returns the events after the first seen ones, and how many there were
// ever.
func (n *notes) since(seen int) ([]event, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fresh := min(n.total-seen, len(n.events))
	return slices.Clone(n.events[len(n.events)-fresh:]), n.total
}

func (n *notes) layoutChanges() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes
}

// Enabled implements slog.Handler.
func (n *notes) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements slog.Handler.
func (n *notes) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "reason" {
			text += ": " + a.Value.String()
		}
		return true
	})
	n.add("bridge", text)
	return nil
}

// WithAttrs implements slog.Handler.
func (n *notes) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup implements slog.Handler.
func (n *notes) WithGroup(string) slog.Handler { return n }
