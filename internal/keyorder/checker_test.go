package keyorder_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geobridge/geobridge/internal/keyorder"
)

func msg(seq uint64) keyorder.Message { return keyorder.Message{Source: "p", Key: "k", Seq: seq} }

func at(segment string, entry int64) keyorder.Position {
	return keyorder.Position{Segment: segment, Ledger: 1, Entry: entry}
}

type act func(*keyorder.Checker)

func published(from, to uint64) act {
	return func(c *keyorder.Checker) {
		for n := from; n <= to; n++ {
			c.Published(msg(n))
		}
	}
}

// gets is one delivery of message seq, stored in segment s at that entry.
func gets(consumer string, seq uint64, entry int64) act {
	return func(c *keyorder.Checker) { c.Delivered(consumer, msg(seq), at("s", entry)) }
}

func getsFrom(segment, consumer string, seq uint64, entry int64) act {
	return func(c *keyorder.Checker) { c.Delivered(consumer, msg(seq), at(segment, entry)) }
}

func acked(consumer string, seq uint64) act {
	return func(c *keyorder.Checker) { c.Acked(consumer, msg(seq)) }
}

func crashed(consumer string) act  { return func(c *keyorder.Checker) { c.Crashed(consumer) } }
func left(consumer string) act     { return func(c *keyorder.Checker) { c.Left(consumer) } }
func joined(consumer string) act   { return func(c *keyorder.Checker) { c.Joined(consumer) } }
func reopened(consumer string) act { return func(c *keyorder.Checker) { c.Reopened(consumer, "s") } }

func keyless(seq uint64, entry int64) act {
	return func(c *keyorder.Checker) {
		m := keyorder.Message{Source: "p", Seq: seq, Unordered: true}
		c.Published(m)
		c.Delivered("a", m, at("s", entry))
	}
}

