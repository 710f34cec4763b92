package replicate

import (
	"testing"

	"pgregory.net/rapid"
)

// pipe is a broker and a lane around a flow: entries arrive while there are
// permits, the broker overdrawing them by the last one, and complete in order.
type pipe struct {
	flow  flow
	owed  int // permits the broker has, below 0: overdrawn
	held  []int
	most  int // the most bytes that were held
	calls int // commands FLOW
}

func (p *pipe) refill() {
	if n := p.flow.refill(); n > 0 {
		p.owed += n
		p.calls++
	}
}

func (p *pipe) deliver(bytes, messages int) {
	p.owed -= messages
	p.flow.arrived(bytes, messages)
	p.held = append(p.held, bytes)
	p.most = max(p.most, p.flow.held)
	p.refill()
}

func (p *pipe) complete() {
	p.flow.released(p.held[0])
	p.held = p.held[1:]
	p.refill()
}

// Whatever comes, and however large: the lane goes on, and knows what the broker knows.
func TestFlowNeverStops(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := &pipe{flow: newFlow(rapid.IntRange(1, 1<<20).Draw(r, "window"))}
		p.refill()
		for range rapid.IntRange(1, 60).Draw(r, "entries") {
			for p.owed <= 0 {
				if len(p.held) == 0 {
					r.Fatalf("nothing held, no permits: %+v", p.flow)
				}
				p.complete()
			}
			p.deliver(rapid.IntRange(1, 8<<20).Draw(r, "bytes"), rapid.IntRange(1, 2000).Draw(r, "messages"))
			if p.flow.permits != p.owed {
				r.Fatalf("the broker has %d permits, the flow says %d", p.owed, p.flow.permits)
			}
			for rapid.Bool().Draw(r, "complete") && len(p.held) > 0 {
				p.complete()
			}
		}
		for len(p.held) > 0 {
			p.complete()
		}
		if p.flow.held != 0 || p.owed <= 0 {
			r.Fatalf("idle with %d bytes held and %d permits", p.flow.held, p.owed)
		}
	})
}

// Once it knows the size of a message, what is held and what may still come stay
// near the window: within it, but for the entry that overdraws.
func TestFlowStaysNearWindow(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		window := rapid.IntRange(16<<10, 8<<20).Draw(r, "window")
		messages := rapid.IntRange(1, 500).Draw(r, "messages an entry")
		size := rapid.IntRange(10, max(11, window/(4*messages))).Draw(r, "bytes a message")
		p := &pipe{flow: newFlow(window)}
		p.refill()
		for i := range 3000 {
			for p.owed <= 0 {
				p.complete()
			}
			p.deliver(size*messages, messages)
			if coming := p.flow.held + max(p.owed, 0)*size; i >= firstPermits && coming > window+size*messages {
				r.Fatalf("entry %d: %d bytes held, %d permits for %d bytes each, in a window of %d", i, p.flow.held, p.owed, size, window)
			}
		}
		if least := min(window*3/8, window/leastSize/2*size, 3000*size*messages); p.most < least {
			r.Fatalf("at most %d bytes held in a window of %d", p.most, window)
		}
	})
}

// Messages that grow all at once overfill the window by what was permitted at
// the old size, once, since permits cannot be taken back; then the new size is
// known.
func TestFlowLearnsUpwardsAtOnce(t *testing.T) {
	p := &pipe{flow: newFlow(1 << 20)}
	p.refill()
	for range 2000 {
		for p.owed <= 0 {
			p.complete()
		}
		p.deliver(100, 1)
	}
	before := p.owed
	p.deliver(10_000, 1)
	for range before + 5000 {
		for p.owed <= 0 {
			p.complete()
		}
		p.deliver(10_000, 1)
	}
	if limit := 1<<20 + 10_000*(before+1); p.most > limit {
		t.Errorf("%d bytes held, want at most %d", p.most, limit)
	}
	if p.flow.held > 1<<20+10_000 {
		t.Errorf("%d bytes held in the end", p.flow.held)
	}
}

// Permits travel in few commands: about one for half of what may be given.
func TestFlowFewCommands(t *testing.T) {
	p := &pipe{flow: newFlow(8 << 20)}
	p.refill()
	const n = 100_000
	for range n {
		for p.owed <= 0 {
			p.complete()
		}
		p.deliver(1000, 1)
		if len(p.held) > 20 {
			p.complete()
		}
	}
	if p.calls > n/500 {
		t.Errorf("%d commands for %d messages", p.calls, n)
	}
}

// Permits are overdrawn by a batch (facts 9.2): the next ones make up for it.
func TestFlowOverdrawn(t *testing.T) {
	p := &pipe{flow: newFlow(1 << 20)}
	p.refill()
	if p.owed != firstPermits {
		t.Fatalf("%d permits at first", p.owed)
	}
	p.deliver(5000, 1000)
	if p.owed <= 0 || p.flow.permits != p.owed {
		t.Errorf("%d permits after an entry of 1000 messages, %d known", p.owed, p.flow.permits)
	}
}

// A smaller window takes effect as entries complete, not before.
func TestFlowWindowShrinks(t *testing.T) {
	p := &pipe{flow: newFlow(1 << 20)}
	p.refill()
	for p.owed > 0 {
		p.deliver(10_000, 1)
	}
	held := len(p.held)
	p.flow.window = 50_000
	for len(p.held) > 0 {
		if p.owed > 0 && p.flow.held > 50_000 {
			t.Fatalf("%d permits with %d bytes held", p.owed, p.flow.held)
		}
		p.complete()
	}
	if held < 50 || p.owed <= 0 || p.owed > 5 {
		t.Errorf("%d entries before, %d permits after", held, p.owed)
	}
}
