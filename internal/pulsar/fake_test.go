package pulsar

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// fakeNet is an in-memory network of fake brokers by host:port.
type fakeNet struct {
	mu    sync.Mutex
	hosts map[string]*fakeBroker
	parts sync.WaitGroup
}

var errUnreachable = errors.New("no such host in the fake network")

func (n *fakeNet) dial(_ context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	b := n.hosts[addr]
	n.mu.Unlock()
	if b == nil {
		return nil, errUnreachable
	}
	client, broker := net.Pipe()
	c := &fakeConn{broker: b, nc: broker, in: bufio.NewReader(broker)}
	b.mu.Lock()
	b.conns = append(b.conns, c)
	wrap := b.wrap
	b.mu.Unlock()
	n.parts.Go(c.serve)
	if wrap != nil {
		return wrap(client), nil
	}
	return client, nil
}

// fakeBroker answers like a healthy broker; hooks replace its answers by type.
type fakeBroker struct {
	net  *fakeNet
	addr string

	mu    sync.Mutex
	hooks map[pulsarpb.BaseCommand_Type]func(*fakeConn, *frame.Frame)
	wrap  func(net.Conn) net.Conn // around the client's end
	conns []*fakeConn
	log   []*frame.Frame // all it received but keep-alive, without entries
}

func (n *fakeNet) broker(addr string) *fakeBroker {
	b := &fakeBroker{net: n, addr: addr, hooks: map[pulsarpb.BaseCommand_Type]func(*fakeConn, *frame.Frame){}}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = map[string]*fakeBroker{}
	}
	n.hosts[addr] = b
	return b
}

func (b *fakeBroker) on(t pulsarpb.BaseCommand_Type, hook func(*fakeConn, *frame.Frame)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks[t] = hook
}

// received gives the commands of one type so far.
func (b *fakeBroker) received(t pulsarpb.BaseCommand_Type) []*frame.Frame {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*frame.Frame
	for _, f := range b.log {
		if f.Type == t {
			out = append(out, f)
		}
	}
	return out
}

// connections gives all connections ever made to the broker.
func (b *fakeBroker) connections() []*fakeConn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*fakeConn(nil), b.conns...)
}

// fakeConn is the broker's end of one connection.
type fakeConn struct {
	broker *fakeBroker
	nc     net.Conn
	in     *bufio.Reader
	write  sync.Mutex
	stored int64
}

func (c *fakeConn) serve() {
	defer c.nc.Close()
	for {
		f := &frame.Frame{}
		if frame.ReadCommand(c.in, frame.Limits{}, f) != nil {
			return
		}
		if f.Entry != nil {
			f.Entry.Release()
			f.Entry = nil
		}
		c.broker.mu.Lock()
		if f.Type != pulsarpb.BaseCommand_PING && f.Type != pulsarpb.BaseCommand_PONG {
			c.broker.log = append(c.broker.log, f)
		}
		hook := c.broker.hooks[f.Type]
		c.broker.mu.Unlock()
		if hook != nil {
			hook(c, f)
		} else {
			c.answer(f)
		}
	}
}

// answer is what a healthy broker says.
func (c *fakeConn) answer(f *frame.Frame) {
	cmd := f.Command
	switch f.Type {
	case pulsarpb.BaseCommand_CONNECT:
		c.connected()
	case pulsarpb.BaseCommand_PING:
		c.send(pongCommand())
	case pulsarpb.BaseCommand_LOOKUP:
		c.lookedUp(cmd, pulsarpb.CommandLookupTopicResponse_Connect, c.broker.addr, true)
	case pulsarpb.BaseCommand_SUBSCRIBE:
		c.success(cmd.GetSubscribe().GetRequestId())
	case pulsarpb.BaseCommand_PRODUCER:
		c.produced(cmd, "fake-1", -1)
	case pulsarpb.BaseCommand_CLOSE_PRODUCER:
		c.success(cmd.GetCloseProducer().GetRequestId())
	case pulsarpb.BaseCommand_CLOSE_CONSUMER:
		c.success(cmd.GetCloseConsumer().GetRequestId())
	case pulsarpb.BaseCommand_SEND:
		c.stored++
		c.receipt(f.Send.ProducerID, f.Send.SequenceID, MessageID{7, c.stored - 1})
	case pulsarpb.BaseCommand_ACK:
		if cmd.GetAck().RequestId != nil {
			c.acked(cmd.GetAck().GetConsumerId(), cmd.GetAck().GetRequestId())
		}
	}
}

func (c *fakeConn) raw(b []byte) {
	c.write.Lock()
	defer c.write.Unlock()
	_, _ = c.nc.Write(b) // a client that hung up is part of many tests
}

func (c *fakeConn) send(cmd *pulsarpb.BaseCommand) {
	b, err := frame.AppendCommand(nil, cmd)
	if err != nil {
		panic(err)
	}
	c.raw(b)
}

func (c *fakeConn) connected() {
	cmd := command(pulsarpb.BaseCommand_CONNECTED)
	cmd.Connected = &pulsarpb.CommandConnected{
		ServerVersion: proto.String("fake"), ProtocolVersion: proto.Int32(21), MaxMessageSize: proto.Int32(64 << 10),
		FeatureFlags: &pulsarpb.FeatureFlags{SupportsScalableTopics: proto.Bool(true)},
	}
	c.send(cmd)
}

