package verify

import (
	"bytes"
	"encoding/binary"

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

	singleProperties = 1
	singleEventTime  = 5
	singleKeyB64     = 6
	singleNullValue  = 9
	singleNullKey    = 10
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
	suffix     []byte // @ and the source cluster
	outer      []byte
	properties []byte
	messages   []shown
}

func newOpener(sourceCluster string) *opener { return &opener{suffix: []byte("@" + sourceCluster)} }

// open takes an entry apart. The content dies with the next call, and with the entry.
func (o *opener) open(m *pulsar.Message) content {
	var c content
	o.outer, o.properties, o.messages = o.outer[:0], o.properties[:0], o.messages[:0]
	if m.Err != nil { // damaged: nothing is known of it but its bytes
		return content{outer: m.Entry.Metadata, whole: true, messages: append(o.messages, shown{payload: m.Entry.Payload})}
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

// single reads an entry of one message. One that is encrypted, or a chunk,
// compares by its bytes.
func (o *opener) single(m *pulsar.Message) {
	in, md := &m.Info, m.Entry.Metadata
	s := outerFields(md)
	s.key = reroute.Key{Key: in.PartitionKey, HasKey: in.HasPartitionKey, OrderingKey: in.OrderingKey, HasOrderingKey: in.HasOrderingKey}
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
	s.properties = o.properties
	o.messages = append(o.messages, s)
}

// batch reads the messages of a batch; false: nobody can, here, and it is
// compared as one.
func (o *opener) batch(m *pulsar.Message) bool {
	md := m.Entry.Metadata
	b, err := frame.Open(&m.Info, md, m.Entry.Payload, maxUncompressed)
	if err != nil {
		o.keep(md, keepOfWhole)
		o.messages = append(o.messages, shown{payload: m.Entry.Payload})
		return false
	}
	o.keep(md, keepOfMessage)
	outer := outerFields(md)
	for i := range b.Messages {
		o.messages = append(o.messages, o.inBatch(outer, &b.Messages[i]))
	}
	return true
}

// inBatch overlays the outer fields with the message's own, as Pulsar's client
// does (frame.Batch.Single).
func (o *opener) inBatch(s shown, m *frame.Message) shown {
	s.key = reroute.Key{Key: m.Key, HasKey: m.HasKey, OrderingKey: m.OrderingKey, HasOrderingKey: m.HasOrderingKey}
	s.payload, s.keyB64 = m.Payload, false
	if m.HasSequenceID {
		s.sequence = m.SequenceID
	}
	from := len(o.properties)
	fields(m.Meta, func(f field) {
		switch f.num {
		case singleProperties:
			o.property(f.val)
		case singleEventTime:
			s.event = f.n
		case singleKeyB64:
			s.keyB64 = f.n != 0
		case singleNullValue:
			s.nullValue = f.n != 0
		case singleNullKey:
			s.nullKey = f.n != 0
		}
	})
	s.properties = o.properties[from:len(o.properties):len(o.properties)]
	return s
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

// append writes the message's own part so that no two write the same.
func (s *shown) append(dst []byte) []byte {
	var flags byte
	for i, set := range [...]bool{s.key.HasKey, s.key.HasOrderingKey, s.keyB64, s.nullValue, s.nullKey} {
		if set {
			flags |= 1 << i
		}
	}
	dst = append(dst, flags)
	dst = binary.BigEndian.AppendUint64(dst, s.sequence)
	dst = binary.BigEndian.AppendUint64(dst, s.event)
	for _, part := range [...][]byte{s.key.Key, s.key.OrderingKey, s.properties} {
		dst = appendSized(dst, part)
	}
	return append(dst, s.payload...)
}

func appendSized(dst, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}

// field is one of a protobuf message: n of a varint, val of bytes.
type field struct {
	num  protowire.Number
	n    uint64
	val  []byte
	size int
}

func next(b []byte) (f field, ok bool) {
	num, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return f, false
	}
	n := protowire.ConsumeFieldValue(num, typ, b[tag:])
	if n < 0 {
		return f, false
	}
	f = field{num: num, size: tag + n}
	switch typ {
	case protowire.VarintType:
		f.n, _ = protowire.ConsumeVarint(b[tag:])
	case protowire.BytesType:
		f.val, _ = protowire.ConsumeBytes(b[tag:])
	}
	return f, true
}

func fields(b []byte, f func(field)) {
	for len(b) > 0 {
		x, ok := next(b)
		if !ok {
			return
		}
		f(x)
		b = b[x.size:]
	}
}
