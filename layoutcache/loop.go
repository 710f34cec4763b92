package layoutcache

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// defaultBackoff never gives up: 100 ms, doubling to 30 s, each ±50 %.
func defaultBackoff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(30*time.Second),
		backoff.WithMaxElapsedTime(0))
}

// loop keeps one watch session open.
type loop struct {
	backoff backoff.BackOff
	wake    <-chan struct{} // ends a pause early
	// session runs one session to its end. healthy: it delivered what it is
	// there for, so the next failure starts at the shortest pause. again: it
	// ended because we wanted so, and is to be opened again at once.
	session func(ctx context.Context) (healthy, again bool, err error)
	failed  func(error)
}

// run opens sessions until ctx ends (nil) or the backoff gives up (the last
// session's error).
func (l *loop) run(ctx context.Context) error {
	for {
		healthy, again, err := l.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if healthy {
			l.backoff.Reset()
		}
		if again {
			continue
		}
		if err != nil {
			l.failed(err)
		}
		pause := l.backoff.NextBackOff()
		if pause == backoff.Stop {
			return err
		}
		if !l.pause(ctx, pause) {
			return nil
		}
	}
}

// pause waits d, or less if woken. A wake shortens the pause to the shortest
// one, not to nothing: whoever wakes in a loop must not hammer the broker.
func (l *loop) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-l.wake:
	}
	l.backoff.Reset()
	if shortest := l.backoff.NextBackOff(); shortest < d && shortest > 0 {
		d = shortest
	}
	timer.Reset(d)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
