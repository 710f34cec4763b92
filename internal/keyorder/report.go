package keyorder

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what can be found.
type Kind int

// The kinds of findings.
const (
	// Lost was published and never came.
	Lost Kind = iota
	// Foreign came, and nobody published it.
	Foreign
	// Duplicate is a second stored copy; Other is one that came before.
	Duplicate
	// OutOfOrder came for the first time after a later message of its key:
	// Other.
	OutOfOrder
	// Rewound is a redelivery to a consumer that had gone on to Other, and was
	// not reopened since.
	Rewound
	// Overlap came while another consumer held Other, of the same key, and had
	// not acknowledged it.
	Overlap
	// LeftHolding was held, and not acknowledged, when its consumer left.
	LeftHolding
	kinds
)

func (k Kind) String() string {
	names := [...]string{"lost", "foreign", "duplicate", "out of order", "rewound", "overlap", "left holding"}
	if k < 0 || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Finding is one thing that went wrong. Where it is about a range of numbers,
// Through is the last of them.
type Finding struct {
	Kind     Kind
	Message  Message
	Through  uint64
	Consumer string
	At       Position // zero where none is known
	// Other is the number that Message does not fit to, where that is stored,
	// and who held it.
	Other         uint64
	OtherAt       Position
	OtherConsumer string
}

func (f Finding) as(k Kind, other stored, consumer string) Finding {
	f.Kind, f.Other, f.OtherAt, f.OtherConsumer = k, other.seq, other.at, consumer
	return f
}

func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Kind, f.Message)
	if f.Through > f.Message.Seq {
		fmt.Fprintf(&b, "-%d", f.Through)
	}
	if f.At != (Position{}) {
		fmt.Fprintf(&b, " at %s", f.At)
	}
	if f.Consumer != "" {
		fmt.Fprintf(&b, " by %s", f.Consumer)
	}
	if f.OtherAt != (Position{}) {
		fmt.Fprintf(&b, ", after #%d at %s", f.Other, f.OtherAt)
	}
	if f.OtherConsumer != "" {
		fmt.Fprintf(&b, " at consumer %s", f.OtherConsumer)
	}
	return b.String()
}

// Counts are running totals, of messages.
type Counts struct {
	Published   int
	Delivered   int // all deliveries
	Distinct    int // different messages delivered
	Redelivered int
	// RedeliveredAcked came again though they had been acknowledged: a broker's
	// crash does that.
	RedeliveredAcked int
	Waiting          int // published and not delivered
}

// Report is what is known so far.
type Report struct {
	Counts
	Found    map[Kind]int
	Findings []Finding // by kind, the first Options.Keep of each
}

func (c *Checker) find(f Finding) {
	c.found[f.Kind]++
	if len(c.findings[f.Kind]) < c.opts.Keep {
		c.findings[f.Kind] = append(c.findings[f.Kind], f)
	}
}

// Report judges what was told so far: what is still on its way counts as lost.
func (c *Checker) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Report{Counts: c.counts, Found: map[Kind]int{}}
	var open []Finding
	for k, l := range c.lanes {
		for _, s := range l.published.without(&l.seen) {
			r.Found[Lost] += int(s.size())
			open = append(open, Finding{Kind: Lost, Message: k.message(s.low), Through: s.high})
		}
		for _, s := range l.seen.without(&l.published, &l.maybe) {
			r.Found[Foreign] += int(s.size())
			open = append(open, Finding{Kind: Foreign, Message: k.message(s.low), Through: s.high, At: l.copyOf(s.low).at})
		}
	}
	slices.SortFunc(open, func(a, b Finding) int { return strings.Compare(a.String(), b.String()) })
	kept := map[Kind]int{}
	for _, f := range open {
		if kept[f.Kind]++; kept[f.Kind] <= c.opts.Keep {
			r.Findings = append(r.Findings, f)
		}
	}
	for k := range kinds {
		if c.found[k] > 0 {
			r.Found[k] = c.found[k]
		}
		r.Findings = append(r.Findings, c.findings[k]...)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return int(a.Kind - b.Kind) })
	return r
}

// Problems lists what was found but for the kinds that are allowed: a line for
// each kind, with its first findings. Nil is a pass.
func (r Report) Problems(allowed ...Kind) []string {
	var out []string
	for k := range kinds {
		if r.Found[k] == 0 || slices.Contains(allowed, k) {
			continue
		}
		var some []string
		for _, f := range r.Findings {
			if f.Kind == k && len(some) < 5 {
				some = append(some, f.String())
			}
		}
		out = append(out, fmt.Sprintf("%d %s (%s)", r.Found[k], k, strings.Join(some, "; ")))
	}
	return out
}

// String is one line of counts.
func (r Report) String() string {
	line := fmt.Sprintf("published %d, delivered %d, waiting %d, redelivered %d", r.Published, r.Distinct, r.Waiting, r.Redelivered)
	for k := range kinds {
		if r.Found[k] > 0 || k == Duplicate || k == OutOfOrder {
			line += fmt.Sprintf(", %s %d", k, r.Found[k])
		}
	}
	return line
}
