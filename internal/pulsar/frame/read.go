package frame

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"google.golang.org/protobuf/proto"
)

// Limits bound what one frame may cost, and say where its memory comes from.
type Limits struct {
	// MaxFrame is the largest frame taken, in bytes after the size field; 0
	// means DefaultMaxFrame. A broker sends none above its max_message_size
	// and the allowance of PaddingSize.
	MaxFrame int
	// Pool serves the entries; nil allocates each.
	Pool *Pool
}

// PaddingSize is what Pulsar allows a frame beyond max_message_size, for
// command and metadata, in bytes (broker 5.0.1, observed: about 10 KB).
const PaddingSize = 10 * 1024

// DefaultMaxFrame fits Pulsar's default max_message_size.
const DefaultMaxFrame = 5*1024*1024 + PaddingSize

const (
	magicChecksum       = 0x0e01 // then CRC32C over all that follows
	magicBrokerMetadata = 0x0e02 // then size and BrokerEntryMetadata
)

// ReadCommand reads one frame into f, all of which it overwrites. r should have
// a buffer of at least some KiB: a command that fits in it is not copied.
// On io.EOF nothing had arrived yet; io.ErrUnexpectedEOF is an end in the
// middle of a frame. After any error the connection is useless. A damaged
// entry is no error: see Frame.EntryErr.
func ReadCommand(r *bufio.Reader, limits Limits, f *Frame) error {
	*f = Frame{Message: MessageCommand{AckSet: f.Message.AckSet[:0]}}
	limit := limits.MaxFrame
	if limit <= 0 {
		limit = DefaultMaxFrame
	}
	total, err := readSize(r)
	if err != nil {
		return err
	}
	if total > uint32(limit) {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, total, limit)
	}
	size, err := readSize(r)
	if err != nil {
		return unexpected(err)
	}
	if total < 4 || size > total-4 {
		return fmt.Errorf("%w: command of %d bytes in a frame of %d", ErrMalformed, size, total)
	}
	if err := readBody(r, f, int(size)); err != nil {
		return err
	}
	return readEntry(r, limits.Pool, f, int(total-4-size))
}

func readSize(r *bufio.Reader) (uint32, error) {
	b, err := r.Peek(4)
	if err != nil {
		if len(b) > 0 {
			err = unexpected(err)
		}
		return 0, err
	}
	n := binary.BigEndian.Uint32(b)
	_, err = r.Discard(4)
	return n, err
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readBody reads and decodes the command itself.
func readBody(r *bufio.Reader, f *Frame, size int) error {
	if size <= r.Size() {
		b, err := r.Peek(size)
		if err != nil {
			return unexpected(err)
		}
		if err := decodeCommand(b, f); err != nil {
			return err
		}
		_, err = r.Discard(size)
		return err
	}
	b := make([]byte, size) // bounded by MaxFrame; a long layout or topic list
	if _, err := io.ReadFull(r, b); err != nil {
		return unexpected(err)
	}
	return decodeCommand(b, f)
}

// decodeCommand keeps no reference to b.
func decodeCommand(b []byte, f *Frame) error {
	typ, ok := scanType(b)
	if !ok {
		return fmt.Errorf("%w: no type", ErrMalformed)
	}
	f.Type = typ
	switch typ {
	case pulsarpb.BaseCommand_MESSAGE:
		ok = scanMessage(b, &f.Message)
	case pulsarpb.BaseCommand_SEND_RECEIPT:
		ok = scanReceipt(b, &f.Receipt)
	case pulsarpb.BaseCommand_SEND:
		ok = scanSend(b, &f.Send)
	default:
		f.Command = &pulsarpb.BaseCommand{}
		if err := proto.Unmarshal(b, f.Command); err != nil {
			return fmt.Errorf("%w: %v: %w", ErrMalformed, typ, err)
		}
	}
	if !ok {
		return fmt.Errorf("%w: %v", ErrMalformed, typ)
	}
	return nil
}

// readEntry reads the n bytes behind the command.
func readEntry(r *bufio.Reader, pool *Pool, f *Frame, n int) error {
	if f.Type != pulsarpb.BaseCommand_MESSAGE && f.Type != pulsarpb.BaseCommand_SEND {
		// No command of Pulsar's has bytes behind it but these two; skipping
		// keeps an unknown later one from ending the connection.
		_, err := r.Discard(n)
		return unexpected(err)
	}
	e := pool.get(n)
	if _, err := io.ReadFull(r, e.buf); err != nil {
		e.Release()
		return unexpected(err)
	}
	f.Entry, f.EntryErr = e, e.parse()
	return nil
}

// parse divides the buffer into metadata and payload and verifies the checksum.
func (e *Entry) parse() error {
	b := e.buf
	if magic(b) == magicBrokerMetadata {
		head, rest, ok := sized(b[2:])
		if !ok {
			return e.raw()
		}
		e.BrokerMetadata, b = head, rest
	}
	var sum uint32
	if magic(b) == magicChecksum {
		if len(b) < 6 {
			return e.raw()
		}
		e.Checked = true
		sum, b = binary.BigEndian.Uint32(b[2:]), b[6:]
	}
	metadata, payload, ok := sized(b)
	if !ok {
		return e.raw()
	}
	e.Metadata, e.Payload = metadata, payload
	e.PayloadCRC = Checksum(0, payload)
	if !e.Checked {
		return nil // stored by a client that sends none; the broker lets it pass
	}
	if CombineCRC(Checksum(0, b[:4+len(metadata)]), e.PayloadCRC, len(payload)) != sum {
		e.Checked = false
		return ErrChecksum
	}
	return nil
}

func (e *Entry) raw() error {
	e.Metadata, e.Payload, e.BrokerMetadata, e.Checked = nil, e.buf, nil, false
	e.PayloadCRC = Checksum(0, e.buf)
	return ErrTruncated
}

func magic(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

// sized cuts off a part that is preceded by its 4-byte size.
func sized(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, false
	}
	return b[4 : 4+n : 4+n], b[4+n:], true
}
