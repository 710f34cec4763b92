package pulsartest

import (
	"maps"
	"slices"
	"time"
)

// cursor is how far a subscription is: all entries below mark are acknowledged,
// and of those above it the ones in acked. read is the next to deliver.
type cursor struct {
	mark  int64
	acked map[int64]bool
	read  int64
	// partial is what is left of batches: a set bit is a message that is not acknowledged.
	partial map[int64][]int64

	// What a crash brings back: the broker writes marks down at most so often.
	savedMark  int64
	savedAcked map[int64]bool
	savedAt    time.Time
}

func newCursor(at int64) *cursor {
	return &cursor{mark: at, read: at, savedMark: at, acked: map[int64]bool{}}
}

func (c *cursor) isAcked(n int64) bool { return n < c.mark || c.acked[n] }

// backlog counts what is not acknowledged, in entries, markers included (P21).
func (c *cursor) backlog(l *log) int64 {
	n := l.end() - max(c.mark, l.start)
	for i := range c.acked {
		if i >= l.start {
			n--
		}
	}
	return n
}

// ackTo acknowledges everything below n.
func (c *cursor) ackTo(n int64) {
	c.mark = max(c.mark, n)
	for i := range c.acked {
		if i < c.mark {
			delete(c.acked, i)
		}
	}
	for i := range c.partial {
		if i < c.mark {
			delete(c.partial, i)
		}
	}
	c.settle()
}

// ackPart acknowledges a part of entry n, and tells whether something is left of it (facts 9.3). No
// set means all.
func (c *cursor) ackPart(n int64, set []int64) (rest bool) {
	left := slices.Clone(set)
	for i, old := range c.partial[n] {
		if i < len(left) {
			left[i] &= old
		}
	}
	if c.isAcked(n) || !slices.ContainsFunc(left, func(word int64) bool { return word != 0 }) {
		delete(c.partial, n)
		return false
	}
	if c.partial == nil {
		c.partial = map[int64][]int64{}
	}
	c.partial[n] = left
	return true
}

// ack acknowledges entry n.
func (c *cursor) ack(n int64) {
	if n >= c.mark {
		c.acked[n] = true
		c.settle()
	}
}

// settle moves the mark over what is acknowledged without a gap.
func (c *cursor) settle() {
	for c.acked[c.mark] {
		delete(c.acked, c.mark)
		c.mark++
	}
	c.read = max(c.read, c.mark)
}

// rewind starts delivery over at the mark (P10).
func (c *cursor) rewind() { c.read = c.mark }

// seek moves the subscription, back too.
func (c *cursor) seek(n int64) {
	*c = cursor{mark: n, read: n, acked: map[int64]bool{}, savedMark: c.savedMark, savedAcked: c.savedAcked, savedAt: c.savedAt}
}

// save writes the mark down, unless that was done less than every ago (P11:
// managedLedgerDefaultMarkDeleteRateLimit, 1 s). It tells whether it did.
func (c *cursor) save(now time.Time, every time.Duration) bool {
	if every > 0 && now.Sub(c.savedAt) < every {
		return false
	}
	c.savedMark, c.savedAcked, c.savedAt = c.mark, maps.Clone(c.acked), now
	return true
}

// rollBack is what a crash of the broker does: acknowledgements that were not
// written down are lost (P11).
func (c *cursor) rollBack() {
	c.mark, c.acked, c.partial = c.savedMark, maps.Clone(c.savedAcked), nil
	if c.acked == nil {
		c.acked = map[int64]bool{}
	}
	c.rewind()
}
