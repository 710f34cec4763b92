package pulsar

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

type silentConsumer struct{}

func (silentConsumer) Message(m Message)  { m.Entry.Release() }
func (silentConsumer) ActiveChanged(bool) {}
func (silentConsumer) EndOfTopic()        {}
func (silentConsumer) Closed(error)       {}

type silentProducer struct{}

func (silentProducer) Receipt(uint64, MessageID) {}
func (silentProducer) SendError(uint64, error)   {}
func (silentProducer) BrokerClosed(error)        {}
func (silentProducer) Closed(error)              {}

// What is done for each entry allocates nothing.
func TestEntriesAllocateNothing(t *testing.T) {
	opts := &Options{ServiceURL: "pulsar://a"}
	if err := opts.setDefaults(); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	c := newConn(opts, target{}, ours, ours, &atomic.Uint64{}, &frame.Pool{})
	c.info.MaxMessageSize = defaultMaxMessageSize
	s := &Consumer{conn: c, id: 1, handler: silentConsumer{}, dead: make(chan struct{})}
	p := &Producer{conn: c, id: 2, handler: silentProducer{}, gone: make(chan struct{})}
	s.deliver.open()
	p.deliver.open()
	c.owned.consumers[1], c.owned.producers[2] = s, p
	entry := frame.NewEntry(testMetadata(), make([]byte, 1000))
	w := writer{outbox: c.out, out: func(*net.Buffers) error { return nil }}
	tests := []struct {
		name string
		run  func()
	}{
		{"send", func() {
			for seq := range uint64(8) {
				err := p.Send(Outgoing{Sequence: seq, Metadata: entry.Metadata, Payload: entry.Payload, PayloadCRC: entry.PayloadCRC, HasPayloadCRC: true, Owner: entry})
				if err != nil {
					t.Fatal(err)
				}
			}
			w.batch = c.out.swap(w.batch)
			if err := w.flush(); err != nil {
				t.Fatal(err)
			}
			w.batch.reset()
		}},
		{"receipt", func() {
			f := frame.Frame{Type: pulsarpb.BaseCommand_SEND_RECEIPT, Receipt: frame.ReceiptCommand{ProducerID: 2}}
			c.dispatch(&f)
		}},
		{"message", func() {
			entry.Retain()
			f := frame.Frame{Type: pulsarpb.BaseCommand_MESSAGE, Message: frame.MessageCommand{ConsumerID: 1}, Entry: entry}
			c.dispatch(&f)
		}},
	}
	for _, tt := range tests {
		if n := testing.AllocsPerRun(100, tt.run); n > 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}
