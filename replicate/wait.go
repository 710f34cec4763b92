package replicate

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// newBackoff returns the waits between tries of anything that is retried for
// ever: 100 ms doubling to 5 s, spread by half.
func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5), backoff.WithMaxInterval(5*time.Second),
		backoff.WithMaxElapsedTime(0))
}

// pause waits d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
