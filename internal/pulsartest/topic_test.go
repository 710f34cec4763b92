package pulsartest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// client is a peer that keeps what it is told.
type client struct{ told []string }

func (c *client) send(o outgoing) {
	switch {
	case o.receipt != nil:
		c.told = append(c.told, fmt.Sprintf("receipt %d", o.receipt.SequenceID))
	case o.message != nil:
		c.told = append(c.told, fmt.Sprintf("message %d", o.message.Entry))
	case o.cmd.SendError != nil:
		c.told = append(c.told, fmt.Sprintf("error %d %v", o.cmd.SendError.GetSequenceId(), o.cmd.SendError.GetError()))
	default:
		c.told = append(c.told, o.typ().String())
	}
}
func (c *client) forgetConsumer(uint64) {}
func (c *client) forgetProducer(uint64) {}
func (c *client) probe(f func(bool))    { f(true) }
func (c *client) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(c.told, want) {
		t.Errorf("told %q, want %q", c.told, want)
	}
	c.told = nil
}

// coreOf is a core on its own: no lock, no connection, timers that fire at once.
func coreOf(o Options) *core {
	c := New(o)
	c.core.after = func(_ time.Duration, f func()) { f() }
	return &c.core
}

func metadataOf(seq uint64) []byte {
	b, err := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String("p"), SequenceId: proto.Uint64(seq), PublishTime: proto.Uint64(1)})
	if err != nil {
		panic(err)
	}
	return b
}

// Facts 5, 9.1.
func TestDamagedAndOversize(t *testing.T) {
	c := coreOf(Options{})
	topic := c.addTopic("persistent://public/default/t")
	peer := &client{}
	open := func() *producer {
		p := &producer{peer: peer, id: 1, name: "p"}
		if refused := topic.produce(p); refused != nil {
			t.Fatal(refused)
		}
		return p
	}
	send := func(p *producer, seq uint64, metadata, payload []byte, damage error) {
		p.send(frame.SendCommand{ProducerID: 1, SequenceID: seq}, frame.NewEntry(metadata, payload), damage)
	}
	reader := &client{}
	sub := topic.subscription("s", 0)
	reading := &consumer{peer: reader, id: 2, name: "c", permits: 10}
	if refused := sub.attach(reading, pulsarpb.CommandSubscribe_Exclusive, nil); refused != nil {
		t.Fatal(refused)
	}
	p := open()
	send(p, 0, metadataOf(0), nil, frame.ErrChecksum)
	send(p, 1, []byte{0xff}, []byte("stored, not delivered"), nil)
	send(p, 2, metadataOf(2), nil, nil)
	peer.want(t, "error 0 ChecksumError", "receipt 1", "receipt 2")
	reader.want(t, "message 1")
	send(p, 3, metadataOf(3), make([]byte, maxMessageSize), nil)
	send(p, 4, metadataOf(4), nil, nil)
	peer.want(t) // for ever
	p.release()
	topic.crash()
	topic.load()
	send(open(), 5, metadataOf(5), nil, nil)
	peer.want(t, "receipt 5")
	if n := len(topic.log.entries); n != 3 {
		t.Errorf("%d stored", n)
	}
}

// Facts 2.7.
func TestSessionIDTwice(t *testing.T) {
	c, peer := coreOf(Options{}), &client{}
	const topic = "topic://public/default/t"
	for range 2 { // the first one creates the topic
		c.watchLayout(nil, peer, &pulsarpb.CommandScalableTopicLookup{SessionId: proto.Uint64(7), Topic: proto.String(topic)})
	}
	c.push(topic)
	const update = "SCALABLE_TOPIC_UPDATE"
	peer.want(t, update, update, update, update)
	c.unwatchLayout(peer, func(id uint64) bool { return id == 7 })
	c.push(topic)
	peer.want(t)
}

// P14, 3.5: what nobody has recorded goes with its data, whoever reads it.
func TestPruneTakesLooseSubscriptions(t *testing.T) {
	c, peer := coreOf(Options{FailoverDelay: -1}), &client{}
	const name = "topic://public/default/t"
	if err := c.create(name, 1); err != nil {
		t.Fatal(err)
	}
	s := c.scalables[name]
	topic := c.topics[s.layout.Segments[0].Topic(name)]
	topic.log.append(newEntry(frame.NewEntry(metadataOf(0), nil)))
	sub := topic.subscription("loose", 0)
	if refused := sub.attach(&consumer{peer: peer, id: 1, name: "c"}, pulsarpb.CommandSubscribe_Failover, nil); refused != nil {
		t.Fatal(refused)
	}
	p, err := s.layout.planSplit(0)
	if err != nil {
		t.Fatal(err)
	}
	c.change(s, p)
	if n := c.prune(s); n != 1 {
		t.Errorf("%d pruned", n)
	}
	peer.want(t, "ACTIVE_CONSUMER_CHANGE", "CLOSE_CONSUMER")
}
