package demo

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

// producerName is whose messages are the demo's; the bridge adds the cluster.
const producerName = "demo-producer"

// filler brings a message to a usual size.
const filler = " ....................................................................."

// codec writes the entries that the producer publishes, and reads them again. It
// is safe for concurrent use.
type codec struct {
	secret cipher.AEAD
}

// newCodec makes the application's secret, which the bridge never gets.
func newCodec(seed uint64) (*codec, error) {
	key := make([]byte, 16)
	binary.LittleEndian.PutUint64(key, seed)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	secret, err := cipher.NewGCM(block)
	return &codec{secret}, err
}

func (m message) payload() []byte {
	name := m.key
	if m.kind == keyless {
		name = "-"
	}
	return fmt.Appendf(nil, "%s #%d%s", name, m.seq, filler)
}

// outer is the metadata that every entry has. first numbers all messages of the
// producer.
func outer(first uint64, now time.Time) *pulsarpb.MessageMetadata {
	return &pulsarpb.MessageMetadata{
		ProducerName: proto.String(producerName), SequenceId: proto.Uint64(first), PublishTime: proto.Uint64(uint64(now.UnixMilli())),
	}
}

// batch makes one entry of messages of one bucket, stamped as Pulsar's own V5
// producer does (facts P38).
func (c *codec) batch(msgs []message, codec pulsarpb.CompressionType, first uint64, now time.Time) (metadata, payload []byte, err error) {
	md := outer(first, now)
	var plain []byte
	var stamp reroute.Stamp
	for i, m := range msgs {
		body := m.payload()
		single := &pulsarpb.SingleMessageMetadata{PayloadSize: proto.Int32(int32(len(body))), SequenceId: proto.Uint64(first + uint64(i))}
		if m.kind != keyless {
			single.PartitionKey = proto.String(m.key)
		}
		if m.orderingKey != "" {
			single.OrderingKey = []byte(m.orderingKey)
		}
		head, err := proto.Marshal(single)
		if err != nil {
			return nil, nil, err
		}
		plain = frame.AppendMessageInBatch(plain, head, body)
		stamp = stamp.Extend(m.route().Hash().Bucket)
	}
	md.HighestSequenceId = proto.Uint64(first + uint64(len(msgs)) - 1)
	md.NumMessagesInBatch = proto.Int32(int32(len(msgs)))
	md.EntryHashMin, md.EntryHashMax = proto.Uint32(uint32(stamp.Min)), proto.Uint32(uint32(stamp.Max))
	md.UncompressedSize, md.Compression = proto.Uint32(uint32(len(plain))), codec.Enum()
	if payload, err = frame.Compress(codec, plain); err != nil {
		return nil, nil, err
	}
	metadata, err = proto.Marshal(md)
	return metadata, payload, err
}

// seal makes the entry of an encrypted message: alone, without a stamp (facts P39),
// its key in clear.
func (c *codec) seal(m message, first uint64, now time.Time) (metadata, payload []byte, err error) {
	nonce := make([]byte, c.secret.NonceSize())
	binary.BigEndian.PutUint64(nonce, first)
	md := outer(first, now)
	md.PartitionKey = proto.String(m.key)
	md.EncryptionKeys = []*pulsarpb.EncryptionKeys{{Key: proto.String("demo"), Value: []byte("known to the application")}}
	md.EncryptionAlgo, md.EncryptionParam = proto.String("AES/GCM/NoPadding"), nonce
	metadata, err = proto.Marshal(md)
	return metadata, c.secret.Seal(nil, nonce, m.payload(), nil), err
}

// errForeign is an entry that the demo's producer cannot have published.
var errForeign = errors.New("not as it was published")

// open reads the messages of an entry, in their order.
func (c *codec) open(info *frame.Info, e *frame.Entry) ([]message, error) {
	if !info.Batch {
		body := e.Payload
		if info.Encrypted {
			var md pulsarpb.MessageMetadata
			err := proto.Unmarshal(e.Metadata, &md)
			if err == nil && len(md.EncryptionParam) == c.secret.NonceSize() {
				body, err = c.secret.Open(nil, md.EncryptionParam, e.Payload, nil)
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errForeign, err)
			}
		}
		m, err := read(body, string(info.PartitionKey), info.HasPartitionKey)
		return []message{m}, err
	}
	b, err := frame.Open(info, e.Metadata, e.Payload, frame.DefaultMaxFrame)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForeign, err)
	}
	out := make([]message, 0, len(b.Messages))
	for _, part := range b.Messages {
		m, err := read(part.Payload, string(part.Key), part.HasKey)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// read finds the number in a payload, all of which must be as it was written.
func read(body []byte, key string, keyed bool) (message, error) {
	m := message{key: key}
	name, rest, _ := strings.Cut(string(body), " #")
	if !keyed {
		m.kind, key = keyless, "-"
	}
	if _, err := fmt.Sscanf(rest, "%d", &m.seq); err != nil || name != key || string(m.payload()) != string(body) {
		return m, fmt.Errorf("%w: %.40q with key %q", errForeign, body, key)
	}
	return m, nil
}

// ours tells the demo's entries from those of a user's own client.
func ours(info *frame.Info) bool {
	name, _, _ := strings.Cut(string(info.ProducerName), "@")
	return name == producerName
}
