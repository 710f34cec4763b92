package witness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/geobridge/geobridge/e2e/rig"
)

// state is what the handler of a command and the test share: a lock, and a
// wake-up at each change.
type state struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	ready   bool
	done    bool
	err     error
	trouble []string
}

func newState() *state { return &state{changed: make(chan struct{})} }

// update runs fn under the lock and wakes the waiters.
func (s *state) update(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	close(s.changed)
	s.changed = make(chan struct{})
}

// common handles the events that all commands have; it reports whether e was
// one of them. The caller holds the lock.
func (s *state) common(e event) bool {
	switch e.Kind {
	case "ready":
		s.ready = true
	case "done":
		s.done = true
	case "error":
		s.err = errors.New(e.Error)
	case "trouble":
		s.trouble = append(s.trouble, e.Error)
	default:
		return false
	}
	return true
}

// wait blocks until check (run under the lock) says true, the command fails,
// or ctx ends; describe then says how far it came.
func (s *state) wait(ctx context.Context, check func() bool, describe func() string) error {
	for {
		s.mu.Lock()
		ok, err, changed := check(), s.err, s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			return fmt.Errorf("%w: %s", context.Cause(ctx), describe())
		}
	}
}

func (s *state) waitReady(ctx context.Context) error {
	return s.wait(ctx, func() bool { return s.ready }, func() string { return "not ready" })
}

// Trouble lists what went wrong on the way without ending the command, such as
// a lost connection.
func (s *state) Trouble() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.trouble...)
}

// pollZero polls backlog until it is 0 or the command has failed.
func pollZero(ctx context.Context, backlog func(context.Context) (int64, error), s *state) error {
	return rig.Poll(ctx, 100*time.Millisecond, func() error {
		s.mu.Lock()
		failed := s.err
		s.mu.Unlock()
		if failed != nil {
			return nil // reported by the caller
		}
		n, err := backlog(ctx)
		if err == nil && n != 0 {
			err = fmt.Errorf("backlog %d", n)
		}
		return err
	})
}
