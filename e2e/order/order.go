// Package order judges what came out of a copy: what was lost, what came more
// than once, and for which keys the order of first occurrences broke.
package order

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Message is one numbered message. Seq counts the messages of its key; a
// message without key (Key "-") has no order.
type Message struct {
	ID  string
	Key string
	Seq int64
}

// NoKey is the Key of a message without one.
const NoKey = "-"

// Break is a first occurrence that came after a later one of its key.
type Break struct {
	Message Message
	After   int64 // the highest number of the key that had come before
}

// Checker takes what was published and what arrived, in any interleaving. It
// is not safe for concurrent use.
type Checker struct {
	published map[string]Message // receipted
	maybe     map[string]Message // sent, fate unknown
	copies    map[string]int     // distinct stored positions of each arrived id
	positions map[string]bool
	high      map[string]int64
	breaks    []Break
	redeliver int
	waiting   int // published and not yet arrived
}

// New returns an empty Checker.
func New() *Checker {
	return &Checker{published: map[string]Message{}, maybe: map[string]Message{}, copies: map[string]int{},
		positions: map[string]bool{}, high: map[string]int64{}}
}

// Published records a message that the source's broker receipted.
func (c *Checker) Published(m Message) {
	if _, known := c.published[m.ID]; known {
		return
	}
	c.published[m.ID] = m
	if c.copies[m.ID] == 0 {
		c.waiting++
	}
}

// Maybe records a message that was sent without a receipt: it may arrive or
// not.
func (c *Checker) Maybe(m Message) { c.maybe[m.ID] = m }

// Arrived records a message seen at the target under its stored position. The
// same position again is the reader's own redelivery, not a duplicate.
func (c *Checker) Arrived(m Message, position string) {
	if c.positions[position] {
		c.redeliver++
		return
	}
	c.positions[position] = true
	c.copies[m.ID]++
	if c.copies[m.ID] > 1 {
		return
	}
	if _, published := c.published[m.ID]; published {
		c.waiting--
	}
	if m.Key == NoKey {
		return
	}
	if high, seen := c.high[m.Key]; seen && m.Seq < high {
		c.breaks = append(c.breaks, Break{Message: m, After: high})
		return
	}
	c.high[m.Key] = m.Seq
}

// Waiting is the number of published messages that have not arrived.
func (c *Checker) Waiting() int { return c.waiting }

// Distinct is the number of different messages that have arrived.
func (c *Checker) Distinct() int { return len(c.copies) }

// Copies is the number of stored copies of a message that have arrived.
func (c *Checker) Copies(id string) int { return c.copies[id] }

// Report is a verdict.
type Report struct {
	Published, Maybe, Arrived int // distinct messages
	Redelivered               int // by the reader's own broker, not counted as duplicates
	Lost                      []Message
	Foreign                   []string // arrived, but neither published nor maybe
	Duplicates                map[string]int
	Breaks                    []Break
}

// Report judges what has been recorded so far.
func (c *Checker) Report() Report {
	r := Report{Published: len(c.published), Maybe: len(c.maybe), Arrived: len(c.copies), Redelivered: c.redeliver,
		Duplicates: map[string]int{}, Breaks: c.breaks}
	for id, m := range c.published {
		if c.copies[id] == 0 {
			r.Lost = append(r.Lost, m)
		}
	}
	slices.SortFunc(r.Lost, func(a, b Message) int { return strings.Compare(a.ID, b.ID) })
	for id, n := range c.copies {
		if n > 1 {
			r.Duplicates[id] = n - 1
		}
		_, published := c.published[id]
		_, maybe := c.maybe[id]
		if !published && !maybe {
			r.Foreign = append(r.Foreign, id)
		}
	}
	slices.Sort(r.Foreign)
	return r
}

// Rule is what a scenario asks of a Report.
type Rule int

// The rules: nothing lost and order kept are asked always.
const (
	Once        Rule = iota // each message exactly once
	AtLeastOnce             // duplicates allowed
)

// Problems lists what breaks the rule, nil for a pass.
func (r Report) Problems(rule Rule) []string {
	var out []string
	add := func(n int, what string, examples any) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s: %v", n, what, examples))
		}
	}
	add(len(r.Lost), "lost", first(r.Lost))
	add(len(r.Foreign), "arrived that nobody published", first(r.Foreign))
	add(len(r.Breaks), "out of order", first(r.Breaks))
	if rule == Once {
		add(len(r.Duplicates), "more than once", first(slices.Sorted(maps.Keys(r.Duplicates))))
	}
	return out
}

// String is one line of counts.
func (r Report) String() string {
	return fmt.Sprintf("published %d, maybe %d, arrived %d, lost %d, duplicated %d, out of order %d, redelivered to the reader %d",
		r.Published, r.Maybe, r.Arrived, len(r.Lost), len(r.Duplicates), len(r.Breaks), r.Redelivered)
}

func first[T any](all []T) []T { return all[:min(len(all), 10)] }
