package verify

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// ident names a message of the source: its lane (an index), the position of its
// entry, and its index in there.
type ident struct {
	lane, index int32
	pos         replicate.Position
}

// sum is a digest of 128 bits, or what such digests add up to.
type sum struct{ hi, lo uint64 }

func (s *sum) add(o sum) {
	lo := s.lo + o.lo
	if lo < s.lo {
		s.hi++
	}
	s.hi, s.lo = s.hi+o.hi, lo
}

// keyless is the range of what has no key that can be read; those below it are
// the high byte of the key's segment hash.
const (
	keyless = 256
	ranges  = keyless + 1
)

// message is a message as it is compared.
type message struct {
	ident
	n    int    // messages it stands for: more than one only for an entry compared as one
	rng  int    // of the hash ring, or keyless
	hash uint16 // of the key, for the segment
	key  uint64 // stands for the key in this process
	sum  sum

	entry *content
	shown *shown // its own part of entry
}

// digester makes messages of entries. It is not safe for concurrent use.
type digester struct {
	opener
	seeds   seeds
	content content
	out     []message
	buf     []byte
	words   [8 * 8]byte
}

// seeds make the digests of one comparison: hashes that nobody outside of this
// process can aim at, of 128 bits in all and 64 of each part. Cryptographic ones
// take longer than reading.
type seeds [2]maphash.Seed

func newSeeds() seeds { return seeds{maphash.MakeSeed(), maphash.MakeSeed()} }

func (s *seeds) sum(b []byte) sum { return sum{maphash.Bytes(s[0], b), maphash.Bytes(s[1], b)} }

// part is the digest of a part that most messages do not have.
func (s *seeds) part(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return maphash.Bytes(s[0], b)
}

// newDigester: all of one comparison have the same seeds.
func newDigester(sourceCluster string, s seeds) *digester {
	return &digester{opener: *newOpener(sourceCluster, s[0]), seeds: s}
}

// origin says which messages of which source entry a stored entry holds.
type origin struct {
	lane    int32
	name    string // N(L)
	pos     replicate.Position
	indices []int // nil: all
	total   int
}

// messages are those of an entry. They die with the next call, and with the entry.
func (d *digester) messages(m *pulsar.Message, from origin) []message {
	d.content = d.open(m)
	c := &d.content
	if from.indices != nil && len(from.indices) != len(c.messages) {
		c.whole = true // it is not what it says that it is
	}
	d.buf = d.appendOuter(d.buf[:0], from, c)
	binary.NativeEndian.PutUint64(d.words[:], maphash.Bytes(d.seeds[0], d.buf))
	d.out = slices.Grow(d.out[:0], len(c.messages))[:len(c.messages)]
	for i := range c.messages {
		out := &d.out[i]
		*out = message{ident: ident{lane: from.lane, index: int32(i), pos: from.pos}, n: 1, entry: c, shown: &c.messages[i]}
		switch {
		case c.whole:
			out.index, out.n = wholeEntry, from.total
		case from.indices != nil:
			out.index = int32(from.indices[i])
		}
		d.digest(out, c.whole)
	}
	return d.out
}

// digest adds a message up: the words of one block, the first of which stands for
// what its entry has in common.
func (d *digester) digest(m *message, whole bool) {
	s := m.shown
	key := d.seeds.part(s.key.Key)
	m.rng, m.key = keyless, 0
	if !whole && s.key.HasKey && !s.nullKey {
		m.hash = reroute.Key{Key: s.key.Key, HasKey: true}.Hash().Segment
		m.rng, m.key = int(m.hash>>8), key
	}
	w := &d.words
	binary.NativeEndian.PutUint64(w[8:], uint64(uint32(m.index))<<32|uint64(s.flags()))
	binary.NativeEndian.PutUint64(w[16:], s.sequence)
	binary.NativeEndian.PutUint64(w[24:], s.event)
	binary.NativeEndian.PutUint64(w[32:], key)
	binary.NativeEndian.PutUint64(w[40:], d.seeds.part(s.key.OrderingKey))
	binary.NativeEndian.PutUint64(w[48:], d.seeds.part(s.properties))
	binary.NativeEndian.PutUint64(w[56:], s.digest)
	m.sum = d.seeds.sum(w[:])
}

// appendOuter writes what all messages of the source entry have in common.
func (d *digester) appendOuter(dst []byte, from origin, c *content) []byte {
	dst = appendSized(dst, []byte(from.name))
	dst = binary.BigEndian.AppendUint64(dst, uint64(from.pos.Ledger))
	dst = binary.BigEndian.AppendUint64(dst, uint64(from.pos.Entry))
	dst = binary.BigEndian.AppendUint32(dst, uint32(from.total))
	dst = appendSized(dst, c.producer)
	return append(dst, c.outer...)
}

// cell is what the messages of a range add up to, on one side.
type cell struct {
	messages int64
	sum      sum
}

// digests are the cells of one side. Adding is commutative, so each reader has
// its own until the end.
type digests [ranges]cell

func (d *digests) add(m *message) {
	c := &d[m.rng]
	c.messages += int64(m.n)
	c.sum.add(m.sum)
}

func (d *digests) merge(o *digests) {
	for i := range d {
		d[i].messages += o[i].messages
		d[i].sum.add(o[i].sum)
	}
}
