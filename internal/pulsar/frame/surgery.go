package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// minMessage is the shortest message in a batch: its size field, and metadata
// with nothing but payload_size.
const minMessage = 4 + 2

// divide finds n messages in the plain payload of a batch. What follows them
// is ignored, as clients do.
func divide(plain []byte, n int) ([]Message, error) {
	if n <= 0 || n > len(plain)/minMessage {
		return nil, undecodable(ReasonBatch, fmt.Errorf("%d messages in %d bytes", n, len(plain)))
	}
	messages := make([]Message, n)
	for i := range messages {
		size, err := messages[i].take(plain)
		if err != nil {
			return nil, undecodable(ReasonBatch, fmt.Errorf("message %d of %d: %w", i, n, err))
		}
		plain = plain[size:]
	}
	return messages, nil
}

// take reads the message at the start of b and gives its whole size.
func (m *Message) take(b []byte) (int, error) {
	meta, rest, ok := sized(b)
	if !ok {
		return 0, ErrTruncated
	}
	m.Meta = meta
	size, ok := m.scan()
	if !ok {
		return 0, ErrMetadata
	}
	if size < 0 || int(size) > len(rest) {
		return 0, ErrTruncated
	}
	m.Payload = rest[:size:size]
	whole := 4 + len(meta) + int(size)
	m.raw = b[:whole:whole]
	return whole, nil
}

// Rebatch makes an entry of the messages at indices, in that order, out of the
// entry that was opened: same compression, all outer fields kept but those
// that speak of the messages. These are written as the source's producer wrote
// them, from the part's own messages: num_messages_in_batch, uncompressed_size,
// sequence_id and highest_sequence_id, partition_key and what belongs to it.
// metadata and info are those of Open. The error is an *UndecodableError.
func (b *Batch) Rebatch(metadata []byte, info *Info, indices []int, p *Patch) (md, payload []byte, err error) {
	size := 0
	for _, i := range indices {
		if i < 0 || i >= len(b.Messages) {
			return nil, nil, undecodable(ReasonIndex, fmt.Errorf("%d of %d", i, len(b.Messages)))
		}
		size += len(b.Messages[i].raw)
	}
	if len(indices) == 0 {
		return nil, nil, undecodable(ReasonIndex, fmt.Errorf("none of %d", len(b.Messages)))
	}
	plain := make([]byte, 0, size)
	for _, i := range indices {
		plain = append(plain, b.Messages[i].raw...)
	}
	if payload, err = compress(info.Compression, plain); err != nil {
		return nil, nil, err
	}
	e := edit{
		numMessages:  intEdit{set, uint64(len(indices))},
		uncompressed: sizeEdit(info, len(plain)),
	}
	b.editSequence(&e, info, indices)
	b.editKey(&e, info, indices)
	return appendEdited(make([]byte, 0, len(metadata)+editRoom), metadata, p, &e), payload, nil
}

// editRoom is what an edited MessageMetadata usually grows by at most.
const editRoom = 256

// sizeEdit follows the Java client, which writes uncompressed_size only where
// it compressed, and keeps the field true for clients that always write it.
func sizeEdit(info *Info, n int) intEdit {
	if info.Compression == pulsarpb.CompressionType_NONE && !info.HasUncompressedSize {
		return intEdit{}
	}
	return intEdit{set, uint64(n)}
}

// editSequence writes the sequence ids of the part. Producers differ in which
// message they name: Java V5 writes the last one's into both fields, others the
// first one's into sequence_id; so the source entry is asked. Messages that
// carry no id of their own show the application the outer one: it stays.
func (b *Batch) editSequence(e *edit, info *Info, indices []int) {
	whole := sequences{}
	for i := range b.Messages {
		if !whole.add(&b.Messages[i]) {
			return
		}
	}
	part := sequences{}
	for _, i := range indices {
		part.add(&b.Messages[i])
	}
	if v, ok := whole.match(info.SequenceID, &part); ok {
		e.sequence = intEdit{set, v}
	}
	if !info.HasHighestSequenceID {
		return
	}
	if v, ok := whole.match(info.HighestSequenceID, &part); ok {
		e.highest = intEdit{set, v}
	}
}

// sequences is what an outer sequence id can be of a list of messages.
type sequences struct {
	n                      int
	last, first, high, low uint64
}

func (s *sequences) add(m *Message) bool {
	if !m.HasSequenceID {
		return false
	}
	if s.n == 0 {
		s.first, s.high, s.low = m.SequenceID, m.SequenceID, m.SequenceID
	}
	s.last, s.high, s.low = m.SequenceID, max(s.high, m.SequenceID), min(s.low, m.SequenceID)
	s.n++
	return true
}

