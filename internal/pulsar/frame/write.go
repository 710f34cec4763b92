package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// AppendCommand appends the whole frame of a command without an entry. The
// error, ErrMalformed, means that a required field is missing; dst is returned
// unchanged then.
func AppendCommand(dst []byte, cmd *pulsarpb.BaseCommand) ([]byte, error) {
	start := len(dst)
	out := append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	out, err := proto.MarshalOptions{}.MarshalAppend(out, cmd)
	if err != nil {
		return dst, fmt.Errorf("%w: %v: %w", ErrMalformed, cmd.GetType(), err)
	}
	n := len(out) - start
	binary.BigEndian.PutUint32(out[start:], uint32(n-4))
	binary.BigEndian.PutUint32(out[start+4:], uint32(n-8))
	return out, nil
}

// AppendSend appends all of a SEND frame but the payload, which the caller
// writes right behind it. payloadCRC is the CRC32C of the payload alone:
// nothing here reads the payload. HeaderSize bounds what is appended.
func AppendSend(dst []byte, s *SendCommand, metadata []byte, payloadLen int, payloadCRC uint32) []byte {
	start := len(dst)
	dst = openCommand(dst, pulsarpb.BaseCommand_SEND, 6)
	at := len(dst)
	dst = varint(dst, 1, s.ProducerID)
	dst = varint(dst, 2, s.SequenceID)
	if s.NumMessages > 1 {
		dst = varint(dst, 3, uint64(s.NumMessages))
	}
	if s.HasTxn {
		dst = varint(dst, 4, s.TxnLeastBits)
		dst = varint(dst, 5, s.TxnMostBits)
	}
	if s.HasHighestSequenceID {
		dst = varint(dst, 6, s.HighestSequenceID)
	}
	if s.IsChunk {
		dst = varint(dst, 7, 1)
	}
	if s.Marker {
		dst = varint(dst, 8, 1)
	}
	dst = closeCommand(dst, start, at)
	return appendEntryHeader(dst, start, metadata, payloadLen, payloadCRC)
}

// AppendMessage appends all of a MESSAGE frame but the payload: the broker's
// side of AppendSend. BatchIndex is not written: the broker writes none.
func AppendMessage(dst []byte, m *MessageCommand, metadata []byte, payloadLen int, payloadCRC uint32) []byte {
	start := len(dst)
	dst = openCommand(dst, pulsarpb.BaseCommand_MESSAGE, 9)
	at := len(dst)
	dst = varint(dst, 1, m.ConsumerID)
	id := len(dst)
	dst = append(dst, 2<<3|byte(protowire.BytesType), 0)
	dst = varint(dst, 1, uint64(m.Ledger))
	dst = varint(dst, 2, uint64(m.Entry))
	dst = varint(dst, 3, uint64(int64(m.Partition))) // the broker writes its -1 out
	dst[id+1] = byte(len(dst) - id - 2)
	if m.RedeliveryCount > 0 {
		dst = varint(dst, 3, uint64(m.RedeliveryCount))
	}
	for _, word := range m.AckSet {
		dst = varint(dst, 4, uint64(word))
	}
	if m.HasEpoch {
		dst = varint(dst, 5, m.ConsumerEpoch)
	}
	dst = closeCommand(dst, start, at)
	return appendEntryHeader(dst, start, metadata, payloadLen, payloadCRC)
}

// AppendReceipt appends a whole SEND_RECEIPT frame.
func AppendReceipt(dst []byte, r *ReceiptCommand) []byte {
	start := len(dst)
	dst = openCommand(dst, pulsarpb.BaseCommand_SEND_RECEIPT, 7)
	at := len(dst)
	dst = varint(dst, 1, r.ProducerID)
	dst = varint(dst, 2, r.SequenceID)
	id := len(dst)
	dst = append(dst, 3<<3|byte(protowire.BytesType), 0)
	dst = varint(dst, 1, uint64(r.Ledger))
	dst = varint(dst, 2, uint64(r.Entry))
	dst[id+1] = byte(len(dst) - id - 2)
	if r.HasHighestSequenceID {
		dst = varint(dst, 4, r.HighestSequenceID)
	}
	dst = closeCommand(dst, start, at)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// HeaderSize is the most that AppendSend appends beyond the metadata, in bytes.
const HeaderSize = 96

// openCommand appends room for both sizes of a frame, the type, and the tag of
// the sub-command of number num with room for its length.
func openCommand(dst []byte, typ pulsarpb.BaseCommand_Type, num protowire.Number) []byte {
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = varint(dst, 1, uint64(typ))
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return append(dst, 0)
}

// closeCommand writes the lengths of the command whose frame begins at start
// and whose body at at.
func closeCommand(dst []byte, start, at int) []byte {
	n := len(dst) - at
	if n < 0x80 {
		dst[at-1] = byte(n)
	} else { // a MESSAGE with an ack set: make room for a longer length
		size := protowire.AppendVarint(nil, uint64(n))
		dst = append(dst, size[1:]...)
		copy(dst[at+len(size)-1:], dst[at:at+n])
		copy(dst[at-1:], size)
	}
	binary.BigEndian.PutUint32(dst[start+4:], uint32(len(dst)-start-8))
	return dst
}

func varint(dst []byte, num protowire.Number, v uint64) []byte {
	dst = protowire.AppendTag(dst, num, protowire.VarintType)
	return protowire.AppendVarint(dst, v)
}

// appendEntryHeader appends magic, checksum and metadata to the command of the
// frame that begins at start, and writes the frame's size.
func appendEntryHeader(dst []byte, start int, metadata []byte, payloadLen int, payloadCRC uint32) []byte {
	dst = append(dst, magicChecksum>>8, magicChecksum&0xff, 0, 0, 0, 0)
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(metadata)))
	dst = append(dst, metadata...)
	sum := CombineCRC(Checksum(0, dst[at:]), payloadCRC, payloadLen)
	binary.BigEndian.PutUint32(dst[at-4:], sum)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4+payloadLen))
	return dst
}
