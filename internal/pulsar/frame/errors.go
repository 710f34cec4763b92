package frame

import "errors"

// What can be wrong with bytes from a connection. ErrTooLarge and
// ErrMalformed end it, since the next frame can not be found any more; the
// others concern one entry.
var (
	// ErrTooLarge: a frame above Limits.MaxFrame.
	ErrTooLarge = errors.New("frame: larger than the limit")
	// ErrMalformed: the sizes of a frame contradict each other, or its command
	// can not be decoded.
	ErrMalformed = errors.New("frame: malformed")

	// ErrChecksum: the stored CRC32C does not match the entry.
	ErrChecksum = errors.New("frame: checksum does not match")
	// ErrTruncated: an entry too short for what its own sizes announce.
	ErrTruncated = errors.New("frame: entry truncated")

	// ErrMetadata: MessageMetadata that can not be decoded, or lacks one of its
	// required fields.
	ErrMetadata = errors.New("frame: undecodable metadata")
)

// Reason says why the payload of an entry could not be opened. It is short,
// stable and made for a metric label or a parked entry.
type Reason string

// The reasons of an UndecodableError.
const (
	ReasonEncrypted   Reason = "encrypted"   // only the application has the key
	ReasonNotBatch    Reason = "not_batch"   // no num_messages_in_batch
	ReasonChunked     Reason = "chunked"     // a piece of a message
	ReasonCompacted   Reason = "compacted"   // rewritten by topic compaction
	ReasonCodec       Reason = "codec"       // compression type unknown here
	ReasonCompression Reason = "compression" // compressed data damaged
	ReasonSize        Reason = "size"        // uncompressed_size above the limit, or a lie
	ReasonBatch       Reason = "batch"       // messages do not add up
	ReasonIndex       Reason = "index"       // asked for a message that is not there
)

// UndecodableError is the error of Open, Decompress, Rebatch and Single: the
// entry can be kept and forwarded as it is, but not taken apart.
type UndecodableError struct {
	Reason Reason
	Err    error // the cause, may be nil
}

func (e *UndecodableError) Error() string {
	if e.Err == nil {
		return "frame: entry can not be opened: " + string(e.Reason)
	}
	return "frame: entry can not be opened: " + string(e.Reason) + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *UndecodableError) Unwrap() error { return e.Err }

func undecodable(r Reason, err error) error { return &UndecodableError{Reason: r, Err: err} }
