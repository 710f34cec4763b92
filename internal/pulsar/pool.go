package pulsar

import (
	"context"
	"sync"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// pool keeps the connections of a client: a few for each target, dialled when
// they are asked for. A dead one is replaced by the next who asks.
type pool struct {
	client  *Client
	entries frame.Pool

	mu     sync.Mutex
	closed bool
	slots  map[slotKey]*slot
	turns  map[target]int
	parts  sync.WaitGroup // dials and connections
}

type slotKey struct {
	target target
	index  int
}

// slot is one connection, or the attempt to make it, which all who ask share.
type slot struct {
	ready  chan struct{} // closed when the attempt ended
	cancel context.CancelFunc
	conn   *conn
	err    error
}

// get returns a live connection to t, in turn over those there may be. An
// attempt to make one goes on when ctx ends, for others who wait for it.
func (p *pool) get(ctx context.Context, t target) (*conn, error) {
	s, err := p.slot(t)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.ready:
		return s.conn, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *pool) slot(t target) (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	turn := p.turns[t]
	p.turns[t] = turn + 1
	key := slotKey{t, turn % p.client.opts.ConnectionsPerBroker}
	if s := p.slots[key]; s != nil && s.usable() {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.client.opts.ConnectTimeout)
	s := &slot{ready: make(chan struct{}), cancel: cancel}
	p.slots[key] = s
	p.parts.Go(func() { p.serve(ctx, key, s) })
	return s, nil
}

func (s *slot) usable() bool {
	select {
	case <-s.ready:
		return s.err == nil && s.conn.alive()
	default:
		return true
	}
}

// serve makes the connection and then lives as long as it does.
func (p *pool) serve(ctx context.Context, key slotKey, s *slot) {
	c, err := dial(ctx, &p.client.opts, key.target, p.client.service.tls, &p.client.ids, &p.entries)
	s.cancel()
	p.client.announce(key.target, c, err)
	p.mu.Lock()
	s.conn, s.err = c, err
	if err != nil && p.slots[key] == s {
		delete(p.slots, key)
	}
	if err == nil && p.closed {
		c.fail(ReasonClosed, ErrClosed)
	}
	p.mu.Unlock()
	close(s.ready)
	if err != nil {
		return
	}
	c.run()
	p.mu.Lock()
	if p.slots[key] == s {
		delete(p.slots, key)
	}
	p.mu.Unlock()
}

// close ends all attempts and connections and waits for them.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.slots {
		s.cancel()
		if s.conn != nil {
			s.conn.fail(ReasonClosed, ErrClosed)
		}
	}
	p.mu.Unlock()
	p.parts.Wait()
}
