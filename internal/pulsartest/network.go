package pulsartest

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Network connects clients with listeners in memory, without buffers: what is
// written has been read. It works inside a testing/synctest bubble. The zero value
// is ready.
type Network struct {
	mu    sync.Mutex
	hosts map[string]*listener
}

// Listen makes a listener of that address; a later one takes it over.
func (n *Network) Listen(addr string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	if n.hosts == nil {
		n.hosts = map[string]*listener{}
	}
	n.hosts[addr] = l
	return l
}

// Dial has the form of net.Dialer.DialContext. Nobody listening is an error at
// once.
func (n *Network) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.hosts[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: %w", addr, ErrNotFound)
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, fmt.Errorf("dial %s: %w", addr, net.ErrClosed)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type listener struct {
	addr  string
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.addr) }

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }
