package reroute

import (
	"fmt"

	"github.com/spaolacci/murmur3"
)

// HashRange is an inclusive range of 16-bit hashes: of segment hashes where it
// belongs to a segment, of bucket hashes where it belongs to an entry bucket.
// The zero value is the range that holds hash 0 alone.
type HashRange struct{ Start, End uint16 }

// FullRange is the whole hash ring, 0000-ffff.
func FullRange() HashRange { return HashRange{Start: 0, End: 0xFFFF} }

// Contains reports whether h lies in the range.
func (r HashRange) Contains(h uint16) bool { return r.Start <= h && h <= r.End }

// Covers reports whether all of o lies in the range.
func (r HashRange) Covers(o HashRange) bool { return r.Start <= o.Start && o.End <= r.End }

// Overlaps reports whether the two ranges share a hash.
func (r HashRange) Overlaps(o HashRange) bool { return r.Start <= o.End && o.Start <= r.End }

// String is the range as segment descriptors write it: "0000-7fff".
func (r HashRange) String() string { return fmt.Sprintf("%04x-%04x", r.Start, r.End) }

// Key is what a message is routed by. Key and OrderingKey are taken as they
// stand in the metadata; a base64-encoded key (partition_key_b64_encoded) is
// its base64 text, as Pulsar's own producers hash it (broker 5.0.1, observed:
// facts P38). An empty key counts as a key, hence the booleans.
type Key struct {
	Key            []byte
	HasKey         bool
	OrderingKey    []byte
	HasOrderingKey bool
}

// Hash is a key hashed once: the raw 32-bit Murmur3 (x86, seed 0) cut in two
// halves. Segment is the high half of the key's hash. Bucket is the low half of
// the ordering key's hash, or the key's where no ordering key is set, or 0
// where neither is. Keyed is false without a key: Segment then means nothing,
// and the message may go to any segment its source segment overlaps.
// Source: Entry Buckets specification, section 2; ScalableTopicHashing of
// broker 5.0.1.
type Hash struct {
	Segment uint16
	Bucket  uint16
	Keyed   bool
}

// Hash hashes the key. It does not allocate.
func (k Key) Hash() Hash {
	var h Hash
	if k.HasKey {
		sum := murmur3.Sum32(k.Key)
		h = Hash{Segment: uint16(sum >> 16), Bucket: uint16(sum), Keyed: true}
	}
	if k.HasOrderingKey {
		h.Bucket = uint16(murmur3.Sum32(k.OrderingKey))
	}
	return h
}
