package frame

import (
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// visible is what an application sees of a message: its metadata as the Java
// client shows it, and its value.
type visible struct {
	Meta    *pulsarpb.MessageMetadata
	Payload string
}

// seen overlays the outer metadata with that of a message in a batch as Java's
// MessageImpl does (5.0.1, from its byte code).
func seen(t rapid.TB, outer []byte, m *Message) visible {
	md := unmarshal(t, outer, &pulsarpb.MessageMetadata{})
	s := unmarshal(t, m.Meta, &pulsarpb.SingleMessageMetadata{})
	md.Properties = s.Properties
	md.PartitionKey, md.PartitionKeyB64Encoded = s.PartitionKey, s.PartitionKeyB64Encoded
	md.OrderingKey = s.OrderingKey
	if s.EventTime != nil {
		md.EventTime = s.EventTime
	}
	if s.SequenceId != nil {
		md.SequenceId = s.SequenceId
	}
	if s.NullValue != nil {
		md.NullValue = s.NullValue
	}
	if s.NullPartitionKey != nil {
		md.NullPartitionKey = s.NullPartitionKey
	}
	return visible{invisible(md), string(m.Payload)}
}

// plainSeen is what an application sees of a single-message entry.
func plainSeen(t rapid.TB, metadata, payload []byte) visible {
	info, err := Scan(metadata)
	if err != nil {
		t.Fatal(err)
	}
	if info.Batch || info.HasHighestSequenceID {
		t.Error("still a batch")
	}
	plain, err := Decompress(&info, payload, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return visible{invisible(unmarshal(t, metadata, &pulsarpb.MessageMetadata{})), string(plain)}
}

// invisible takes out what no application sees.
func invisible(m *pulsarpb.MessageMetadata) *pulsarpb.MessageMetadata {
	m.NumMessagesInBatch, m.HighestSequenceId, m.UncompressedSize, m.Compression = nil, nil, nil, nil
	m.EntryHashMin, m.EntryHashMax, m.TxnidLeastBits, m.TxnidMostBits = nil, nil, nil, nil
	m.PartitionKeyB64Encoded = proto.Bool(m.GetPartitionKeyB64Encoded())
	return m
}
