package verify

import (
	"fmt"
	"time"

	"github.com/geobridge/geobridge/replicate"
)

// Kind is what is wrong with a message.
type Kind int

// The kinds of faults.
const (
	Lost       Kind = iota // the target does not hold it
	Duplicated             // the target holds it more than once
	Altered                // the target holds something else
	OutOfOrder             // the target holds it behind a later one of its key
	Unknown                // the target holds it, the source never did
)

func (k Kind) String() string {
	return [...]string{"lost", "duplicated", "altered", "out of order", "unknown"}[k]
}

// MarshalText gives the form of String, as one word.
func (k Kind) MarshalText() ([]byte, error) {
	return []byte([...]string{"lost", "duplicated", "altered", "out_of_order", "unknown"}[k]), nil
}

// FaultCounts counts faulty messages by kind, in the ranges that were narrowed.
type FaultCounts struct {
	Lost       int64 `json:"lost"`
	Duplicated int64 `json:"duplicated"`
	Altered    int64 `json:"altered"`
	OutOfOrder int64 `json:"out_of_order"`
	Unknown    int64 `json:"unknown"`
}

func (c *FaultCounts) add(k Kind, n int64) {
	*[...]*int64{&c.Lost, &c.Duplicated, &c.Altered, &c.OutOfOrder, &c.Unknown}[k] += n
}

// Total is how many there are.
func (c FaultCounts) Total() int64 {
	return c.Lost + c.Duplicated + c.Altered + c.OutOfOrder + c.Unknown
}

// SourcePosition is where a message stands at the source. Index is −1 for all
// messages of an entry that nobody can open here.
type SourcePosition struct {
	Segment  uint64             `json:"segment"`
	Position replicate.Position `json:"position"`
	Index    int                `json:"index"`
}

func (p SourcePosition) String() string {
	if p.Index == wholeEntry {
		return fmt.Sprintf("segment %d %s", p.Segment, p.Position)
	}
	return fmt.Sprintf("segment %d %s index %d", p.Segment, p.Position, p.Index)
}

// TargetPosition is where an entry is stored at the target.
type TargetPosition struct {
	Segment  uint64             `json:"segment"`
	Position replicate.Position `json:"position"`
}

func (p TargetPosition) String() string { return fmt.Sprintf("segment %d %s", p.Segment, p.Position) }

// Fault is one message that is not as it should be.
type Fault struct {
	Kind   Kind             `json:"kind"`
	Key    *string          `json:"key,omitempty"` // nil: it has none, or none is known
	Source SourcePosition   `json:"source"`
	Target []TargetPosition `json:"target,omitempty"`
	// Fields are those that differ, of one that is altered.
	Fields []string `json:"fields,omitempty"`
	// Before is what one out of order should have come before.
	Before *Fault `json:"before,omitempty"`
}

// Result is the answer for a mapping.
type Result string

// The answers.
const (
	Equal           Result = "equal"
	Differs         Result = "differs"
	NothingCompared Result = "nothing_compared" // which proves nothing
	NotAsked        Result = "not_asked"        // a cluster could not be asked
)

// Range is a part of the hash ring: the keys whose segment hash starts with one
// byte, or, as "keyless", all messages without a key that can be read.
type Range struct {
	Range      string `json:"range"`
	Source     Sum    `json:"source"`
	Target     Sum    `json:"target"`
	OutOfOrder int64  `json:"out_of_order"`
	Equal      bool   `json:"equal"`
	// Narrowed: searched for the messages that differ; a part of it, if it was too large.
	Narrowed float64 `json:"narrowed,omitempty"`

	rng int
}

// Sum is what the messages of a range add up to, whatever their order.
type Sum struct {
	Messages int64  `json:"messages"`
	Digest   string `json:"digest"`
}

func newSum(c cell) Sum {
	return Sum{c.messages, fmt.Sprintf("%016x%016x", c.sum.hi, c.sum.lo)}
}

func rangeName(rng int) string {
	if rng == keyless {
		return "keyless"
	}
	return fmt.Sprintf("%02x00-%02xff", rng, rng)
}

// Report is the answer for one mapping, and what it rests on.
type Report struct {
	Mapping string        `json:"mapping"`
	From    replicate.Ref `json:"from"`
	To      replicate.Ref `json:"to"`
	Result  Result        `json:"result"`
	Reason  string        `json:"reason,omitempty"`

	Source SourceCounts `json:"source"`
	Target TargetCounts `json:"target"`
	// Ranges are those that hold anything. Those that differ at first but not when
	// they were narrowed are equal: one side was trimmed meanwhile.
	Ranges []Range     `json:"ranges"`
	Faults FaultCounts `json:"faults"`
	Named  []Fault     `json:"named"`
	// Lanes that have no record yet, so that all of their segments is in flight.
	Unrecorded []uint64 `json:"segments_without_record,omitempty"`

	Passes  int     `json:"passes"` // over both sides, or one
	Seconds float64 `json:"seconds"`
}

func (r *Report) took(d time.Duration) { r.Seconds = float64(d.Milliseconds()) / 1000 }

// differing are the ranges that are not equal.
func (r *Report) differing() (all []Range) {
	for _, x := range r.Ranges {
		if !x.Equal {
			all = append(all, x)
		}
	}
	return all
}