// match tells which of s the outer value is, and gives the same one of part.
func (s *sequences) match(outer uint64, part *sequences) (uint64, bool) {
	switch outer {
	case s.last:
		return part.last, true
	case s.first:
		return part.first, true
	case s.high:
		return part.high, true
	case s.low:
		return part.low, true
	}
	return 0, false
}

// editKey gives the part the outer key of one of its messages, the first that
// has one. A producer that writes no outer key although its first message has
// one writes none here either.
func (b *Batch) editKey(e *edit, info *Info, indices []int) {
	outer := info.HasPartitionKey || info.HasOrderingKey
	if first := &b.Messages[0]; !outer && (first.HasKey || first.HasOrderingKey) {
		return
	}
	var m *Message
	for _, i := range indices {
		if c := &b.Messages[i]; c.HasKey || c.HasOrderingKey {
			m = c
			break
		}
	}
	if m == nil {
		e.key.change, e.keyB64.change, e.ordering.change = drop, drop, drop
		return
	}
	e.takeKey(m)
}

// takeKey copies the message's keys outward, as Java's batch container does:
// what the message lacks is dropped.
func (e *edit) takeKey(m *Message) {
	e.key, e.keyB64, e.ordering = bytesEdit{change: drop}, intEdit{change: drop}, bytesEdit{change: drop}
	if m.HasKey {
		e.key = bytesEdit{set, m.Key}
	}
	if m.HasOrderingKey {
		e.ordering = bytesEdit{set, m.OrderingKey}
	}
	if v, ok := m.varint(smKeyB64); ok && m.HasKey {
		e.keyB64 = intEdit{set, v}
	}
}

// varint reads one field of the message's metadata; the last one wins.
func (m *Message) varint(num protowire.Number) (v uint64, ok bool) {
	for b := m.Meta; len(b) > 0; {
		f, good := next(b)
		if !good {
			break
		}
		if f.num == num && f.typ == protowire.VarintType {
			v, ok = f.n, true
		}
		b = b[f.size:]
	}
	return v, ok
}

// Single makes a plain entry, without num_messages_in_batch, of the message at
// index: what an application sees of it is what it would have seen of it in the
// batch. A consumer overlays the outer metadata with the message's own (Java
// client 5.0.1: MessageImpl): properties, partition key and ordering key are
// the message's or none; event_time, sequence_id, null_value and
// null_partition_key are the message's, or else the outer ones; all others are
// the outer ones. highest_sequence_id speaks of a batch and is dropped. The
// codec stays, unless there is nothing to compress. The stamp is the batch's unless p sets it. The error is an
// *UndecodableError.
func (b *Batch) Single(metadata []byte, info *Info, index int, p *Patch) (md, payload []byte, err error) {
	if index < 0 || index >= len(b.Messages) {
		return nil, nil, undecodable(ReasonIndex, fmt.Errorf("%d of %d", index, len(b.Messages)))
	}
	m := &b.Messages[index]
	e := edit{
		numMessages:   intEdit{change: drop},
		highest:       intEdit{change: drop},
		uncompressed:  intEdit{set, uint64(len(m.Payload))}, // Java's unbatched entries have it always
		properties:    propertiesEdit{change: set, single: m.Meta},
		dropCompacted: true,
	}
	if len(m.Payload) == 0 { // as Java: nothing to compress, and null values are empty
		e.compression.change, payload = drop, []byte{}
	} else if payload, err = compress(info.Compression, m.Payload); err != nil {
		return nil, nil, err
	}
	e.takeKey(m)
	m.overlay(smEventTime, &e.eventTime)
	m.overlay(smSequenceID, &e.sequence)
	m.overlay(smNullValue, &e.nullValue)
	m.overlay(smNullKey, &e.nullKey)
	return appendEdited(make([]byte, 0, len(metadata)+len(m.Meta)+editRoom), metadata, p, &e), payload, nil
}

func (m *Message) overlay(num protowire.Number, e *intEdit) {
	if v, ok := m.varint(num); ok {
		*e = intEdit{set, v}
	}
}

// AppendMessageInBatch appends one message to the plain payload of a batch:
// its serialized SingleMessageMetadata, whose payload_size must be that of
// payload, and the payload. It is how tests and the demo build batches.
func AppendMessageInBatch(dst, meta, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(meta)))
	dst = append(dst, meta...)
	return append(dst, payload...)
}

// Compress is the inverse of Decompress, for tests and the demo.
func Compress(c pulsarpb.CompressionType, plain []byte) ([]byte, error) { return compress(c, plain) }
