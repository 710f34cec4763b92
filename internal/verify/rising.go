package verify

import (
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// rising shows that the order of keys is kept in a target segment without looking
// at keys: where all messages of a lane rise in a part of the hash ring, so do
// those of each key. A bridge that nothing interrupts stores them like that, but
// for the parts of one source entry, which hold different keys. What does not rise
// is a doubt, for order to look into. So a comparison needs no memory for keys,
// nor a look-up for each message.
type rising struct {
	lanes  *lanes
	within reroute.HashRange // of the segment
	all    map[int32]*course // by lane
	of     int32             // the last lane
	last   *course
	doubts doubts
}

// course is how far a lane is in a segment and those that it came from.
type course struct {
	// ended: a lane that comes after it was seen, too.
	ended bool
	marks [keyless]mark
	// parts are the messages of the highest entry that was seen, and where.
	top   replicate.Position
	parts []part
}

// mark is the highest message of a lane in a range of the ring.
type mark struct {
	pos   replicate.Position
	index int32
	last  int32 // the last of the entry's parts there: an index, or one of the below
}

const (
	none   = -1
	unsure = -2 // there may be more, in a segment before this one
)

// part is a message of the entry at the top; before is the one before it, of its range.
type part struct {
	key           uint64
	index, before int32
}

// newRising goes on from the segments that a segment came from, which are read to their ends.
func newRising(l *lanes, s *reroute.Segment, parents ...*rising) *rising {
	r := &rising{lanes: l, within: s.Range, all: map[int32]*course{}, of: none}
	for _, p := range parents {
		for lane, c := range p.all {
			r.course(lane).inherit(c)
		}
	}
	return r
}

func (r *rising) course(lane int32) *course {
	if lane == r.of {
		return r.last
	}
	c := r.all[lane]
	if c == nil {
		c = r.begin(lane)
	}
	r.of, r.last = lane, c
	return c
}

// begin notes a lane that was not seen before: whatever it came from should be complete.
func (r *rising) begin(lane int32) *course {
	c := &course{top: before()}
	for i := range c.marks {
		c.marks[i] = mark{pos: before(), last: none}
	}
	own := &r.lanes.all[lane]
	for other, o := range r.all {
		l := &r.lanes.all[other]
		switch {
		case !l.segment.Range.Overlaps(own.segment.Range):
		case l.rank < own.rank:
			o.ended = true
		default:
			c.ended = true
		}
	}
	r.all[lane] = c
	return c
}

func (c *course) inherit(o *course) {
	for i := range c.marks {
		m, theirs := &c.marks[i], o.marks[i]
		if order := theirs.pos.Compare(m.pos); order > 0 || order == 0 && theirs.index > m.index {
			*m = theirs
		}
		m.last = unsure
	}
}

// see takes the next message of the segment.
func (r *rising) see(m *message) {
	if m.rng == keyless {
		return
	}
	c := r.course(m.lane)
	if c.ended || !r.within.Contains(m.hash) { // order looks at other lanes and segments, too
		r.doubts.ranges[m.rng], r.doubts.all = true, true
		return
	}
	if m.pos.Compare(c.top) > 0 {
		c.top, c.parts = m.pos, c.parts[:0]
	}
	k := &c.marks[m.rng]
	switch order := m.pos.Compare(k.pos); {
	case order > 0:
		k.pos, k.index, k.last = m.pos, m.index, none
	case order == 0 && m.index > k.index:
		k.index = m.index
	case order == 0 && m.pos == c.top && c.rises(m, k.last):
	default:
		r.doubts.add(m.rng, span{m.lane, m.pos, k.pos})
		return
	}
	if m.pos == c.top {
		c.parts = append(c.parts, part{m.key, m.index, k.last})
		k.last = int32(len(c.parts) - 1)
	}
}

// rises looks through the parts of an entry in a range for one of the key of m that
// m should have come before.
func (c *course) rises(m *message, last int32) bool {
	for last >= 0 {
		p := &c.parts[last]
		if p.key == m.key && p.index >= m.index {
			return false
		}
		last = p.before
	}
	return last == none
}

// span is a stretch of a lane, both ends included.
type span struct {
	lane     int32
	from, to replicate.Position
}

// doubts are where keys may not be in their order: in these ranges of the ring,
// and between these positions.
type doubts struct {
	ranges [keyless]bool
	spans  []span
	all    bool // anywhere
}

// mostSpans is how many stretches are told apart.
const mostSpans = 1024

func (d *doubts) add(rng int, s span) {
	d.ranges[rng] = true
	if n := len(d.spans); n > 0 {
		last := &d.spans[n-1]
		if last.lane == s.lane && s.from.Compare(last.to) <= 0 && last.from.Compare(s.to) <= 0 {
			last.from, last.to = least(last.from, s.from), greatest(last.to, s.to)
			return
		}
	}
	if len(d.spans) == mostSpans {
		d.all = true
		return
	}
	d.spans = append(d.spans, s)
}

func (d *doubts) merge(o *doubts) {
	for i, doubted := range o.ranges {
		d.ranges[i] = d.ranges[i] || doubted
	}
	d.spans, d.all = append(d.spans, o.spans...), d.all || o.all
}

func (d *doubts) any() bool { return d.all || len(d.spans) > 0 }

// hold reports whether a block may be what is in doubt.
func (d *doubts) hold(b block) bool {
	if d.all {
		return true
	}
	for _, s := range d.spans {
		if s.lane == b.lane && compareBlocks(blockOf(ident{lane: s.lane, pos: s.from}), b) <= 0 &&
			compareBlocks(b, blockOf(ident{lane: s.lane, pos: s.to})) <= 0 {
			return true
		}
	}
	return false
}

func least(a, b replicate.Position) replicate.Position {
	if b.Compare(a) < 0 {
		return b
	}
	return a
}

func greatest(a, b replicate.Position) replicate.Position {
	if b.Compare(a) > 0 {
		return b
	}
	return a
}