func (c *fakeConn) success(request uint64) {
	cmd := command(pulsarpb.BaseCommand_SUCCESS)
	cmd.Success = &pulsarpb.CommandSuccess{RequestId: proto.Uint64(request)}
	c.send(cmd)
}

func (c *fakeConn) refuse(request uint64, code pulsarpb.ServerError) {
	cmd := command(pulsarpb.BaseCommand_ERROR)
	cmd.Error = &pulsarpb.CommandError{RequestId: proto.Uint64(request), Error: code.Enum(), Message: proto.String("as told")}
	c.send(cmd)
}

func (c *fakeConn) produced(cmd *pulsarpb.BaseCommand, name string, last int64) {
	p := cmd.GetProducer()
	if p.GetProducerName() != "" {
		name = p.GetProducerName()
	}
	reply := command(pulsarpb.BaseCommand_PRODUCER_SUCCESS)
	reply.ProducerSuccess = &pulsarpb.CommandProducerSuccess{RequestId: p.RequestId, ProducerName: proto.String(name), LastSequenceId: proto.Int64(last)}
	c.send(reply)
}

func (c *fakeConn) lookedUp(cmd *pulsarpb.BaseCommand, t pulsarpb.CommandLookupTopicResponse_LookupType, addr string, authoritative bool) {
	reply := command(pulsarpb.BaseCommand_LOOKUP_RESPONSE)
	reply.LookupTopicResponse = &pulsarpb.CommandLookupTopicResponse{
		RequestId: cmd.GetLookupTopic().RequestId, Response: t.Enum(), Authoritative: proto.Bool(authoritative),
		BrokerServiceUrl: proto.String("pulsar://" + addr), BrokerServiceUrlTls: proto.String("pulsar+ssl://" + addr),
	}
	c.send(reply)
}

func (c *fakeConn) receipt(producer, sequence uint64, id MessageID) {
	c.raw(frame.AppendReceipt(nil, &frame.ReceiptCommand{ProducerID: producer, SequenceID: sequence, Ledger: id.Ledger, Entry: id.Entry}))
}

func (c *fakeConn) sendError(producer, sequence uint64, code pulsarpb.ServerError) {
	cmd := command(pulsarpb.BaseCommand_SEND_ERROR)
	cmd.SendError = &pulsarpb.CommandSendError{ProducerId: proto.Uint64(producer), SequenceId: proto.Uint64(sequence), Error: code.Enum(), Message: proto.String("as told")}
	c.send(cmd)
}

func (c *fakeConn) acked(consumer, request uint64) {
	cmd := command(pulsarpb.BaseCommand_ACK_RESPONSE)
	cmd.AckResponse = &pulsarpb.CommandAckResponse{ConsumerId: proto.Uint64(consumer), RequestId: proto.Uint64(request)}
	c.send(cmd)
}

func (c *fakeConn) closeProducer(id uint64) {
	cmd := command(pulsarpb.BaseCommand_CLOSE_PRODUCER)
	cmd.CloseProducer = &pulsarpb.CommandCloseProducer{ProducerId: proto.Uint64(id), RequestId: proto.Uint64(^uint64(0))}
	c.send(cmd)
}

func (c *fakeConn) closeConsumer(id uint64) {
	cmd := command(pulsarpb.BaseCommand_CLOSE_CONSUMER)
	cmd.CloseConsumer = &pulsarpb.CommandCloseConsumer{ConsumerId: proto.Uint64(id), RequestId: proto.Uint64(^uint64(0))}
	c.send(cmd)
}

func (c *fakeConn) message(consumer uint64, id MessageID, metadata, payload []byte) {
	m := frame.MessageCommand{ConsumerID: consumer, Ledger: id.Ledger, Entry: id.Entry, Partition: -1, BatchIndex: -1}
	c.raw(append(frame.AppendMessage(nil, &m, metadata, len(payload), frame.Checksum(0, payload)), payload...))
}

// testMetadata is the least metadata an entry can have.
func testMetadata() []byte {
	b, err := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String("p"), SequenceId: proto.Uint64(1), PublishTime: proto.Uint64(1)})
	if err != nil {
		panic(err)
	}
	return b
}

// rig is a client and the network it lives in.
type rig struct {
	*fakeNet
	client *Client
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{fakeNet: &fakeNet{}}
	o := Options{Cluster: "test", ServiceURL: "pulsar://a", Dial: r.dial}
	if change != nil {
		change(&o)
	}
	client, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.client = client
	t.Cleanup(r.end)
	return r
}

// end closes the client and waits for all brokers' ends: what is left over
// after it fails the bubble.
func (r *rig) end() {
	_ = r.client.Close()
	r.parts.Wait()
}

const testTopic = "segment://public/default/t/0000-ffff-0"

// recorder keeps what the handlers are told, as short lines.
type recorder struct {
	mu     sync.Mutex
	lines  []string
	closed int
	err    error // of Closed
}

func (r *recorder) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed > 0 {
		line = "AFTER CLOSED " + line
	}
	r.lines = append(r.lines, line)
}

func (r *recorder) get() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

func (r *recorder) Closed(err error) {
	r.add("closed")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	r.err = err
}

// end tells how often Closed came and its last error.
func (r *recorder) end() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed, r.err
}

const testTimeout = 5 * time.Second
