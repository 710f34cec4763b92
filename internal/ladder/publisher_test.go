package ladder

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

// publisherAuth tells the test's own connections from the bridge's.
const publisherAuth = "publisher"

type ownAuth struct{}

func (ownAuth) Name() string                                 { return publisherAuth }
func (ownAuth) GetData() ([]byte, error)                     { return nil, nil }
func (ownAuth) GetTLSCertificate() (*tls.Certificate, error) { return nil, nil }

// message is one published message; its text is what the target's readers see.
type message struct {
	key string // "" for none
	seq uint64
}

func (m message) text() string { return fmt.Sprintf("%s=%d", m.key, m.seq) }

func (m message) routing() reroute.Key {
	return reroute.Key{Key: []byte(m.key), HasKey: m.key != ""}
}

func (m message) name() keyorder.Message {
	return keyorder.Message{Source: "app", Key: m.key, Seq: m.seq, Unordered: m.key == ""}
}

// publisher writes to the source as a client of scalable topics does: a message
// goes to the segment of its key, an entry to one bucket. One entry is on its way
// at a time; one that fails is looked for before it is sent again.
type publisher struct {
	w       *world
	client  *pulsar.Client
	outlets map[string]*outlet
	next    map[string]uint64 // by key
	count   int
}

type outlet struct {
	*pulsar.Producer
	seq    uint64
	answer chan error
}

func (o *outlet) Receipt(uint64, pulsar.MessageID) { o.tell(nil) }
func (o *outlet) SendError(_ uint64, err error)    { o.tell(err) }
func (o *outlet) BrokerClosed(err error)           { o.tell(err) }
func (o *outlet) Closed(err error)                 { o.tell(errors.Join(pulsar.ErrClosed, err)) }
func (o *outlet) tell(err error) {
	select {
	case o.answer <- err:
	default:
	}
}

func newPublisher(w *world) *publisher {
	p := &publisher{w: w, outlets: map[string]*outlet{}, next: map[string]uint64{}}
	var err error
	p.client, err = pulsar.New(pulsar.Options{Cluster: "publisher", ServiceURL: w.east().url(), Auth: ownAuth{}, Dial: w.net.Dial,
		OperationTimeout: 5 * time.Second})
	w.must(err)
	return p
}

func (p *publisher) close() { _ = p.client.Close() }

// burst publishes n messages of random keys, some without.
func (p *publisher) burst(rng *rand.Rand, n int) {
	var all []message
	for range n {
		m := message{key: fmt.Sprintf("key-%d", rng.IntN(24))}
		if rng.IntN(10) == 0 {
			m.key = ""
		}
		p.next[m.key]++
		m.seq = p.next[m.key]
		all = append(all, m)
	}
	p.count += n
	p.publish(rng, all)
	for _, m := range all {
		p.w.check.Published(m.name())
	}
}

// locked publishes an encrypted batch without a stamp: parked, unless the source
// segment lies inside one bucket of the target.
func (p *publisher) locked(rng *rand.Rand, n int) {
	var all []message
	for range n {
		p.next[""]++
		all = append(all, message{seq: p.next[""]})
	}
	p.count += n
	e := batch(all, pulsarpb.CompressionType_NONE)
	e.encrypt()
	for l := p.w.east().layout(); !p.send(l.Active()[rng.IntN(len(l.Active()))].Topic(topicName), e); {
		l = p.w.east().layout()
	}
	for _, m := range all {
		p.w.check.Published(m.name())
	}
}

// publish groups messages by segment and bucket, and sends each group as entries.
func (p *publisher) publish(rng *rand.Rand, all []message) {
	type place struct {
		segment uint64
		bucket  int
	}
	l := p.w.east().layout()
	groups, order := map[place][]message{}, []place{}
	keyless := l.Active()[rng.IntN(len(l.Active()))]
	for _, m := range all {
		seg, bucket, _ := l.Place(m.routing(), keyless)
		at := place{seg.ID, bucket}
		if groups[at] == nil {
			order = append(order, at)
		}
		groups[at] = append(groups[at], m)
	}
	for _, at := range order {
		for _, e := range entriesOf(rng, groups[at]) {
			if !p.send(l.Segment(at.segment).Topic(topicName), e) {
				p.publish(rng, e.messages) // sealed: where they belong now
			}
		}
	}
}

// outEntry is one entry to publish.
type outEntry struct {
	messages []message
	metadata *pulsarpb.MessageMetadata
	payload  []byte
}

