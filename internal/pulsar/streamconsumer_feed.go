package pulsar

import (
	"context"
	"errors"
	"sync"
	"time"
)

// mailbox is a queue into one goroutine. What bounds it are the permits that
// its consumers gave.
type mailbox[T any] struct {
	mu     sync.Mutex
	queue  []T
	closed bool
	wake   chan struct{} // holds one token while there is news
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{wake: make(chan struct{}, 1)} }

// post reports whether v will be taken.
func (b *mailbox[T]) post(v T) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.queue = append(b.queue, v)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return true
}

func (b *mailbox[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue = nil
	return q
}

func (b *mailbox[T]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// streamFeed brings what one segment's consumer is told to the driver.
type streamFeed struct {
	events  *mailbox[func(*streamDriver)]
	segment uint64
	opening uint64
}

func (f *streamFeed) Message(m Message) {
	posted := f.events.post(func(d *streamDriver) { d.deliver(f.segment, f.opening, m) })
	if !posted {
		m.Entry.Release()
	}
}

func (f *streamFeed) ActiveChanged(bool) {}

// EndOfTopic is no more than a hint: the assignment says when a segment is done.
func (f *streamFeed) EndOfTopic() {}

func (f *streamFeed) Closed(err error) {
	f.events.post(func(d *streamDriver) {
		delete(d.consumers, f.opening)
		d.machine.died(f.segment, f.opening, err)
	})
}

func (d *streamDriver) deliver(segment, opening uint64, m Message) {
	messages := int64(1)
	if m.Err == nil {
		messages = int64(max(m.Info.NumMessages, 1))
	}
	delivery, ok := d.machine.deliver(segment, opening, m.ID, messages)
	if !ok {
		m.Entry.Release()
		return
	}
	d.handler.Message(StreamMessage{Message: m, Segment: segment, Delivery: delivery})
}

// register keeps the consumer registered with the controller, wherever that
// is, until ctx ends. What was assigned last goes on being read meanwhile.
func (d *streamDriver) register(ctx context.Context) {
	where := &controllerURL{changed: make(chan struct{})}
	_, known := where.get()
	d.parts.Go(func() { d.watchController(ctx, where) })
	select {
	case <-known:
	case <-ctx.Done():
		return
	}
	retry := streamBackoff(5 * time.Second)
	for {
		url, changed := where.get()
		err := d.client.RegisterStream(ctx, StreamOptions{
			Topic: d.opts.Topic, Subscription: d.opts.Subscription, ConsumerName: d.opts.ConsumerName, Controller: url,
		}, func(a Assignment) {
			retry.Reset()
			d.events.post(func(d *streamDriver) { d.machine.assign(a.Segments) })
		})
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrClosed), RetryOf(err) == RetryNever:
			d.events.post(func(d *streamDriver) { d.fatal = err })
			return
		}
		d.log.Info("stream registration lost", "error", err)
		if !pauseOr(ctx, retry.NextBackOff(), changed) {
			return
		}
	}
}

// watchController follows where the controller is.
func (d *streamDriver) watchController(ctx context.Context, where *controllerURL) {
	retry := streamBackoff(5 * time.Second)
	for {
		err := d.client.WatchLayout(ctx, d.opts.Topic, func(u LayoutUpdate) {
			if u.Err == nil {
				retry.Reset()
				where.set(u.ControllerURL)
			}
		})
		if ctx.Err() != nil {
			return
		}
		d.log.Debug("layout watch of a stream consumer lost", "error", err)
		where.settle()
		if errors.Is(err, ErrClosed) || !pauseOr(ctx, retry.NextBackOff(), nil) {
			return
		}
	}
}

// pauseOr waits, or until changed is closed; it reports whether ctx still
// lives.
func pauseOr(ctx context.Context, pause time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// controllerURL is where the controller was last said to be.
type controllerURL struct {
	mu      sync.Mutex
	url     string
	known   bool          // or given up for now
	changed chan struct{} // closed when it changes
}

func (c *controllerURL) get() (string, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.url, c.changed
}

func (c *controllerURL) set(url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if url != c.url || !c.known {
		c.url = url
		c.signal()
	}
}

// settle lets those go on who wait for the first news.
func (c *controllerURL) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.signal()
	}
}

func (c *controllerURL) signal() {
	c.known = true
	close(c.changed)
	c.changed = make(chan struct{})
}