func TestChecker(t *testing.T) {
	tests := []struct {
		name string
		acts []act
		want string // of the only problem; "" for a pass
	}{
		{"in order, at one consumer", []act{published(1, 3), gets("a", 1, 1), gets("a", 2, 2), gets("a", 3, 3)}, ""},
		{"delivered before the receipt is told", []act{gets("a", 1, 1), published(1, 1)}, ""},
		{"maybe, and it came", []act{func(c *keyorder.Checker) { c.Maybe(msg(1)) }, gets("a", 1, 1)}, ""},
		{"maybe, and it did not", []act{func(c *keyorder.Checker) { c.Maybe(msg(1)) }}, ""},
		{"lost", []act{published(1, 5), gets("a", 1, 1), gets("a", 5, 5)}, "3 lost (lost: p/k#2-4)"},
		{"foreign", []act{published(1, 1), gets("a", 1, 1), gets("a", 2, 2)}, "1 foreign (foreign: p/k#2 at s:1:2:0)"},
		{"out of order", []act{published(1, 3), gets("a", 1, 1), gets("a", 3, 3), acked("a", 3), gets("b", 2, 2)},
			"1 out of order (out of order: p/k#2 at s:1:2:0 by b, after #3 at s:1:3:0)"},
		{"the first number is zero", []act{published(0, 1), gets("a", 1, 2), gets("a", 0, 1)},
			"1 out of order (out of order: p/k#0 at s:1:1:0 by a, after #1 at s:1:2:0)"},
		{"second stored copy", []act{published(1, 2), gets("a", 1, 1), gets("a", 2, 2), gets("a", 1, 3)},
			"1 duplicate (duplicate: p/k#1 at s:1:3:0 by a, after #1 at s:1:1:0)"},
		{"second stored copy, redelivered", []act{published(1, 1), gets("a", 1, 1), gets("a", 1, 3), crashed("a"), gets("b", 1, 1), gets("b", 1, 3)},
			"1 duplicate (duplicate: p/k#1 at s:1:3:0 by a, after #1 at s:1:1:0)"},
		{"second stored copy in a child", []act{published(1, 1), gets("a", 1, 1), acked("a", 1), getsFrom("child", "b", 1, 1)},
			"1 duplicate (duplicate: p/k#1 at child:1:1:0 by b, after #1 at s:1:1:0)"},
		{"redelivered to a peer after a crash", []act{published(1, 3), gets("a", 1, 1), gets("a", 2, 2), crashed("a"),
			gets("b", 1, 1), gets("b", 2, 2), gets("b", 3, 3)}, ""},
		{"handed over, given back by a crash", []act{published(1, 4), gets("a", 1, 1), acked("a", 1), joined("b"), gets("b", 2, 2), gets("b", 3, 3),
			crashed("b"), gets("a", 2, 2), gets("a", 3, 3), gets("a", 4, 4)}, ""},
		{"redelivered after a crash, behind newer ones", []act{published(1, 3), gets("a", 1, 1), gets("a", 2, 2), crashed("a"),
			gets("b", 3, 3), gets("b", 2, 2)}, "1 rewound (rewound: p/k#2 at s:1:2:0 by b, after #3 at s:1:3:0 at consumer b)"},
		{"rewound by its own reopening", []act{published(1, 2), gets("a", 1, 1), gets("a", 2, 2), reopened("a"), gets("a", 1, 1), gets("a", 2, 2)}, ""},
		{"rewound without it", []act{published(1, 2), gets("a", 1, 1), gets("a", 2, 2), gets("a", 1, 1)},
			"1 rewound (rewound: p/k#1 at s:1:1:0 by a, after #2 at s:1:2:0 at consumer a)"},
		{"at two consumers at a time", []act{published(1, 2), gets("a", 1, 1), gets("b", 2, 2)},
			"1 overlap (overlap: p/k#2 at s:1:2:0 by b, after #1 at s:1:1:0 at consumer a)"},
		{"moved when all was acknowledged", []act{published(1, 3), gets("a", 1, 1), gets("a", 2, 2), acked("a", 2), gets("b", 3, 3)}, ""},
		{"moved when some was acknowledged", []act{published(1, 3), gets("a", 1, 1), gets("a", 2, 2), acked("a", 1), gets("b", 3, 3)},
			"1 overlap (overlap: p/k#3 at s:1:3:0 by b, after #2 at s:1:2:0 at consumer a)"},
		{"left drained", []act{published(1, 1), gets("a", 1, 1), acked("a", 1), left("a")}, ""},
		{"left with messages held", []act{published(1, 1), gets("a", 1, 1), left("a")}, "1 left holding (left holding: p/k#1 at s:1:1:0 by a)"},
		{"keyless ones in any order", []act{keyless(2, 2), keyless(1, 1), keyless(2, 2)}, ""},
		{"a keyless one twice", []act{keyless(2, 2), keyless(2, 3)}, "1 duplicate (duplicate: p/#2 at s:1:3:0 by a, after #2 at s:1:2:0)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := keyorder.New(keyorder.Options{Holding: true})
			for _, a := range tt.acts {
				a(c)
			}
			if got := strings.Join(c.Report().Problems(), "; "); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestCheckerForgets(t *testing.T) {
	c := keyorder.New(keyorder.Options{Recent: 2, Keep: 1})
	for n := range uint64(100) {
		c.Published(msg(n))
		if v := c.Delivered("a", msg(n), at("s", int64(n))); v != keyorder.First {
			t.Fatalf("%d is %v", n, v)
		}
	}
	c.Crashed("a")
	for n := range uint64(100) {
		if v := c.Delivered("b", msg(n), at("s", int64(n))); v != keyorder.Redelivery {
			t.Fatalf("%d is %v", n, v)
		}
	}
	for n := range uint64(3) {
		if v := c.Delivered("b", msg(n), at("s", int64(100+n))); v != keyorder.SecondCopy {
			t.Errorf("a second copy of %d is %v", n, v)
		}
	}
	r := c.Report()
	if r.Found[keyorder.Duplicate] != 3 || len(r.Findings) != 1 {
		t.Errorf("found %v, kept %v", r.Found, r.Findings)
	}
	if want := "published 100, delivered 100, waiting 0, redelivered 100, duplicate 3, out of order 0"; r.String() != want {
		t.Errorf("got %s, want %s", r, want)
	}
	if p := r.Problems(keyorder.Duplicate); p != nil {
		t.Errorf("allowed, and told: %v", p)
	}
}

// TestCheckerMemory: a key numbered without holes costs the same for ever, also
// through many segments.
func TestCheckerMemory(t *testing.T) {
	c := keyorder.New(keyorder.Options{Holding: true})
	step := func(from, to uint64) {
		for n := from; n < to; n++ {
			consumer := fmt.Sprint("c", n%3)
			c.Published(msg(n))
			c.Delivered(consumer, msg(n), at(fmt.Sprint("s", n/50), int64(n)))
			c.Acked(consumer, msg(n))
		}
	}
	step(0, 10_000)
	before := keyorder.Footprint(c)
	step(10_000, 50_000)
	if after := keyorder.Footprint(c); after != before {
		t.Errorf("%d things are remembered, and were %d", after, before)
	}
	if p := c.Report().Problems(); p != nil || slices.Contains(p, "") {
		t.Error(p)
	}
	if v := c.Delivered("c0", msg(3), at("s0", 3)); v != keyorder.Redelivery {
		t.Errorf("from a forgotten segment: %v", v)
	}
}
