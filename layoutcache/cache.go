package layoutcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Watcher opens watch sessions. Each call is one session: it blocks until the
// session died or ctx ended, calls back from any one goroutine at a time, and
// not after it returned. A topic that is not there must be told apart by
// ErrTopicNotFound in the chain of Update.Err or of the error returned.
type Watcher interface {
	WatchLayout(ctx context.Context, topic string, update func(Update)) error
	WatchTopics(ctx context.Context, namespace string, event func(TopicsEvent)) error
}

// Options of a Cache. Topic and Watcher are required.
type Options struct {
	Topic   string // topic://tenant/namespace/name
	Watcher Watcher
	// Namespace, if set, tells of deletion and creation. It has its own Run and
	// may serve many caches. Without it a deletion shows at the next Revalidate.
	Namespace *Namespace
	Logger    *slog.Logger // default: discards
	// Backoff makes the pauses between failed sessions. Default: 100 ms to 30 s,
	// for ever.
	Backoff func() backoff.BackOff
	// Revalidate is how long a session lives until it is replaced by a new one,
	// since an open session never reports a deletion. Default 5 minutes;
	// negative: for ever.
	Revalidate time.Duration
}

const (
	defaultRevalidate = 5 * time.Minute
	shortestLife      = time.Second // of a session whose topic is said to be deleted
)

var (
	errRefresh  = errors.New("asked to look the topic up again")
	errLifeOver = errors.New("session is due for a new look-up")
	errEnded    = errors.New("watch session ended")
	errRemoved  = fmt.Errorf("%w: the namespace watch reports it deleted", ErrTopicNotFound)
)

// Cache keeps the newest Snapshot of one topic. All methods are safe for
// concurrent use.
type Cache struct {
	opts    Options
	log     *slog.Logger
	wake    chan struct{}
	current atomic.Pointer[Snapshot]
	end     atomic.Pointer[context.CancelCauseFunc] // ends the open session

	mu    sync.Mutex // held while folding and calling back
	subs  subscribers[*Snapshot]
	doubt bool          // said to be deleted, but the look-up still found it
	life  time.Duration // of the next session while in doubt
	next  *confirmation // has not begun
	turn  chan struct{} // held by the one under way

	confirmed time.Time // when the last one began; whoever has the turn
}

// New makes a cache that knows nothing; Run fills it.
func New(o Options) *Cache {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Backoff == nil {
		o.Backoff = defaultBackoff
	}
	if o.Revalidate == 0 {
		o.Revalidate = defaultRevalidate
	}
	c := &Cache{opts: o, log: o.Logger.With("topic", o.Topic), wake: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	c.current.Store(&Snapshot{Topic: o.Topic})
	return c
}

// Snapshot is what is known now, never nil.
func (c *Cache) Snapshot() *Snapshot { return c.current.Load() }

// Subscribe calls fn at once with the current snapshot, and then on each change
// of its contents, one call at a time and in order. fn must not block, nor call
// Subscribe; it may call Snapshot, Refresh and its own cancel.
func (c *Cache) Subscribe(fn func(*Snapshot)) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancel = c.subs.add(fn)
	fn(c.current.Load())
	return cancel
}

// Refresh has the topic looked up again soon: it ends the open session, or the
// pause before the next one. Until the answer comes the snapshot stays.
func (c *Cache) Refresh() {
	if end := c.end.Load(); end != nil {
		(*end)(errRefresh)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run keeps a watch session open until ctx ends, and then returns nil. It
// returns an error only if a Backoff that was given gives up. Call it once.
func (c *Cache) Run(ctx context.Context) error {
	if c.opts.Namespace != nil {
		defer c.opts.Namespace.Subscribe(c.onTopics)()
	}
	l := loop{backoff: c.opts.Backoff(), wake: c.wake, session: c.session, failed: func(err error) { c.fold(Update{Err: err}) }}
	return l.run(ctx)
}

// session runs one layout session to its end.
func (c *Cache) session(ctx context.Context) (healthy, again bool, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c.end.Store(&end)
	defer c.end.Store(nil)

	var expiry *time.Timer // its life starts with the first answer
	notFound := false
	err = c.opts.Watcher.WatchLayout(ctx, c.opts.Topic, func(u Update) {
		if ctx.Err() != nil {
			return // what an ended session still says may be older than its end
		}
		c.fold(u)
		switch {
		case errors.Is(u.Err, ErrTopicNotFound):
			notFound = true
		case u.Err == nil && !healthy:
			healthy = true
			if life := c.sessionLife(); life > 0 {
				expiry = time.AfterFunc(life, func() { end(errLifeOver) })
			}
		}
	})
	if expiry != nil {
		expiry.Stop()
	}
	switch context.Cause(ctx) {
	case errLifeOver:
		return true, true, nil
	case errRefresh:
		return true, false, nil
	}
	if err == nil {
		err = errEnded
	}
	if notFound && !errors.Is(err, ErrTopicNotFound) {
		err = nil // the reason is folded already
	}
	return healthy, false, err
}

// sessionLife is how long the session that just answered may live, 0 for ever.
// While the topic is in doubt it is short, and doubles: right after a deletion
// a broker may still answer from what it remembers, and then never say more.
func (c *Cache) sessionLife() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	normal := max(c.opts.Revalidate, 0)
	if !c.doubt {
		return normal
	}
	life := c.life
	if normal > 0 {
		life = min(life, normal)
	}
	c.life = min(2*c.life, defaultRevalidate)
	return life
}

func (c *Cache) fold(u Update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	prev := c.current.Load()
	next, changed := Fold(prev, u)
	if next.State == Missing || next.Incarnation != prev.Incarnation {
		c.doubt = false
	}
	if !changed {
		return
	}
	c.current.Store(next)
	c.report(prev, next)
	c.subs.publish(next)
}
