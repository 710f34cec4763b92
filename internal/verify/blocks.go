package verify

import (
	"cmp"

	"github.com/geobridge/geobridge/replicate"
)

// block is a stretch of a lane: so many entries of one ledger at the source. Sums
// by block say where to look for what ranges say that differs, so that narrowing
// need not read everything again.
type block struct {
	lane   int32
	ledger int64
	n      int64
}

const blockEntries = 256

func blockOf(id ident) block { return block{id.lane, id.pos.Ledger, id.pos.Entry / blockEntries} }

// compareBlocks orders those of one lane.
func compareBlocks(a, b block) int {
	return cmp.Or(cmp.Compare(a.ledger, b.ledger), cmp.Compare(a.n, b.n))
}

// extent is what a segment holds of a block, and between which of its entries.
type extent struct {
	cell
	from, to replicate.Position
}

// blocks are the extents of one segment, of either side.
type blocks struct {
	all  map[block]*extent
	last *extent // of the last message, of which ident and place are:
	id   ident
	at   replicate.Position
}

func newBlocks() blocks { return blocks{all: map[block]*extent{}} }

// add takes the next message of the segment, stored at that position.
func (b *blocks) add(id ident, n int, s sum, at replicate.Position) {
	e := b.last
	if e == nil || id.pos != b.id.pos || at != b.at || id.lane != b.id.lane { // as a rule a message is of the same entry as the last
		e = b.touch(id, at)
	}
	e.messages += int64(n)
	e.sum.add(s)
}

// touch makes the block reach to where a message is.
func (b *blocks) touch(id ident, at replicate.Position) *extent {
	of := blockOf(id)
	e := b.last
	if e == nil || blockOf(b.id) != of {
		if e = b.all[of]; e == nil {
			e = &extent{from: before(), to: before()}
			b.all[of] = e
		}
	}
	if e.from == before() || at.Compare(e.from) < 0 {
		e.from = at
	}
	if at.Compare(e.to) > 0 {
		e.to = at
	}
	b.last, b.id, b.at = e, id, at
	return e
}

// differing are the blocks whose sums are not those of the other side.
func differing(source, target []blocks) map[block]bool {
	sums := map[block]cell{}
	for i := range target {
		for of, e := range target[i].all {
			c := sums[of]
			c.messages += e.messages
			c.sum.add(e.sum)
			sums[of] = c
		}
	}
	out := map[block]bool{}
	for i := range source {
		for of, e := range source[i].all {
			if sums[of] != e.cell {
				out[of] = true
			}
			delete(sums, of)
		}
	}
	for of, c := range sums {
		if c != (cell{}) {
			out[of] = true
		}
	}
	return out
}

// span is between which entries a segment holds anything of some blocks; false: nothing.
func (b *blocks) span(of map[block]bool) (from, to replicate.Position, any bool) {
	from, to = after(), before()
	for x := range of {
		if e := b.all[x]; e != nil && e.from != before() {
			any = true
			if e.from.Compare(from) < 0 {
				from = e.from
			}
			if e.to.Compare(to) > 0 {
				to = e.to
			}
		}
	}
	return from, to, any
}
