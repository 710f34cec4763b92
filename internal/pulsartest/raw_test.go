package pulsartest_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// raw is a connection of a client that may do what geobridge's own never does.
type raw struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

func (r *rig) raw() *raw {
	nc, err := r.net.Dial(r.t.Context(), "", "a:6650")
	r.must(err)
	r.t.Cleanup(func() { _ = nc.Close() })
	c := &raw{r.t, nc, bufio.NewReader(nc)}
	if got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_CONNECT.Enum(), Connect: &pulsarpb.CommandConnect{
		ClientVersion: proto.String("raw"), ProtocolVersion: proto.Int32(10)}}); got.GetConnected().GetProtocolVersion() != 10 {
		r.t.Errorf("connected: %v", got) // facts 1: the client's version comes back
	}
	return c
}

func (c *raw) send(cmd *pulsarpb.BaseCommand) {
	c.t.Helper()
	b, err := frame.AppendCommand(nil, cmd)
	if err == nil {
		_, err = c.nc.Write(b)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a command and returns what comes next, nil for the end.
func (c *raw) ask(cmd *pulsarpb.BaseCommand) *pulsarpb.BaseCommand {
	c.t.Helper()
	c.send(cmd)
	if f := c.next(); f != nil {
		return f.Command
	}
	return nil
}

// next is the next frame, nil for the end.
func (c *raw) next() *frame.Frame {
	c.t.Helper()
	f := &frame.Frame{}
	switch err := frame.ReadCommand(c.in, frame.Limits{}, f); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		c.t.Fatal(err)
	}
	return f
}

func (c *raw) lookup(topic string) {
	c.t.Helper()
	got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_LOOKUP.Enum(), LookupTopic: &pulsarpb.CommandLookupTopic{
		Topic: proto.String(topic), RequestId: proto.Uint64(1)}})
	if got.GetLookupTopicResponse().GetResponse() != pulsarpb.CommandLookupTopicResponse_Connect {
		c.t.Fatal(got)
	}
}

// subscribe attaches an Exclusive consumer, number 1, to a durable subscription s.
func (c *raw) subscribe(topic string) {
	c.t.Helper()
	c.attach(topic, pulsarpb.CommandSubscribe_Exclusive)
}

func (c *raw) attach(topic string, typ pulsarpb.CommandSubscribe_SubType) {
	c.t.Helper()
	c.lookup(topic)
	got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SUBSCRIBE.Enum(), Subscribe: &pulsarpb.CommandSubscribe{
		Topic: proto.String(topic), Subscription: proto.String("s"), SubType: typ.Enum(),
		ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(2), InitialPosition: pulsarpb.CommandSubscribe_Earliest.Enum()}})
	if got.GetType() != pulsarpb.BaseCommand_SUCCESS {
		c.t.Fatal(got)
	}
}

func pingCommand() *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_PING.Enum(), Ping: &pulsarpb.CommandPing{}}
}

// Facts 1, 6, 9.3: what is met with silence, and what with the end of the connection.
func TestRaw(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		c := r.raw()
		ack := &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_ACK.Enum(), Ack: &pulsarpb.CommandAck{
			ConsumerId: proto.Uint64(9), AckType: pulsarpb.CommandAck_Cumulative.Enum(), RequestId: proto.Uint64(1)}}
		c.send(ack)
		_, err := c.nc.Write(frame.AppendSend(nil, &frame.SendCommand{ProducerID: 9}, nil, 0, 0))
		r.must(err)
		if got := c.ask(pingCommand()); got.GetType() != pulsarpb.BaseCommand_PONG {
			t.Errorf("an unknown consumer and an unknown producer were answered: %v", got)
		}
		if got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_LOOKUP.Enum(), LookupTopic: &pulsarpb.CommandLookupTopic{
			Topic: proto.String("topic://bad"), RequestId: proto.Uint64(2)}}); got.GetLookupTopicResponse().GetError() != pulsarpb.ServerError_InvalidTopicName {
			t.Errorf("look-up of a malformed name: %v", got)
		}
		if got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP.Enum(), ScalableTopicLookup: &pulsarpb.CommandScalableTopicLookup{
			Topic: proto.String("topic://bad"), SessionId: proto.Uint64(2)}}); got != nil {
			t.Errorf("a watch of a malformed name: %v", got)
		}
		unknown := r.raw()
		if got := unknown.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_NEW_TXN.Enum()}); got != nil {
			t.Errorf("an unknown command: %v", got)
		}
		large := r.raw()
		_, err = large.nc.Write([]byte{0x7f, 0xff, 0xff, 0xff})
		r.must(err)
		synctest.Wait()
		if _, err := large.in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("a frame beyond the limit: %v", err) // facts 9.1
		}
	})
}
