package keyorder

import (
	"slices"
	"sort"
)

// span is an inclusive range of numbers.
type span struct{ low, high uint64 }

func (s span) size() uint64 { return s.high - s.low + 1 }

// ranges is a set of numbers, as ascending spans with holes between them. Its
// zero value is empty.
type ranges struct{ spans []span }

// at finds the first span that does not end before n.
func (r *ranges) at(n uint64) int {
	if last := len(r.spans) - 1; last >= 0 && r.spans[last].high < n {
		return last + 1 // numbers mostly grow
	}
	return sort.Search(len(r.spans), func(i int) bool { return r.spans[i].high >= n })
}

func (r *ranges) has(n uint64) bool {
	i := r.at(n)
	return i < len(r.spans) && r.spans[i].low <= n
}

// add reports whether n is new.
func (r *ranges) add(n uint64) bool {
	i := r.at(n)
	if i < len(r.spans) && r.spans[i].low <= n {
		return false
	}
	below := i > 0 && r.spans[i-1].high+1 == n
	above := i < len(r.spans) && r.spans[i].low == n+1
	switch {
	case below && above:
		r.spans[i-1].high = r.spans[i].high
		r.spans = slices.Delete(r.spans, i, i+1)
	case below:
		r.spans[i-1].high = n
	case above:
		r.spans[i].low = n
	default:
		r.spans = slices.Insert(r.spans, i, span{n, n})
	}
	return true
}

func (r *ranges) size() uint64 {
	n := uint64(0)
	for _, s := range r.spans {
		n += s.size()
	}
	return n
}

// without is the spans of r that are in none of the others.
func (r *ranges) without(others ...*ranges) []span {
	left := slices.Clone(r.spans)
	for _, o := range others {
		var rest []span
		for _, s := range left {
			rest = append(rest, o.cut(s)...)
		}
		left = rest
	}
	return left
}

// cut is what of s is not in r.
func (r *ranges) cut(s span) []span {
	var out []span
	for i := r.at(s.low); i < len(r.spans) && r.spans[i].low <= s.high; i++ {
		if hole := r.spans[i]; hole.low > s.low {
			out = append(out, span{s.low, hole.low - 1})
		}
		if r.spans[i].high >= s.high {
			return out
		}
		s.low = r.spans[i].high + 1
	}
	return append(out, s)
}
