package rig

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Cut is a TCP proxy on a loopback port that harms the connections through it
// on command: it ends them, resets them, or swallows what they carry. It is
// safe for concurrent use.
type Cut struct {
	target   string
	listener net.Listener

	mu     sync.Mutex
	pairs  map[*pair]struct{}
	closed bool
	refuse bool
	stall  [2]chan struct{} // by Way: closed when bytes flow; replaced by Stall
	fuse   [2]int           // by Way: bytes until all connections end; 0: none is lit
	bytes  atomic.Int64     // carried so far, both ways
	parts  sync.WaitGroup
}

// Way is a direction through a Cut.
type Way int

// The ways: what the client sends, and what it is sent.
const (
	Up Way = iota
	Down
)

// pair is one connection and its other half towards the target.
type pair struct {
	front, back *net.TCPConn
	once        sync.Once
}

// NewCut listens on a free loopback port and passes connections on to target,
// a host:port.
func NewCut(target string) (*Cut, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	flowing := make(chan struct{})
	close(flowing)
	c := &Cut{target: target, listener: listener, pairs: map[*pair]struct{}{}, stall: [2]chan struct{}{flowing, flowing}}
	c.parts.Go(c.accept)
	return c, nil
}

// Addr is the host:port of the proxy.
func (c *Cut) Addr() string { return c.listener.Addr().String() }

// Bytes is how much was carried so far, both ways.
func (c *Cut) Bytes() int64 { return c.bytes.Load() }

// Open is the number of connections that pass through now.
func (c *Cut) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pairs)
}

// Sever ends every connection at once, with a reset (RST) or an orderly end
// (FIN), and returns how many there were. New ones are served.
func (c *Cut) Sever(reset bool) int {
	c.mu.Lock()
	pairs := make([]*pair, 0, len(c.pairs))
	for p := range c.pairs {
		pairs = append(pairs, p)
	}
	c.mu.Unlock()
	for _, p := range pairs {
		p.end(reset)
	}
	return len(pairs)
}

// Refuse makes new connections end at once, or be served again.
func (c *Cut) Refuse(refuse bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// Stall holds up what connections carry from now on, in the given ways or, with
// none, in both: they stay open and mute, new ones are accepted and mute. Heal
// lets the bytes flow that were held up; what Sever ends before is lost.
func (c *Cut) Stall(ways ...Way) {
	if len(ways) == 0 {
		ways = []Way{Up, Down}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, way := range ways {
		select {
		case <-c.stall[way]:
			c.stall[way] = make(chan struct{})
		default:
		}
	}
}

// Heal undoes Stall.
func (c *Cut) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, flowing := range c.stall {
		select {
		case <-flowing:
		default:
			close(flowing)
		}
	}
}

// SeverAfter ends every connection, with a reset, once n more bytes have passed
// one way: as a rule in the middle of a frame.
func (c *Cut) SeverAfter(way Way, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fuse[way] = max(n, 1)
}

// Lit reports whether SeverAfter has not struck yet.
func (c *Cut) Lit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fuse != [2]int{}
}

// burn takes n bytes of a way off its fuse; it returns how many of them still
// pass, and whether that is the end.
func (c *Cut) burn(way Way, n int) (pass int, ends bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch left := c.fuse[way]; {
	case left == 0:
		return n, false
	case n < left:
		c.fuse[way] = left - n
		return n, false
	default:
		c.fuse[way] = 0
		return left, true
	}
}

// Close ends the proxy and all that passes through it.
func (c *Cut) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	err := c.listener.Close()
	c.Heal()
	c.Sever(true)
	c.parts.Wait()
	return err
}

func (c *Cut) accept() {
	for {
		front, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.parts.Go(func() { c.serve(front.(*net.TCPConn)) })
	}
}

func (c *Cut) serve(front *net.TCPConn) {
	back, err := net.Dial("tcp", c.target)
	if err != nil {
		_ = front.Close() // as a broker that is not there
		return
	}
	p := &pair{front: front, back: back.(*net.TCPConn)}
	if !c.admit(p) {
		p.end(true)
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { c.carry(p, Up, p.back, p.front) })
	ways.Go(func() { c.carry(p, Down, p.front, p.back) })
	ways.Wait()
	c.mu.Lock()
	delete(c.pairs, p)
	c.mu.Unlock()
}

func (c *Cut) admit(p *pair) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.refuse {
		return false
	}
	c.pairs[p] = struct{}{}
	return true
}

func (c *Cut) carry(p *pair, way Way, to, from *net.TCPConn) {
	defer p.end(false)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			c.mu.Lock()
			flowing := c.stall[way]
			c.mu.Unlock()
			<-flowing
			pass, ends := c.burn(way, n)
			c.bytes.Add(int64(pass))
			_, werr := to.Write(buf[:pass])
			if ends {
				c.Sever(true)
			}
			if werr != nil || ends {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *pair) end(reset bool) {
	p.once.Do(func() {
		if reset {
			_ = p.front.SetLinger(0) // the close sends RST
			_ = p.back.SetLinger(0)
		}
		_ = p.front.Close()
		_ = p.back.Close()
	})
}

// SplitAddr returns the host:port of a pulsar:// or http:// address.
func SplitAddr(url string) (string, error) {
	for _, scheme := range []string{"pulsar://", "http://"} {
		if len(url) > len(scheme) && url[:len(scheme)] == scheme {
			return url[len(scheme):], nil
		}
	}
	return "", fmt.Errorf("address %q: %w", url, errScheme)
}

var errScheme = errors.New("neither pulsar:// nor http://")

var _ io.Closer = (*Cut)(nil)
