package frame

import (
	"fmt"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// IdentityProperty is the property that names the source entry of a published
// one (design 3.3).
const IdentityProperty = "__geobridge_source"

// Info is what geobridge needs to know of MessageMetadata. All slices alias the
// scanned bytes. Where the wire allows a field to be absent and absence means
// something, a Has… tells.
type Info struct {
	ProducerName                  []byte
	SequenceID, HighestSequenceID uint64
	HasHighestSequenceID          bool
	PublishTime                   uint64 // milliseconds since 1970
	ReplicatedFrom                []byte
	HasReplicatedFrom             bool
	HasReplicateTo                bool   // the values: ReplicateTo
	PartitionKey                  []byte // of a base64 key its text
	HasPartitionKey               bool
	OrderingKey                   []byte
	HasOrderingKey                bool
	NullPartitionKey              bool
	Compression                   pulsarpb.CompressionType
	UncompressedSize              uint32
	HasUncompressedSize           bool

	// Batch tells that num_messages_in_batch is there, be it 1: the payload is
	// a sequence of messages with headers. NumMessages is its value as stored,
	// which may be a lie, and 1 if absent: flow permits count by it.
	Batch       bool
	NumMessages int

	Encrypted        bool // encryption_keys: the payload is the application's secret
	HasTxn           bool
	HasMarker        bool
	MarkerType       int32
	SchemaVersion    []byte
	HasSchemaVersion bool
	Compacted        bool // compacted_batch_indexes: some messages were taken out

	HashMin, HashMax       uint32
	HasHashMin, HasHashMax bool

	// Chunked tells that the entry is one of several that make a message.
	Chunked            bool
	ChunkID, NumChunks int32
	UUID               []byte // common to the chunks of one message

	// Identity is the value of IdentityProperty, nil if there is none.
	Identity []byte
}

// Numbers of MessageMetadata's fields.
const (
	mdProducerName     = 1
	mdSequenceID       = 2
	mdPublishTime      = 3
	mdProperties       = 4
	mdReplicatedFrom   = 5
	mdPartitionKey     = 6
	mdReplicateTo      = 7
	mdCompression      = 8
	mdUncompressedSize = 9
	mdNumMessages      = 11
	mdEventTime        = 12
	mdEncryptionKeys   = 13
	mdSchemaVersion    = 16
	mdKeyB64           = 17
	mdOrderingKey      = 18
	mdMarkerType       = 20
	mdTxnLeast         = 22
	mdTxnMost          = 23
	mdHighestSequence  = 24
	mdNullValue        = 25
	mdUUID             = 26
	mdNumChunks        = 27
	mdChunkID          = 29
	mdNullKey          = 30
	mdCompactedIndexes = 31
	mdHashMin          = 33
	mdHashMax          = 34
)

// Scan reads MessageMetadata in one pass without allocating. The error is
// ErrMetadata: not protobuf, or producer_name, sequence_id or publish_time
// missing, without which no client can read the entry.
func Scan(metadata []byte) (Info, error) {
	in := Info{NumMessages: 1}
	var seen uint8
	for b := metadata; len(b) > 0; {
		f, ok := next(b)
		if !ok {
			return in, fmt.Errorf("%w: at byte %d of %d", ErrMetadata, len(metadata)-len(b), len(metadata))
		}
		b = b[f.size:]
		switch f.typ {
		case protowire.BytesType:
			if f.num == mdProducerName {
				seen |= 1
			}
			if !in.setBytes(f) {
				return in, fmt.Errorf("%w: property malformed", ErrMetadata)
			}
		case protowire.VarintType:
			if f.num == mdSequenceID {
				seen |= 2
			}
			if f.num == mdPublishTime {
				seen |= 4
			}
			in.setVarint(f)
		}
	}
	if seen != 7 {
		return in, fmt.Errorf("%w: required field missing", ErrMetadata)
	}
	in.Chunked = in.NumChunks > 1
	return in, nil
}

func (in *Info) setBytes(f field) bool {
	switch f.num {
	case mdProducerName:
		in.ProducerName = f.val
	case mdProperties:
		key, value, ok := keyValue(f.val)
		if ok && string(key) == IdentityProperty {
			in.Identity = value
		}
		return ok
	case mdReplicatedFrom:
		in.ReplicatedFrom, in.HasReplicatedFrom = f.val, true
	case mdPartitionKey:
		in.PartitionKey, in.HasPartitionKey = f.val, true
	case mdReplicateTo:
		in.HasReplicateTo = true
	case mdEncryptionKeys:
		in.Encrypted = true
	case mdSchemaVersion:
		in.SchemaVersion, in.HasSchemaVersion = f.val, true
	case mdOrderingKey:
		in.OrderingKey, in.HasOrderingKey = f.val, true
	case mdUUID:
		in.UUID = f.val
	case mdCompactedIndexes: // packed
		in.Compacted = in.Compacted || len(f.val) > 0
	}
	return true
}

func (in *Info) setVarint(f field) {
	switch f.num {
	case mdSequenceID:
		in.SequenceID = f.n
	case mdPublishTime:
		in.PublishTime = f.n
	case mdCompression:
		in.Compression = pulsarpb.CompressionType(int32(f.n))
	case mdUncompressedSize:
		in.UncompressedSize, in.HasUncompressedSize = uint32(f.n), true
	case mdNumMessages:
		in.NumMessages, in.Batch = int(int32(f.n)), true
	case mdMarkerType:
		in.MarkerType, in.HasMarker = int32(f.n), true
	case mdTxnLeast, mdTxnMost:
		in.HasTxn = true
	case mdHighestSequence:
		in.HighestSequenceID, in.HasHighestSequenceID = f.n, true
	case mdNumChunks:
		in.NumChunks = int32(f.n)
	case mdChunkID:
		in.ChunkID = int32(f.n)
	case mdNullKey:
		in.NullPartitionKey = f.n != 0
	case mdCompactedIndexes:
		in.Compacted = true
	case mdHashMin:
		in.HashMin, in.HasHashMin = uint32(f.n), true
	case mdHashMax:
		in.HashMax, in.HasHashMax = uint32(f.n), true
	}
}

// keyValue reads a KeyValue: key 1, value 2, both required.
func keyValue(b []byte) (key, value []byte, ok bool) {
	var seen uint8
	for len(b) > 0 {
		f, good := next(b)
		if !good {
			return nil, nil, false
		}
		if f.typ == protowire.BytesType {
			switch f.num {
			case 1:
				key, seen = f.val, seen|1
			case 2:
				value, seen = f.val, seen|2
			}
		}
		b = b[f.size:]
	}
	return key, value, seen == 3
}

// ReplicateTo calls yield with each cluster of replicate_to, in order, until it
// answers false. The values alias metadata, which Scan has accepted.
func ReplicateTo(metadata []byte, yield func(cluster []byte) bool) {
	for b := metadata; len(b) > 0; {
		f, ok := next(b)
		if !ok {
			return
		}
		if f.num == mdReplicateTo && f.typ == protowire.BytesType && !yield(f.val) {
			return
		}
		b = b[f.size:]
	}
}
