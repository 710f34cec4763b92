package replicate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// readTo reads everything up to pos, or the topic to its end: all received, the
// last one acknowledged, and a backlog of 0. A barrier is never delivered, so
// its position alone cannot be awaited. f looks at what was read, under the lock.
func (r *Records) readTo(ctx context.Context, pos Position, f func(*recordView)) error {
	before := r.question()
	seen, since := noPosition(), time.Now()
	for {
		if r.reached(pos, f) {
			return nil
		}
		if v := r.end(ctx, before); v != nil && r.look(v, f) {
			return nil
		}
		if now := r.seen(); now != seen {
			seen, since = now, time.Now()
		} else if time.Since(since) > nudgeAfter {
			r.nudge(ctx)
		}
		if pause(ctx, endPoll); ctx.Err() != nil {
			return fmt.Errorf("reading %s: %w", r.topic, ctx.Err())
		}
	}
}

// seen is where the present reader is.
func (r *Records) seen() Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil {
		return noPosition()
	}
	return r.view.seen
}

// nudge ends a wait for what a compacted reader is never given. Of many who wait one
// nudges.
func (r *Records) nudge(ctx context.Context) {
	r.mu.Lock()
	early := time.Since(r.nudged) < nudgeAfter
	if !early {
		r.nudged = time.Now()
	}
	r.mu.Unlock()
	if early {
		return
	}
	if err := nudge(ctx, r.client, r.topic); err != nil && ctx.Err() == nil {
		r.log.Debug("not nudged", "error", err)
	}
}

// question is how often the end was asked for.
func (r *Records) question() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (r *Records) reached(pos Position, f func(*recordView)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil || r.view.seen.Compare(pos) < 0 {
		return false
	}
	f(r.view)
	return true
}

// look lets f see the view, unless the reader was replaced since.
func (r *Records) look(v *recordView, f func(*recordView)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view != v {
		return false
	}
	f(v)
	return true
}

// end returns the present view if the end of the topic was reached in it, by a
// question that was asked after the first before ones. Many may wait; one asks.
func (r *Records) end(ctx context.Context, before uint64) *recordView {
	select {
	case r.checking <- struct{}{}:
		defer func() { <-r.checking }()
	case <-ctx.Done():
		return nil
	}
	r.mu.Lock()
	v := r.view
	if v == nil || r.endedIn == v && r.ended > before {
		r.mu.Unlock()
		return v
	}
	seen := v.seen
	r.asked++
	asked := r.asked
	r.mu.Unlock()
	if end, err := AtEnd(ctx, v.consumer, seen); err != nil || !end {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view != v || v.seen != seen {
		return nil
	}
	r.ended, r.endedIn = asked, v
	return v
}

// endPoll is how often the end of a topic is asked for while it is awaited.
const endPoll = 20 * time.Millisecond

// AtEnd acknowledges what a non-durable reader was given, up to seen, and asks
// whether it has any backlog left: without one it is at the end (right in each of
// 18 cases observed, broker 5.0.1).
func AtEnd(ctx context.Context, c *pulsar.Consumer, seen Position) (bool, error) {
	if seen != noPosition() {
		acked := make(chan error, 1)
		c.AckCumulative(seen, func(err error) { acked <- err })
		select {
		case err := <-acked:
			// Refused where the broker has passed markers beyond it already.
			if err != nil && !errors.As(err, new(*pulsar.ServerError)) {
				return false, err
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	stats, err := c.Stats(ctx)
	return err == nil && stats.Backlog == 0, err
}
