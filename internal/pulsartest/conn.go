package pulsartest

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// probeTime is how long a mute holder of a name is waited for (P34).
const probeTime = 5 * time.Second

// conn is one client's connection: a reader, which handles commands one by one
// under the cluster's lock, and a writer behind a queue without a bound, since the
// permits bound it.
type conn struct {
	broker *Broker
	nc     net.Conn
	in     *bufio.Reader
	number int
	seen   atomic.Bool // a command came since the last PING
	done   chan struct{}

	mu    sync.Mutex
	mute  bool // nothing is queued any more
	queue []outgoing
	wake  chan struct{} // holds a token while there is something queued

	// Under the cluster's lock:
	greeted   bool
	role      string // where Options.Role tells
	refreshes bool   // supports_auth_refresh
	challenge bool   // AUTH_CHALLENGE has no answer yet
	dead      bool
	producers map[uint64]*producer
	consumers map[uint64]*consumer
	streams   map[uint64]stream // STREAM registrations
	probes    []func(alive bool)
	probed    int // tells the timer of an answered probe from a later one's
}

func newConn(b *Broker, nc net.Conn, number int) *conn {
	return &conn{
		broker: b, nc: nc, in: bufio.NewReaderSize(nc, 8<<10), number: number,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
		producers: map[uint64]*producer{}, consumers: map[uint64]*consumer{}, streams: map[uint64]stream{},
	}
}

func (c *conn) keepAlive() time.Duration { return c.broker.cluster.core.opts.KeepAlive }

func (c *conn) send(o outgoing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mute {
		return
	}
	c.queue = append(c.queue, o)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// silence loses what is queued and what would be: the connection is about to end.
func (c *conn) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute, c.queue = true, nil
}

func (c *conn) forgetConsumer(id uint64) { delete(c.consumers, id) }
func (c *conn) forgetProducer(id uint64) { delete(c.producers, id) }

// cut ends the connection: names are free and subscriptions left at once (P34:
// 8 ms). What is queued is lost. The cluster's lock is held.
func (c *conn) cut() {
	if c.dead {
		return
	}
	c.dead = true
	close(c.done)
	_ = c.nc.Close() // nobody to tell
	core := &c.broker.cluster.core
	delete(c.broker.cluster.conns, c)
	all := func(uint64) bool { return true }
	core.unwatchLayout(c, all)
	core.unwatchTopics(c, all)
	for _, p := range c.producers {
		p.release()
	}
	for _, s := range c.consumers {
		s.sub.detach(s)
	}
	for _, st := range c.streams {
		if g := st.group(c.broker); g != nil {
			g.disconnect(st.name)
		}
	}
	c.producers, c.consumers, c.streams = nil, nil, nil
	for _, probe := range c.probes {
		probe(false)
	}
	c.probes = nil
}

func (c *conn) end() { c.broker.cluster.locked(c.cut) }

// probe implements peer (P34). The cluster's lock is held.
func (c *conn) probe(done func(alive bool)) {
	c.probes = append(c.probes, done)
	c.send(ping())
	if len(c.probes) == 1 {
		c.probed++
		turn := c.probed
		c.broker.cluster.core.after(probeTime, func() {
			if c.probed == turn && len(c.probes) > 0 {
				c.cut()
			}
		})
	}
}

// answered ends the probes: the client is alive.
func (c *conn) answered() {
	probes := c.probes
	c.probes = nil
	for _, probe := range probes {
		probe(true)
	}
}

// read is the reader: it ends with the connection.
func (c *conn) read() {
	defer c.end()
	limits := frame.Limits{MaxFrame: maxMessageSize + frame.PaddingSize} // facts 9.1: reset beyond
	var late []held[*frame.Frame]
	for {
		f := &frame.Frame{}
		if frame.ReadCommand(c.in, limits, f) != nil {
			return
		}
		if !c.running() {
			return
		}
		action := c.judgeReceived(f)
		if action.kind == actReorder {
			late = append(late, held[*frame.Frame]{f, action.behind})
			continue
		}
		if !c.receive(f, action) {
			return
		}
		var due []*frame.Frame
		if late, due = passed(late); len(due) > 0 {
			for _, f := range due {
				c.handle(f, nil)
			}
		}
	}
}

// receive does what the hook said; false ends the connection.
func (c *conn) receive(f *frame.Frame, a Action) bool {
	switch a.kind {
	case actDrop:
		return true
	case actCutBefore:
		return false
	case actDelay:
		if !c.pause(a.delay) {
			return false
		}
	}
	c.handle(f, &a)
	return true
}

// handle runs a command under the lock. With CutAfter the connection goes before
// the answer can be written.
func (c *conn) handle(f *frame.Frame, a *Action) {
	c.broker.cluster.locked(func() {
		if c.dead {
			return
		}
		c.seen.Store(true)
		c.answered()
		if a != nil && a.kind == actFail {
			c.refuse(f, a.refusal)
			return
		}
		if a != nil && a.kind == actCutAfter {
			c.silence()
		}
		c.serve(f)
		if a != nil && a.kind == actCutAfter {
			c.cut()
		}
	})
}

func (c *conn) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.done:
		return false
	}
}
