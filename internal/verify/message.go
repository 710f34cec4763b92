package verify

import (
	"encoding/binary"
	"hash/maphash"

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
	seeds seeds
	buf   []byte
}

// seeds make the digests of one comparison: hashes that nobody outside of this
// process can aim at, of 128 bits in all and 64 of the payload. Cryptographic ones
// take longer than reading.
type seeds [2]maphash.Seed

func newSeeds() seeds { return seeds{maphash.MakeSeed(), maphash.MakeSeed()} }

func (s *seeds) sum(b []byte) sum { return sum{maphash.Bytes(s[0], b), maphash.Bytes(s[1], b)} }

// newDigester: all of one comparison have the same seeds.
func newDigester(sourceCluster string, s seeds) *digester {
	return &digester{opener: *newOpener(sourceCluster), seeds: s}
}

// origin says which messages of which source entry a stored entry holds.
type origin struct {
	lane    int32
	name    string // N(L)
	pos     replicate.Position
	indices []int // nil: all
	total   int
}

// each calls f with each message of an entry. What f is given dies with the call.
func (d *digester) each(m *pulsar.Message, from origin, f func(*message)) {
	c := d.open(m)
	if from.indices != nil && len(from.indices) != len(c.messages) {
		c.whole = true // it is not what it says that it is
	}
	d.buf = d.appendOuter(d.buf[:0], from, &c)
	common := d.seeds.sum(d.buf)
	d.buf = binary.BigEndian.AppendUint64(d.buf[:0], common.hi)
	d.buf = binary.BigEndian.AppendUint64(d.buf, common.lo)
	head := len(d.buf)
	out := message{ident: ident{lane: from.lane, pos: from.pos}, entry: &c}
	for i := range c.messages {
		s := &c.messages[i]
		out.index, out.n, out.shown = int32(i), 1, s
		switch {
		case c.whole:
			out.index, out.n = wholeEntry, from.total
		case from.indices != nil:
			out.index = int32(from.indices[i])
		}
		out.rng, out.hash, out.key = keyless, 0, 0
		if !c.whole && s.key.HasKey && !s.nullKey {
			out.hash = reroute.Key{Key: s.key.Key, HasKey: true}.Hash().Segment
			out.rng, out.key = int(out.hash>>8), maphash.Bytes(d.seeds[0], s.key.Key)
		}
		d.buf = s.append(binary.BigEndian.AppendUint32(d.buf[:head], uint32(out.index)))
		d.buf = binary.BigEndian.AppendUint64(d.buf, maphash.Bytes(d.seeds[0], s.payload))
		out.sum = d.seeds.sum(d.buf)
		f(&out)
	}
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
