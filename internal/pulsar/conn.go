package pulsar

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// conn is one connection that has been through its handshake. It dies once;
// everything registered on it is told then, by its own read loop.
type conn struct {
	opts   *Options
	target target
	log    *slog.Logger
	pool   *frame.Pool
	raw    net.Conn // what is closed: never waits for a TLS goodbye
	in     *bufio.Reader
	out    *outbox
	sink   sink
	info   ServerInfo
	ids    *atomic.Uint64 // of the client: ids are never reused

	seen       atomic.Bool // bytes arrived since the keeper last looked
	refreshing atomic.Bool // a challenge is being answered
	complaint  atomic.Pointer[ServerError]

	mu    sync.Mutex
	err   error // set once dead
	calls map[uint64]*call
	owned handles
	open  []*unclosed
	done  chan struct{} // closed when err is set
	ended chan struct{} // closed when all its goroutines are gone
}

// handles are what lives on a connection, by the id the broker addresses.
type handles struct {
	consumers map[uint64]*Consumer
	producers map[uint64]*Producer
	layouts   map[uint64]*session[*pulsarpb.CommandScalableTopicUpdate]
	topics    map[uint64]*session[*pulsarpb.CommandWatchScalableTopicsUpdate]
	streams   map[uint64]*session[*pulsarpb.ScalableConsumerAssignment]
}

// call is a request that waits for its reply.
type call struct {
	want  pulsarpb.BaseCommand_Type
	reply chan result // holds one
	// hook, where set, sees the result first, on the read loop: what the reply
	// brings to life is alive before the next frame is read.
	hook func(result)
}

type result struct {
	cmd *pulsarpb.BaseCommand
	err error
}

func newConn(opts *Options, t target, raw, nc net.Conn, ids *atomic.Uint64, pool *frame.Pool) *conn {
	c := &conn{
		opts: opts, target: t, pool: pool, raw: raw, out: newOutbox(), ids: ids,
		log:   opts.Logger.With("cluster", opts.Cluster, "broker", t.String(), "kind", t.kind.String()),
		calls: map[uint64]*call{},
		owned: handles{
			consumers: map[uint64]*Consumer{},
			producers: map[uint64]*Producer{},
			layouts:   map[uint64]*session[*pulsarpb.CommandScalableTopicUpdate]{},
			topics:    map[uint64]*session[*pulsarpb.CommandWatchScalableTopicsUpdate]{},
			streams:   map[uint64]*session[*pulsarpb.ScalableConsumerAssignment]{},
		},
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	c.in = bufio.NewReaderSize(&noticing{nc, &c.seen}, readBuffer)
	if raw == nc {
		c.sink = plainSink(nc)
	} else {
		c.sink = coalescingSink(nc)
	}
	return c
}

const readBuffer = 64 << 10

// noticing tells the keeper that bytes arrived.
type noticing struct {
	net.Conn
	seen *atomic.Bool
}

func (n *noticing) Read(p []byte) (int, error) {
	k, err := n.Conn.Read(p)
	if k > 0 {
		n.seen.Store(true)
	}
	return k, err
}

// run serves the connection until it dies, then tells all that lived on it.
func (c *conn) run() {
	defer close(c.ended)
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := c.out.write(c.done, c.sink); err != nil {
			c.fail(ReasonWrite, err)
		}
	})
	parts.Go(c.keepAlive)
	c.read()
	parts.Wait()
	c.out.drop()
	c.bury()
}

// fail ends the connection; the first call's reason is the one that counts.
func (c *conn) fail(reason Reason, err error) {
	if s := c.complaint.Load(); s != nil {
		// The broker said why before it hung up.
		reason, err = ReasonAuth, errors.Join(err, s)
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = &ConnectionError{Broker: c.target.String(), Reason: reason, Err: err}
	close(c.done)
	c.mu.Unlock()
	c.out.close(c.err)
	_ = c.raw.Close()
}

// bury tells calls first, then handles: what was never opened is an error of
// the opening call only.
func (c *conn) bury() {
	c.mu.Lock()
	err, calls, owned := c.err, c.calls, c.owned
	c.calls, c.owned = nil, handles{}
	c.mu.Unlock()
	for _, cl := range calls {
		cl.finish(result{err: err})
	}
	for _, h := range owned.consumers {
		h.die(err)
	}
	for _, h := range owned.producers {
		h.die(err)
	}
	for _, s := range owned.layouts {
		s.end(err)
	}
	for _, s := range owned.topics {
		s.end(err)
	}
	for _, s := range owned.streams {
		s.end(err)
	}
	reason := ReasonClosed
	var ce *ConnectionError
	if errors.As(err, &ce) {
		reason = ce.Reason
	}
	c.log.Info("disconnected", "reason", reason, "error", err)
	c.opts.OnEvent(Event{Type: EventDisconnected, Broker: c.target.dial, Kind: c.target.kind, Reason: reason, Err: err})
}

// alive reports whether nothing has ended the connection yet.
func (c *conn) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// own registers something on the connection, unless it is dead.
func (c *conn) own(register func(*handles)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	register(&c.owned)
	return nil
}

// disown is own's opposite; it is fine on a dead connection.
func (c *conn) disown(remove func(*handles)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	remove(&c.owned)
}

// request sends what build makes of a fresh request id and waits for the reply
// of type want, at most timeout. A refusal is a *ServerError.
func (c *conn) request(ctx context.Context, timeout time.Duration, want pulsarpb.BaseCommand_Type, hook func(result), build func(id uint64) *pulsarpb.BaseCommand) (*pulsarpb.BaseCommand, error) {
	id := c.ids.Add(1)
	cl := &call{want: want, reply: make(chan result, 1), hook: hook}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.err
	}
	c.calls[id] = cl
	c.mu.Unlock()
	if err := c.out.command(build(id)); err != nil {
		c.take(id)
		return nil, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var late error
	select {
	case r := <-cl.reply:
		return r.cmd, r.err
	case <-ctx.Done():
		late = context.Cause(ctx)
	case <-timer.C:
		late = ErrTimeout
	}
	if c.take(id) == nil {
		r := <-cl.reply // it is being handled right now: it counts
		return r.cmd, r.err
	}
	return nil, late
}

// until is ctx that also ends, with cause's error, when a handle does: the
// broker need not answer for one it has closed.
func until(ctx context.Context, ended <-chan struct{}, cause func() error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ended:
			cancel(cause())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// take removes a call, so that exactly one side finishes it.
func (c *conn) take(id uint64) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.calls[id]
	delete(c.calls, id)
	return cl
}

func (cl *call) finish(r result) {
	if r.err == nil && r.cmd.GetType() != cl.want {
		r = result{err: fmt.Errorf("%w: %s in reply to a request for %s", ErrProtocol, r.cmd.GetType(), cl.want)}
	}
	if cl.hook != nil {
		cl.hook(r)
	}
	cl.reply <- r
}
