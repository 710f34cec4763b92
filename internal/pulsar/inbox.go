package pulsar

import (
	"context"
	"fmt"
	"time"
)

// Inbox is the ConsumerHandler of who reads a topic entry by entry. It holds a few
// times what its user permits, since a broker overdraws.
type Inbox struct {
	entries chan Message
	closed  chan error
	full    bool // more came: what follows would stand behind a hole
}

// NewInbox makes one that holds so many entries. Where more come, the reading is over.
func NewInbox(size int) *Inbox {
	return &Inbox{entries: make(chan Message, size), closed: make(chan error, 1)}
}

// Next waits for an entry, which the caller releases. ok is false if none came within
// wait (0: for ever). The error is why no more will come, once all that came was taken.
func (b *Inbox) Next(ctx context.Context, wait time.Duration) (m Message, ok bool, err error) {
	select {
	case m = <-b.entries:
		return m, true, nil
	default:
	}
	var late <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		late = t.C
	}
	select {
	case m = <-b.entries:
		return m, true, nil
	case err = <-b.closed:
		return m, false, err
	case <-late:
		return m, false, nil
	case <-ctx.Done():
		return m, false, ctx.Err()
	}
}

// Len is how many entries came and were not taken.
func (b *Inbox) Len() int { return len(b.entries) }

// Empty releases them. Closed has been called.
func (b *Inbox) Empty() {
	for {
		select {
		case m := <-b.entries:
			m.Entry.Release()
		default:
			return
		}
	}
}

// Message implements ConsumerHandler.
func (b *Inbox) Message(m Message) {
	if !b.full {
		select {
		case b.entries <- m:
			return
		default:
			b.full = true
			b.Closed(fmt.Errorf("more than %d unread entries", cap(b.entries)))
		}
	}
	m.Entry.Release()
}

// ActiveChanged implements ConsumerHandler.
func (*Inbox) ActiveChanged(bool) {}

// EndOfTopic implements ConsumerHandler: a hint that nobody needs.
func (*Inbox) EndOfTopic() {}

// Closed implements ConsumerHandler. The first reason counts.
func (b *Inbox) Closed(err error) {
	select {
	case b.closed <- err:
	default:
	}
}
