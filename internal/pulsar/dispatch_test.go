package pulsar

import (
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// framed puts bytes into a frame as its command.
func framed(cmd []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(cmd)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(len(cmd)))
	return append(b, cmd...)
}

// FuzzDispatch lets a broker say anything to a connection with one of each
// handle: it must neither panic nor hang, and each handle ends once.
func FuzzDispatch(f *testing.F) {
	values := pulsarpb.BaseCommand_Type(0).Descriptor().Values()
	for i := range values.Len() {
		f.Add(true, []byte{8, byte(values.Get(i).Number())})
	}
	receipt := frame.AppendReceipt(nil, &frame.ReceiptCommand{ProducerID: 2, SequenceID: 1})
	f.Add(false, receipt)
	m := frame.MessageCommand{ConsumerID: 1, Ledger: 1, Entry: 1, Partition: -1, BatchIndex: -1}
	f.Add(false, append(frame.AppendMessage(nil, &m, testMetadata(), 1, frame.Checksum(0, []byte("x"))), 'x'))
	for _, cmd := range []*pulsarpb.BaseCommand{
		activeChange(1, true), layoutOf(3, 1, segmentOf(1, 0, 9, 5)), challenge(), pingCommand(),
		{Type: pulsarpb.BaseCommand_CLOSE_PRODUCER.Enum(), CloseProducer: &pulsarpb.CommandCloseProducer{ProducerId: proto.Uint64(2), RequestId: proto.Uint64(0)}},
		{Type: pulsarpb.BaseCommand_CLOSE_CONSUMER.Enum(), CloseConsumer: &pulsarpb.CommandCloseConsumer{ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(0)}},
		{Type: pulsarpb.BaseCommand_ACK_RESPONSE.Enum(), AckResponse: &pulsarpb.CommandAckResponse{ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(101)}},
		{Type: pulsarpb.BaseCommand_SEND_ERROR.Enum(), SendError: &pulsarpb.CommandSendError{ProducerId: proto.Uint64(2), SequenceId: proto.Uint64(0), Error: pulsarpb.ServerError_UnknownError.Enum(), Message: proto.String("")}},
	} {
		b, err := frame.AppendCommand(nil, cmd)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(false, b)
	}
	f.Fuzz(func(t *testing.T, frames bool, data []byte) {
		if frames {
			data = framed(data)
		}
		say(t, data)
	})
}

// say lets a connection hear data and its end.
func say(t *testing.T, data []byte) {
	opts := &Options{ServiceURL: "pulsar://a"}
	if err := opts.setDefaults(); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	ids := &atomic.Uint64{}
	ids.Store(100)
	c := newConn(opts, target{dial: "a:1", broker: "a:1"}, ours, ours, ids, &frame.Pool{})
	c.info.MaxMessageSize = 1 << 16
	consumed, produced := &consumerRecorder{}, &producerRecorder{}
	s := &Consumer{conn: c, id: 1, handler: consumed, dead: make(chan struct{})}
	p := &Producer{conn: c, id: 2, handler: produced, gone: make(chan struct{})}
	s.deliver.open()
	p.deliver.open()
	layouts := newSession[*pulsarpb.CommandScalableTopicUpdate]()
	c.owned.consumers[1], c.owned.producers[2], c.owned.layouts[3] = s, p, layouts
	var acks ackResults
	s.AckCumulative(MessageID{1, 1}, acks.done("ack"))
	go func() { // the broker reads whatever comes
		buf := make([]byte, 4096)
		for {
			if _, err := theirs.Read(buf); err != nil {
				return
			}
		}
	}()
	go c.run()
	_, _ = theirs.Write(data) // a connection may end before it heard all
	theirs.Close()
	select {
	case <-c.ended:
	case <-time.After(10 * time.Second):
		panic("hang")
	}
	for _, r := range []*recorder{&consumed.recorder, &produced.recorder} {
		lines := r.get()
		if n, _ := r.end(); n != 1 || lines[len(lines)-1] != "closed" {
			t.Errorf("closed %d times: %q", n, lines)
		}
	}
	if n := len(acks.m["ack"]); n != 1 {
		t.Errorf("acknowledgement ended %d times", n)
	}
	updates, err := layouts.take()
	if err == nil {
		t.Error("the layout session goes on")
	}
	for _, u := range updates {
		if u := layoutUpdate(u, false); u.Err != nil && !errors.Is(u.Err, ErrProtocol) && !isServerError(u.Err) {
			t.Errorf("untyped: %v", u.Err)
		}
	}
}
