package pulsartest

import (
	"cmp"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// sharing is how the consumers of a Shared or Key_Shared subscription divide its
// entries. Key_Shared has buckets, each with one owner; Shared is one bucket that is
// everybody's.
type sharing struct {
	buckets []bucket // nil: Shared
	members []*consumer
	owners  []*consumer // of each bucket
	queues  [][]int64   // of each bucket: entries that were read and are not in flight, ascending
	held    map[int64]holding
	counts  []map[*consumer]int // of each bucket: how many entries each consumer holds
	turn    int                 // of Shared
}

// holding is one entry in flight: delivered, and not acknowledged.
type holding struct {
	by     *consumer
	bucket int
}

func newSharing(buckets []bucket) *sharing {
	n := max(len(buckets), 1)
	g := &sharing{buckets: buckets, owners: make([]*consumer, n), queues: make([][]int64, n), held: map[int64]holding{}}
	for range n {
		g.counts = append(g.counts, map[*consumer]int{})
	}
	return g
}

func (g *sharing) join(c *consumer) {
	g.members = append(g.members, c)
	g.divide()
}

// leave takes back what a consumer holds: the survivors get it, in its order, as if it
// were new (facts 4.7).
func (g *sharing) leave(c *consumer) {
	g.members = slices.DeleteFunc(g.members, func(o *consumer) bool { return o == c })
	g.divide()
	g.takeBack(c, func(int64) bool { return true })
}

// divide gives neighbouring buckets to each, by name: as even as it goes.
func (g *sharing) divide() {
	slices.SortFunc(g.members, func(a, b *consumer) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id)) })
	clear(g.owners)
	for i, c := range g.members {
		n := len(g.members)
		for b := i * len(g.owners) / n; b < (i+1)*len(g.owners)/n; b++ {
			g.owners[b] = c
		}
	}
}

// takeBack queues what a consumer holds, as far as it is wanted.
func (g *sharing) takeBack(c *consumer, wanted func(n int64) bool) {
	back := map[int]bool{}
	for n, h := range g.held {
		if h.by == c && wanted(n) {
			g.release(n)
			g.queues[h.bucket] = append(g.queues[h.bucket], n)
			back[h.bucket] = true
		}
	}
	for b := range back {
		slices.Sort(g.queues[b])
	}
}

// release ends the flight of an entry.
func (g *sharing) release(n int64) {
	h, ok := g.held[n]
	if !ok {
		return
	}
	delete(g.held, n)
	if g.counts[h.bucket][h.by]--; g.counts[h.bucket][h.by] == 0 {
		delete(g.counts[h.bucket], h.by)
	}
}

// draining tells whether somebody else than its owner holds entries of a bucket: it
// gets nothing until those are acknowledged (facts 4.5).
func (g *sharing) draining(b int) bool {
	counts := g.counts[b]
	return len(counts) > 1 || len(counts) == 1 && counts[g.owners[b]] == 0
}

func (g *sharing) drainingBuckets() (n int) {
	if g == nil || g.buckets == nil {
		return 0
	}
	for b := range g.buckets {
		if g.draining(b) {
			n++
		}
	}
	return n
}

// taker is who gets the next entry of a bucket, nil while nobody may. A consumer
// without room holds back its own buckets only.
func (g *sharing) taker(b int, room map[*consumer]int64) *consumer {
	if g.buckets != nil {
		if c := g.owners[b]; room[c] > 0 && !g.draining(b) {
			return c
		}
		return nil
	}
	for i := range g.members {
		if c := g.members[(g.turn+i)%len(g.members)]; room[c] > 0 {
			return c
		}
	}
	return nil
}

// next is the bucket of the first entry that waits and may go out, and who gets it.
func (g *sharing) next(room map[*consumer]int64) (b int, to *consumer) {
	for i, queue := range g.queues {
		if len(queue) == 0 || to != nil && queue[0] > g.queues[b][0] {
			continue
		}
		if c := g.taker(i, room); c != nil {
			b, to = i, c
		}
	}
	return b, to
}

// willing tells whether anybody would take one more entry, were it his.
func (g *sharing) willing(room map[*consumer]int64) bool {
	for b := range g.queues {
		if g.taker(b, room) != nil {
			return true
		}
	}
	return false
}

func (s *subscription) attachShared(c *consumer, typ pulsarpb.CommandSubscribe_SubType, meta *pulsarpb.KeySharedMeta) *refusal {
	var buckets []bucket
	if typ == pulsarpb.CommandSubscribe_Key_Shared {
		switch {
		case byBucket(meta):
			var refused *refusal
			if buckets, refused = boundaries(meta); refused != nil {
				return refused
			}
		case s.sharing == nil:
			return refuse(pulsarpb.ServerError_NotAllowedError, "pulsartest: Key_Shared by entry bucket only")
		}
	}
	if s.sharing == nil {
		s.sharing = newSharing(buckets)
		s.cur.rewind()
	} else if refused := s.sharing.fits(meta, buckets); refused != nil {
		return refused
	}
	s.add(c, typ)
	s.sharing.join(c)
	s.dispatch()
	return nil
}

// share delivers what there are permits for, and tells the end to who has some left.
func (s *subscription) share() {
	for s.shareRound() {
		continue
	}
	if s.drained() {
		for _, c := range s.consumers {
			if c.permits > 0 {
				c.tellEnd()
			}
		}
	}
}

// shareRound gives each consumer as many entries as it has permits, whatever they
// hold; in a Shared subscription it stops at the permits (facts 9.2).
func (s *subscription) shareRound() (sent bool) {
	g, room := s.sharing, map[*consumer]int64{}
	for _, c := range s.consumers {
		room[c] = c.permits
	}
	for {
		b, c := g.next(room)
		if c == nil {
			if !g.willing(room) || !s.readOn() {
				return sent
			}
			continue
		}
		n := g.queues[b][0]
		g.queues[b] = g.queues[b][1:]
		if s.cur.isAcked(n) {
			continue
		}
		g.held[n] = holding{c, b}
		g.counts[b][c]++
		s.deliver(c, s.topic.view(n, s.compacted))
		room[c]--
		if g.buckets == nil {
			room[c] = c.permits
			g.turn = slices.Index(g.members, c) + 1
		}
		sent = true
	}
}

// readOn reads one entry, if there is one, into the queue of its bucket.
func (s *subscription) readOn() bool {
	e := s.topic.view(s.cur.read, s.compacted)
	if e == nil {
		return false
	}
	s.cur.read = e.n + 1
	switch {
	case e.marker || !e.readable:
		s.cur.ack(e.n) // P21
	case !s.cur.isAcked(e.n):
		b := s.sharing.bucketOf(e)
		s.sharing.queues[b] = append(s.sharing.queues[b], e.n)
	}
	return true
}
