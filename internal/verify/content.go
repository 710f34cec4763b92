package verify

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/reroute"
)

// Numbers of the fields of MessageMetadata that are looked at, and of
// SingleMessageMetadata (single…).
const (
	fieldProducerName    = 1
	fieldSequenceID      = 2
	fieldProperties      = 4
	fieldReplicatedFrom  = 5
	fieldPartitionKey    = 6
	fieldCompression     = 8
	fieldUncompressed    = 9
	fieldNumMessages     = 11
	fieldEventTime       = 12
	fieldSchemaVersion   = 16
	fieldKeyB64          = 17
	fieldOrderingKey     = 18
	fieldTxnLeast        = 22
	fieldTxnMost         = 23
	fieldHighestSequence = 24
	fieldNullValue       = 25
	fieldNullKey         = 30
	fieldCompacted       = 31
	fieldHashMin         = 33
	fieldHashMax         = 34

	singleProperties   = 1
	singlePartitionKey = 2
	singlePayloadSize  = 3
	singleEventTime    = 5
	singleKeyB64       = 6
	singleOrderingKey  = 7
	singleSequenceID   = 8
	singleNullValue    = 9
	singleNullKey      = 10
)

// maxUncompressed bounds what a batch may unfold to, in bytes: what geobridge
// itself opens.
const maxUncompressed = 64 << 20

// wholeEntry is the index of an entry that is compared as one: nobody can open
// it here, and geobridge forwards it untouched.
const wholeEntry = -1

// shown is what belongs to one message alone. The slices alias the entry, or the
// memory that it was opened into.
type shown struct {
	key                        reroute.Key
	sequence, event            uint64
	keyB64, nullValue, nullKey bool
	properties                 []byte
	payload                    []byte
	digest                     uint64 // of the payload
}

// content is an entry as an application sees it: the table Fidelity of design 2.
type content struct {
	// producer is the name without the source cluster's suffix.
	producer []byte
	// outer are the fields that all its messages share, as they are stored.
	outer    []byte
	messages []shown
	// whole tells that it is compared as one, since nobody can open it here.
	whole bool
}

// opener makes contents of entries. Its memory is used again by the next one. It
// is not safe for concurrent use.
type opener struct {
	seed       maphash.Seed // of the payloads' digests
	suffix     []byte       // @ and the source cluster
	outer      []byte
	properties []byte
	messages   []shown
}

func newOpener(sourceCluster string, seed maphash.Seed) *opener {
	return &opener{seed: seed, suffix: []byte("@" + sourceCluster)}
}

// open takes an entry apart. The content dies with the next call, and with the entry.
func (o *opener) open(m *pulsar.Message) content {
	var c content
	o.outer, o.properties, o.messages = o.outer[:0], o.properties[:0], o.messages[:0]
	if m.Err != nil { // damaged: nothing is known of it but its bytes
		return content{outer: m.Entry.Metadata, whole: true, messages: append(o.messages, o.sealed(m))}
	}
	if m.Info.Batch {
		c.whole = !o.batch(m)
	} else {
		o.single(m)
	}
	c.producer = m.Info.ProducerName
	for bytes.HasSuffix(c.producer, o.suffix) {
		c.producer = c.producer[:len(c.producer)-len(o.suffix)]
	}
	c.outer, c.messages = o.outer, o.messages
	return c
}

// sealed is an entry that is compared as one.
func (o *opener) sealed(m *pulsar.Message) shown {
	return shown{payload: m.Entry.Payload, digest: maphash.Bytes(o.seed, m.Entry.Payload)}
}

// single reads an entry of one message. One that is encrypted, or a chunk,
// compares by its bytes.
func (o *opener) single(m *pulsar.Message) {
	in, md := &m.Info, m.Entry.Metadata
	s := outerFields(md)
	s.key = reroute.Key{Key: in.PartitionKey, HasKey: in.HasPartitionKey, OrderingKey: in.OrderingKey, HasOrderingKey: in.HasOrderingKey}
	s.keyB64 = s.keyB64 && s.key.HasKey // says nothing without, and does not survive a split
	s.payload = m.Entry.Payload
	keep := keepOfWhole
	if !in.Encrypted && !in.Chunked {
		if plain, err := frame.Decompress(in, m.Entry.Payload, maxUncompressed); err == nil {
			s.payload, keep = plain, keepOfMessage
		}
	}
	o.keep(md, keep)
	fields(md, func(f field) {
		if f.num == fieldProperties {
			o.property(f.val)
		}
	})
	s.properties, s.digest = o.properties, maphash.Bytes(o.seed, s.payload)
	o.messages = append(o.messages, s)
}

// batch reads the messages of a batch; false: nobody can, here, and it is
// compared as one.
func (o *opener) batch(m *pulsar.Message) bool {
	in, md := &m.Info, m.Entry.Metadata
	if !in.Encrypted && !in.Chunked && !in.Compacted {
		plain, err := frame.Decompress(in, m.Entry.Payload, maxUncompressed)
		if err == nil && o.divide(plain, in.NumMessages, outerFields(md)) {
			o.keep(md, keepOfMessage)
			return true
		}
	}
	o.keep(md, keepOfWhole)
	o.messages = append(o.messages[:0], o.sealed(m))
	return false
}

