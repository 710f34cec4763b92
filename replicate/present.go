package replicate

import "slices"

// found is one entry of this lane that a scan met in a target segment.
type found struct {
	source  Position // the source entry
	indices []int    // of its messages; nil: all
	total   int
	at      Position // where it is stored
}

// presence says which messages of one source entry are stored at the target.
type presence struct {
	whole bool
	has   []bool // by index
}

// presences are what an opening found above the frontier, by source entry.
type presences map[Position]*presence

func (ps presences) add(f found) {
	p := ps[f.source]
	if p == nil {
		p = &presence{has: make([]bool, f.total)}
		ps[f.source] = p
	}
	if f.indices == nil {
		p.whole = true
	}
	for _, i := range f.indices {
		if i < len(p.has) {
			p.has[i] = true
		}
	}
}

// missing returns the messages of an entry that are not stored yet, and how many
// are; nil and 0 where none is known to be.
func (p *presence) missing(messages int) (include []int, present int) {
	if p == nil {
		return nil, 0
	}
	if p.whole {
		return nil, messages
	}
	for i := range messages {
		if i >= len(p.has) || !p.has[i] {
			include = append(include, i)
		}
	}
	return include, messages - len(include)
}

// holds reports whether f is the stored copy of the part.
func (f *found) holds(p *part) bool {
	return f.source == p.entry.pos && (f.indices == nil) == (p.indices == nil) && slices.Equal(f.indices, p.indices)
}
