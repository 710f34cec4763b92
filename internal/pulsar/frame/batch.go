package frame

import "google.golang.org/protobuf/encoding/protowire"

// Numbers of SingleMessageMetadata's fields.
const (
	smProperties   = 1
	smPartitionKey = 2
	smPayloadSize  = 3
	smEventTime    = 5
	smKeyB64       = 6
	smOrderingKey  = 7
	smSequenceID   = 8
	smNullValue    = 9
	smNullKey      = 10
)

// Batch is an opened entry: its messages in stored order. It does not keep the
// payload it was opened from, unless that was not compressed.
type Batch struct {
	Messages []Message
}

// Message is one message of a batch. All slices alias the Batch's memory.
type Message struct {
	Meta    []byte // serialized SingleMessageMetadata
	Payload []byte
	Key     []byte // of a base64 key its text
	HasKey  bool

	OrderingKey    []byte
	HasOrderingKey bool
	SequenceID     uint64
	HasSequenceID  bool

	raw []byte // the message as it stands in the batch, size field included
}

// Open decompresses the payload of a batch and finds its messages. No more than
// maxUncompressed bytes are made, and none for a size that the compressed bytes
// can not yield. The error is an *UndecodableError. info is the Scan of the
// entry's metadata.
func Open(info *Info, metadata, payload []byte, maxUncompressed int) (*Batch, error) {
	switch {
	case info.Encrypted:
		return nil, undecodable(ReasonEncrypted, nil)
	case !info.Batch:
		return nil, undecodable(ReasonNotBatch, nil)
	case info.Chunked:
		return nil, undecodable(ReasonChunked, nil)
	case info.Compacted:
		return nil, undecodable(ReasonCompacted, nil)
	}
	plain, err := Decompress(info, payload, maxUncompressed)
	if err != nil {
		return nil, err
	}
	messages, err := divide(plain, info.NumMessages)
	if err != nil {
		return nil, err
	}
	return &Batch{Messages: messages}, nil
}

// scan reads what routing needs of the message's metadata, and payload_size.
func (m *Message) scan() (size int32, ok bool) {
	for b := m.Meta; len(b) > 0; {
		f, good := next(b)
		if !good {
			return 0, false
		}
		b = b[f.size:]
		switch {
		case f.num == smProperties && f.typ == protowire.BytesType:
			if _, _, good := keyValue(f.val); !good {
				return 0, false
			}
		case f.num == smPartitionKey && f.typ == protowire.BytesType:
			m.Key, m.HasKey = f.val, true
		case f.num == smOrderingKey && f.typ == protowire.BytesType:
			m.OrderingKey, m.HasOrderingKey = f.val, true
		case f.num == smSequenceID && f.typ == protowire.VarintType:
			m.SequenceID, m.HasSequenceID = f.n, true
		case f.num == smPayloadSize && f.typ == protowire.VarintType:
			size, ok = int32(f.n), true
		}
	}
	return size, ok
}