// divide finds n messages in the plain payload of a batch. It takes what
// frame.Open takes, in one pass and without memory of its own. Payloads are added
// up on the way: what lies ahead is in no cache yet, and comes by itself only to
// who reads all of it.
func (o *opener) divide(plain []byte, n int, outer shown) bool {
	for range n {
		if len(plain) < 4 {
			return false
		}
		size := uint64(binary.BigEndian.Uint32(plain))
		plain = plain[4:]
		if size > uint64(len(plain)) {
			return false
		}
		o.messages = append(o.messages, outer)
		s := &o.messages[len(o.messages)-1]
		length, ok := o.overlay(s, plain[:size])
		plain = plain[size:]
		if !ok || length > uint64(len(plain)) {
			return false
		}
		s.payload, plain = plain[:length:length], plain[length:]
		s.digest = maphash.Bytes(o.seed, s.payload)
	}
	return n > 0
}

// overlay overlays the outer fields with a message's own, as Pulsar's client does
// (frame.Batch.Single), and tells the length of its payload.
func (o *opener) overlay(s *shown, meta []byte) (length uint64, ok bool) {
	s.keyB64 = false
	from := len(o.properties)
	for len(meta) > 0 {
		// All known fields have tags of one byte: this is the hottest loop of all.
		num, typ := meta[0]>>3, meta[0]&7
		if meta[0] >= 0x80 || typ != byte(protowire.VarintType) && typ != byte(protowire.BytesType) {
			f, good := next(meta)
			if !good {
				return 0, false
			}
			meta = meta[f.size:]
			continue
		}
		n, size := uvarint(meta[1:])
		if size == 0 {
			return 0, false
		}
		meta = meta[1+size:]
		var val []byte
		if typ == byte(protowire.BytesType) {
			if n > uint64(len(meta)) {
				return 0, false
			}
			val, meta = meta[:n:n], meta[n:]
		}
		switch num {
		case singleProperties:
			o.property(val)
		case singlePartitionKey:
			s.key.Key, s.key.HasKey = val, true
		case singlePayloadSize:
			length, ok = n, true
		case singleEventTime:
			s.event = n
		case singleKeyB64:
			s.keyB64 = n != 0
		case singleOrderingKey:
			s.key.OrderingKey, s.key.HasOrderingKey = val, true
		case singleSequenceID:
			s.sequence = n
		case singleNullValue:
			s.nullValue = n != 0
		case singleNullKey:
			s.nullKey = n != 0
		}
	}
	s.properties = o.properties[from:len(o.properties):len(o.properties)]
	s.keyB64 = s.keyB64 && s.key.HasKey
	return length, ok
}

// keeper says which fields of the metadata stay as they are on the way.
type keeper func(num protowire.Number) bool

// keepOfWhole: all that geobridge does not change.
func keepOfWhole(num protowire.Number) bool {
	switch num {
	case fieldProducerName, fieldProperties, fieldReplicatedFrom, fieldSchemaVersion, fieldTxnLeast, fieldTxnMost, fieldHashMin, fieldHashMax:
		return false
	}
	return true
}

// keepOfMessage: without, besides,, what says how messages are packed, and what a message may
// have of its own.
func keepOfMessage(num protowire.Number) bool {
	switch num {
	case fieldCompression, fieldUncompressed, fieldNumMessages, fieldHighestSequence, fieldCompacted,
		fieldSequenceID, fieldPartitionKey, fieldEventTime, fieldKeyB64, fieldOrderingKey, fieldNullValue, fieldNullKey:
		return false
	}
	return keepOfWhole(num)
}

// keep gathers the outer fields that stay, as they are.
func (o *opener) keep(md []byte, stays keeper) {
	for b := md; len(b) > 0; {
		f, ok := next(b)
		if !ok { // frame.Scan would have refused it
			return
		}
		if stays(f.num) {
			o.outer = append(o.outer, b[:f.size]...)
		}
		b = b[f.size:]
	}
}

// property keeps one, unless it is the identity.
func (o *opener) property(value []byte) {
	isIdentity := false
	fields(value, func(f field) { isIdentity = isIdentity || f.num == 1 && string(f.val) == frame.IdentityProperty })
	if !isIdentity {
		o.properties = appendSized(o.properties, value)
	}
}

// outerFields are those that a message may have of its own, but the keys.
func outerFields(md []byte) (s shown) {
	fields(md, func(f field) {
		switch f.num {
		case fieldSequenceID:
			s.sequence = f.n
		case fieldEventTime:
			s.event = f.n
		case fieldKeyB64:
			s.keyB64 = f.n != 0
		case fieldNullValue:
			s.nullValue = f.n != 0
		case fieldNullKey:
			s.nullKey = f.n != 0
		}
	})
	return s
}

// flags are what of a message is a yes or a no.
func (s *shown) flags() (flags uint32) {
	for i, set := range [...]bool{s.key.HasKey, s.key.HasOrderingKey, s.keyB64, s.nullValue, s.nullKey} {
		if set {
			flags |= 1 << i
		}
	}
	return flags
}
