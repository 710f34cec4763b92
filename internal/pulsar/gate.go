package pulsar

import "sync"

// gate stands before a handler: nothing passes before it is opened or after it
// is closed, one call passes at a time, and the closing one is the last.
type gate struct {
	mu    sync.Mutex
	state gateState
}

type gateState int

const (
	gatePending gateState = iota // the handle is being opened
	gateOpen
	gateClosed
)

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == gatePending {
		g.state = gateOpen
	}
}

// abandon closes the gate of a handle that was never opened.
func (g *gate) abandon() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = gateClosed
}

func (g *gate) call(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == gateOpen {
		f()
	}
}

// hold keeps the gate shut while f runs, whatever its state.
func (g *gate) hold(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// close makes the last call, if the gate was open.
func (g *gate) close(last func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.state == gateOpen
	g.state = gateClosed
	if open {
		last()
	}
}
