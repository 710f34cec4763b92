package replicate

import (
	"context"
	"sync"
)

// letter is one event on its way to a session's machine. do, if set, runs in
// the driver first.
type letter struct {
	ev Event
	do func()
}

// mailbox carries letters from the read loops and operations to the driver. A
// put never blocks: what flows in is bounded by permits and by what the lane
// itself has sent.
type mailbox struct {
	mu     sync.Mutex
	in     []letter
	signal chan struct{}
}

func newMailbox() *mailbox { return &mailbox{signal: make(chan struct{}, 1)} }

func (b *mailbox) put(l letter) {
	b.mu.Lock()
	b.in = append(b.in, l)
	b.mu.Unlock()
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *mailbox) post(ev Event) { b.put(letter{ev: ev}) }

// take waits for letters and returns all there are; spare is used for the next
// ones.
func (b *mailbox) take(ctx context.Context, spare []letter) ([]letter, error) {
	for {
		b.mu.Lock()
		got := b.in
		if len(got) > 0 {
			b.in = spare[:0]
			b.mu.Unlock()
			return got, nil
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.signal:
		}
	}
}

// drain returns what is left.
func (b *mailbox) drain() []letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := b.in
	b.in = nil
	return rest
}