// entriesOf makes one batch of a group, or an entry of each message.
func entriesOf(rng *rand.Rand, group []message) []outEntry {
	if len(group) > 1 && rng.IntN(8) > 0 || len(group) == 1 && rng.IntN(4) == 0 {
		codec := pick(rng, pulsarpb.CompressionType_NONE, pulsarpb.CompressionType_NONE, pulsarpb.CompressionType_LZ4,
			pulsarpb.CompressionType_ZSTD, pulsarpb.CompressionType_ZLIB, pulsarpb.CompressionType_SNAPPY)
		e := batch(group, codec)
		stamp(&e)
		return []outEntry{e}
	}
	var all []outEntry
	for _, m := range group {
		e := outEntry{messages: []message{m}, metadata: &pulsarpb.MessageMetadata{}, payload: []byte(m.text())}
		if m.key != "" {
			e.metadata.PartitionKey = proto.String(m.key)
		}
		if rng.IntN(4) == 0 { // the key is in clear, the payload whatever
			e.encrypt()
		}
		if rng.IntN(2) == 0 {
			stamp(&e)
		}
		all = append(all, e)
	}
	return all
}

func (e *outEntry) encrypt() {
	e.metadata.EncryptionKeys = []*pulsarpb.EncryptionKeys{{Key: proto.String("k"), Value: []byte("v")}}
}

func stamp(e *outEntry) {
	s := reroute.Stamp{}
	for _, m := range e.messages {
		s = s.Extend(m.routing().Hash().Bucket)
	}
	e.metadata.EntryHashMin, e.metadata.EntryHashMax = proto.Uint32(uint32(s.Min)), proto.Uint32(uint32(s.Max))
}

func batch(group []message, codec pulsarpb.CompressionType) outEntry {
	var plain []byte
	for _, m := range group {
		text := m.text()
		meta := &pulsarpb.SingleMessageMetadata{PayloadSize: proto.Int32(int32(len(text)))}
		if m.key != "" {
			meta.PartitionKey = proto.String(m.key)
		}
		plain = frame.AppendMessageInBatch(plain, mustMarshal(meta), []byte(text))
	}
	e := outEntry{messages: group, metadata: &pulsarpb.MessageMetadata{NumMessagesInBatch: proto.Int32(int32(len(group)))}}
	var err error
	if e.payload, err = frame.Compress(codec, plain); err != nil {
		panic(err)
	}
	if codec != pulsarpb.CompressionType_NONE {
		e.metadata.Compression, e.metadata.UncompressedSize = codec.Enum(), proto.Uint32(uint32(len(plain)))
	}
	return e
}

func mustMarshal(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // a required field that this package forgot
	}
	return b
}

// send stores an entry; false: the segment takes no more.
func (p *publisher) send(topic string, e outEntry) bool {
	for {
		err := p.try(topic, &e)
		if err == nil {
			return true
		}
		delete(p.outlets, topic)
		for p.w.east().paused.Load() { // what it has read is handled when it wakes up
			sleep(p.w.ctx, 100*time.Millisecond)
		}
		sleep(p.w.ctx, 50*time.Millisecond)
		if p.stored(topic, e.payload) {
			return true
		}
		switch {
		case errors.Is(err, pulsar.ErrTopicTerminated), errors.Is(err, pulsar.ErrTopicNotFound):
			return false
		case p.w.ctx.Err() != nil:
			p.w.fatalf("publisher gave up: %v", err)
		}
		sleep(p.w.ctx, 100*time.Millisecond)
	}
}

func (p *publisher) try(topic string, e *outEntry) error {
	o := p.outlets[topic]
	if o == nil {
		o = &outlet{answer: make(chan error, 1)}
		var err error
		if o.Producer, err = p.client.OpenProducer(p.w.ctx, pulsar.ProducerOptions{Topic: topic}, o); err != nil {
			return err
		}
		p.outlets[topic] = o
	}
	e.metadata.ProducerName, e.metadata.SequenceId = proto.String("app"), proto.Uint64(o.seq)
	e.metadata.PublishTime = proto.Uint64(uint64(time.Now().UnixMilli()))
	err := o.Send(pulsar.Outgoing{Sequence: o.seq, NumMessages: len(e.messages), Metadata: mustMarshal(e.metadata), Payload: e.payload})
	if err != nil {
		_ = o.Close(p.w.ctx)
		return err
	}
	o.seq++
	select {
	case err = <-o.answer:
	case <-time.After(70 * time.Second):
		err = errors.New("no receipt")
	}
	if err != nil {
		closing, cancel := context.WithTimeout(p.w.ctx, time.Second)
		defer cancel()
		_ = o.Close(closing) // nothing of it is stored any more after this, or it is now
	}
	return err
}

// stored looks for an entry whose answer did not come. Payloads are unique, for
// they name their messages.
func (p *publisher) stored(topic string, payload []byte) bool {
	all, err := p.w.east().Entries(topic)
	if err != nil {
		return false
	}
	for _, e := range all {
		if string(e.Payload) == string(payload) {
			return true
		}
	}
	return false
}

// parse reads a message's text back.
func parse(text string) (message, error) {
	key, n, ok := strings.Cut(text, "=")
	m := message{key: key}
	if !ok {
		return m, fmt.Errorf("not a message: %q", text)
	}
	_, err := fmt.Sscan(n, &m.seq)
	return m, err
}
