package layoutcache

import (
	"context"
	"errors"
	"time"
)

// ErrAnother: the topic is not the one that was asked about, or not known to be.
var ErrAnother = errors.New("the topic is another one of the same name")

// confirmation is one look-up for all who asked before it began.
type confirmation struct {
	done chan struct{}
	now  *Snapshot
	err  error

	givenUp bool // by whoever asked first: the others ask again
}

// Confirm looks the topic up after it was called, beside the open session, and
// returns nil if it is there and of that incarnation. Those who ask at the same
// time share a look-up. Where it says otherwise the cache looks again, too, and
// tells its subscribers what it finds.
func (c *Cache) Confirm(ctx context.Context, incarnation uint64) error {
	now, err := c.lookUp(ctx)
	if err != nil {
		return err
	}
	known := c.Snapshot()
	switch {
	case now.State == Missing:
		err = now.Err
	case known.State != Live || known.Incarnation != incarnation || relate(known, now.Layout) == another:
		err = ErrAnother
	default:
		return nil
	}
	c.Refresh()
	return err
}

// lookUp joins the look-up that begins next, or begins it. One is under way at most.
func (c *Cache) lookUp(ctx context.Context) (*Snapshot, error) {
	next, first := c.join()
	for !first {
		select {
		case <-next.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !next.givenUp || ctx.Err() != nil {
			return next.now, next.err
		}
		next, first = c.join()
	}
	defer close(next.done)
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
		next.now, next.err = c.lookUpFor(ctx, next)
		next.givenUp = ctx.Err() != nil
	case <-ctx.Done():
		c.begin(next)
		next.err, next.givenUp = ctx.Err(), true
	}
	return next.now, next.err
}

// join returns the look-up that begins next, and whether the caller has to do it.
func (c *Cache) join() (next *confirmation, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first = c.next == nil; first {
		c.next = &confirmation{done: make(chan struct{})}
	}
	return c.next, first
}

// confirmGap is the least time between one look-up of Confirm and the next, so that
// however many ask in turn, a broker, which logs each, is asked a few times a second.
const confirmGap = 200 * time.Millisecond

func (c *Cache) lookUpFor(ctx context.Context, next *confirmation) (*Snapshot, error) {
	if early := confirmGap - time.Since(c.confirmed); early > 0 {
		select {
		case <-time.After(early):
		case <-ctx.Done():
		}
	}
	c.confirmed = time.Now()
	c.begin(next)
	return Lookup(ctx, c.opts.Watcher, c.opts.Topic)
}

// begin: whoever asks from now on is too late for it.
func (c *Cache) begin(next *confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == next {
		c.next = nil
	}
}
