package keyorder

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Message names one published message.
type Message struct {
	// Source is who numbered it: a producer, or a run of one.
	Source string
	// Key is its key; its messages have an order.
	Key string
	// Seq numbers the messages of a source and key, in the order they were
	// published.
	Seq uint64
	// Unordered marks a message without a key: nothing is said of its order.
	Unordered bool
}

func (m Message) String() string { return fmt.Sprintf("%s/%s#%d", m.Source, m.Key, m.Seq) }

// Position is where a message is stored. Positions of one segment have an
// order.
type Position struct {
	Segment       string
	Ledger, Entry int64
	Index         int // within a batch
}

func (p Position) String() string {
	return fmt.Sprintf("%s:%d:%d:%d", p.Segment, p.Ledger, p.Entry, p.Index)
}

func (p Position) compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Ledger, o.Ledger), cmp.Compare(p.Entry, o.Entry), cmp.Compare(p.Index, o.Index))
}

// Verdict says what a delivery was.
type Verdict int

// What a delivery can be.
const (
	First      Verdict = iota // the message had not come before
	Redelivery                // the same stored copy again
	SecondCopy                // the message again, from another position
)

// Options bound what is remembered.
type Options struct {
	// Recent is how many stored positions are remembered for each key, default
	// 64: as many as can be delivered and not acknowledged, to be exact.
	Recent int
	// Keep is how many findings of each kind keep their details, default 20.
	Keep int
	// Holding says that Acked is told of all that is acknowledged, so that it
	// can be judged whether a key was at two consumers at a time.
	Holding bool
}

// Checker judges deliveries as they are told. It is safe for concurrent use,
// but order means the order of the calls: a consumer has to tell of a delivery
// before it acknowledges it, and of an acknowledgement before it sends it.
type Checker struct {
	opts Options

	mu       sync.Mutex
	lanes    map[laneKey]*lane
	counts   Counts
	found    map[Kind]int
	findings map[Kind][]Finding
}

type laneKey struct {
	source, key string
	unordered   bool
}

// New returns a Checker that was told nothing.
func New(o Options) *Checker {
	if o.Recent <= 0 {
		o.Recent = 64
	}
	if o.Keep <= 0 {
		o.Keep = 20
	}
	return &Checker{opts: o, lanes: map[laneKey]*lane{}, found: map[Kind]int{}, findings: map[Kind][]Finding{}}
}

func (c *Checker) lane(m Message) *lane {
	k := laneKey{m.Source, m.Key, m.Unordered}
	l := c.lanes[k]
	if l == nil {
		l = &lane{}
		c.lanes[k] = l
	}
	return l
}

// Published tells that a message is stored: it has to come.
func (c *Checker) Published(m Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lane(m)
	if l.published.add(m.Seq) {
		c.counts.Published++
		if !l.seen.has(m.Seq) {
			c.counts.Waiting++
		}
	}
}

// Maybe tells that a message may be stored or not: it was sent and has no
// receipt.
func (c *Checker) Maybe(m Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lane(m).maybe.add(m.Seq)
}

// Joined tells that a consumer begins, anew if it is known.
func (c *Checker) Joined(consumer string) { c.end(consumer, false) }

// Left tells that a consumer ended after it drained: what it still holds is
// found.
func (c *Checker) Left(consumer string) { c.end(consumer, true) }

// Crashed tells that a consumer ended, or is about to: what it holds comes
// again at others.
func (c *Checker) Crashed(consumer string) { c.end(consumer, false) }

func (c *Checker) end(consumer string, drained bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, l := range c.lanes {
		h := l.holders[consumer]
		if h == nil {
			continue
		}
		for _, s := range h.held {
			if drained {
				c.find(Finding{Kind: LeftHolding, Message: k.message(s.seq), Consumer: consumer, At: s.at})
			}
		}
		delete(l.holders, consumer)
	}
}

// Reopened tells that a consumer lost its hold on a segment and goes on in it:
// what it held there may come again, to it or to others.
func (c *Checker) Reopened(consumer, segment string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		if h := l.holders[consumer]; h != nil {
			h.drop(segment)
		}
	}
}

// Acked tells that a consumer is done with a message, and with all before it of
// its key. Only with Options.Holding does it matter.
func (c *Checker) Acked(consumer string, m Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lane(m).ack(consumer, m.Seq)
}

// Delivered tells that a consumer was given a message from a position.
func (c *Checker) Delivered(consumer string, m Message, at Position) Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, s := c.lane(m), stored{m.Seq, at}
	v := l.classify(s)
	f := Finding{Message: m, Consumer: consumer, At: at}
	c.counts.Delivered++
	switch v {
	case First:
		c.counts.Distinct++
		if l.published.has(m.Seq) {
			c.counts.Waiting--
		}
		if !m.Unordered && len(l.seen.spans) > 0 && m.Seq < l.high.seq {
			c.find(f.as(OutOfOrder, l.high, ""))
		} else {
			l.high = s
		}
	case SecondCopy:
		l.doubled = true
		c.find(f.as(Duplicate, l.copyOf(m.Seq), ""))
	case Redelivery:
		c.counts.Redelivered++
		if l.acked.has(m.Seq) {
			c.counts.RedeliveredAcked++
		}
	}
	if v != Redelivery {
		l.remember(s, c.opts.Recent)
	}
	if !m.Unordered {
		c.hold(l, f, s, v)
	}
	return v
}

// hold judges a delivery by what this and the other consumers have of its key.
func (c *Checker) hold(l *lane, f Finding, s stored, v Verdict) {
	if h := l.holders[f.Consumer]; v == Redelivery && h != nil && l.rewinds(h, s) {
		c.find(f.as(Rewound, h.last, f.Consumer))
	}
	for _, other := range slices.Sorted(maps.Keys(l.holders)) {
		if h := l.holders[other]; other != f.Consumer && len(h.held) > 0 {
			c.find(f.as(Overlap, h.held[0], other))
		}
	}
	h := l.holder(f.Consumer)
	h.last, h.live = s, true
	if c.opts.Holding {
		h.held = append(h.held, s)
	}
}

// copyOf is a stored copy that is remembered, or no position.
func (l *lane) copyOf(seq uint64) stored {
	for _, r := range l.recent {
		if r.seq == seq {
			return r
		}
	}
	return stored{seq: seq}
}

// Waiting is how many published messages have not come yet.
func (c *Checker) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts.Waiting
}

func (k laneKey) message(seq uint64) Message {
	return Message{Source: k.source, Key: k.key, Seq: seq, Unordered: k.unordered}
}
