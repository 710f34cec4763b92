package verify

import (
	"slices"

	"github.com/geobridge/geobridge/replicate"
)

// targetDigest adds up what one target segment holds.
//
// A keyless message counts at the source from where all of its lane does (see
// bounds), which the target learns late. Those that may come before are kept
// until the end; should they be too many, all count, and the range is narrowed.
type targetDigest struct {
	digests
	blocks blocks
	bounds *bounds
	rising *rising
	early  []early
	over   bool
}

// early is a keyless message that may not count.
type early struct {
	ident
	n   int
	sum sum
	at  replicate.Position
}

// mostEarly is how many a segment keeps.
const mostEarly = 1 << 16

// begin starts what goes on from a segment's parents.
func (t *targetDigest) begin(l *lanes, p *pass, i int, all []targetDigest) {
	segments := p.layout.Segments()
	var parents []*rising
	for j, s := range segments {
		if slices.Contains(segments[i].Parents, s.ID) {
			parents = append(parents, all[j].rising)
		}
	}
	t.bounds, t.blocks, t.rising = p.bounds, newBlocks(), newRising(l, segments[i], parents...)
}

func (t *targetDigest) add(m *message, at replicate.Position) {
	if m.rng == keyless && !t.over && !t.bounds.counts(m.ident) {
		if len(t.early) < mostEarly {
			t.early = append(t.early, early{m.ident, m.n, m.sum, at})
			return
		}
		t.over = true
	}
	t.digests.add(m)
	t.blocks.add(m.ident, m.n, m.sum, at)
	t.rising.see(m)
}

// finish takes up what counts after all, once all of the target is read, and
// tells how many messages do not.
func (t *targetDigest) finish() (left int64) {
	for _, e := range t.early {
		if t.over || t.bounds.counts(e.ident) {
			t.digests.add(&message{ident: e.ident, n: e.n, rng: keyless, sum: e.sum})
			t.blocks.add(e.ident, e.n, e.sum, e.at)
		} else {
			left += int64(e.n)
		}
	}
	t.early = nil
	return left
}

// sourceDigest adds up what one lane holds.
type sourceDigest struct {
	digests
	blocks blocks
}

func (s *sourceDigest) add(m *message) {
	s.digests.add(m)
	s.blocks.add(m.ident, m.n, m.sum, m.pos)
}

// leave notes a message that does not count, since the target may hold it all the same.
func (s *sourceDigest) leave(m *message) { s.blocks.touch(m.ident, m.pos) }
