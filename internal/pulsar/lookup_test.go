package pulsar

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// flags gives the authoritative flag of each look-up a broker got.
func flags(b *fakeBroker) []bool {
	var out []bool
	for _, f := range b.received(pulsarpb.BaseCommand_LOOKUP) {
		out = append(out, f.Command.GetLookupTopic().GetAuthoritative())
	}
	return out
}

// redirect answers look-ups with another broker.
func (b *fakeBroker) redirect(to string, authoritative bool) {
	b.on(pulsarpb.BaseCommand_LOOKUP, func(c *fakeConn, f *frame.Frame) {
		c.lookedUp(f.Command, pulsarpb.CommandLookupTopicResponse_Redirect, to, authoritative)
	})
}

func TestLookupRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.ListenerName = "inside" })
		a, b, c := r.broker("a:6650"), r.broker("b:1"), r.broker("c:2")
		a.redirect("b:1", false)
		b.redirect("c:2", true)
		got, err := r.client.Lookup(t.Context(), testTopic)
		if err != nil || got != (Broker{Addr: "c:2", Dial: "c:2"}) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if !slices.Equal(flags(a), []bool{false}) || !slices.Equal(flags(b), []bool{false}) || !slices.Equal(flags(c), []bool{true}) {
			t.Errorf("authoritative: %v %v %v", flags(a), flags(b), flags(c))
		}
		if name := c.received(pulsarpb.BaseCommand_LOOKUP)[0].Command.GetLookupTopic().GetAdvertisedListenerName(); name != "inside" {
			t.Errorf("listener %q", name)
		}
		if _, err := r.client.OpenProducer(t.Context(), ProducerOptions{Topic: testTopic}, &producerRecorder{}); err != nil {
			t.Fatal(err)
		}
		if len(c.received(pulsarpb.BaseCommand_PRODUCER)) != 1 || len(a.received(pulsarpb.BaseCommand_PRODUCER)) != 0 {
			t.Error("the producer was not opened at the owner")
		}
	})
}

func TestLookupThroughProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		a := r.broker("a:6650")
		a.on(pulsarpb.BaseCommand_LOOKUP, func(c *fakeConn, f *frame.Frame) {
			reply := command(pulsarpb.BaseCommand_LOOKUP_RESPONSE)
			reply.LookupTopicResponse = &pulsarpb.CommandLookupTopicResponse{
				RequestId: f.Command.GetLookupTopic().RequestId, Response: pulsarpb.CommandLookupTopicResponse_Connect.Enum(),
				BrokerServiceUrl: proto.String("pulsar://hidden:6650"), ProxyThroughServiceUrl: proto.Bool(true),
			}
			c.send(reply)
		})
		if _, err := r.client.OpenProducer(t.Context(), ProducerOptions{Topic: testTopic}, &producerRecorder{}); err != nil {
			t.Fatal(err)
		}
		var to []string
		for _, f := range a.received(pulsarpb.BaseCommand_CONNECT) {
			to = append(to, f.Command.GetConnect().GetProxyToBrokerUrl())
		}
		if !slices.Equal(to, []string{"", "hidden:6650"}) {
			t.Errorf("connected to %q", to)
		}
	})
}

func TestLookupFails(t *testing.T) {
	answer := func(change func(*pulsarpb.CommandLookupTopicResponse)) func(*fakeConn, *frame.Frame) {
		return func(c *fakeConn, f *frame.Frame) {
			reply := command(pulsarpb.BaseCommand_LOOKUP_RESPONSE)
			reply.LookupTopicResponse = &pulsarpb.CommandLookupTopicResponse{RequestId: f.Command.GetLookupTopic().RequestId}
			change(reply.LookupTopicResponse)
			c.send(reply)
		}
	}
	tests := []struct {
		name string
		hook func(*fakeConn, *frame.Frame)
		want error
	}{
		{"refused", answer(func(m *pulsarpb.CommandLookupTopicResponse) {
			m.Response = pulsarpb.CommandLookupTopicResponse_Failed.Enum()
			m.Error = pulsarpb.ServerError_AuthorizationError.Enum()
		}), ErrAuthorization},
		{"refused by ERROR", func(c *fakeConn, f *frame.Frame) {
			c.refuse(f.Command.GetLookupTopic().GetRequestId(), pulsarpb.ServerError_TooManyRequests)
		}, ErrNotReady},
		{"no address", answer(func(m *pulsarpb.CommandLookupTopicResponse) {
			m.Response = pulsarpb.CommandLookupTopicResponse_Connect.Enum()
		}), ErrProtocol},
		{"bad address", answer(func(m *pulsarpb.CommandLookupTopicResponse) {
			m.Response = pulsarpb.CommandLookupTopicResponse_Connect.Enum()
			m.BrokerServiceUrl = proto.String("http://x")
		}), ErrProtocol},
		{"wrong reply", func(c *fakeConn, f *frame.Frame) { c.success(f.Command.GetLookupTopic().GetRequestId()) }, ErrProtocol},
		{"for ever in circles", func(c *fakeConn, f *frame.Frame) {
			c.lookedUp(f.Command, pulsarpb.CommandLookupTopicResponse_Redirect, "a:6650", false)
		}, ErrNotReady},
		{"to nowhere", func(c *fakeConn, f *frame.Frame) {
			c.lookedUp(f.Command, pulsarpb.CommandLookupTopicResponse_Redirect, "gone:1", false)
		}, errUnreachable},
		{"cut", func(c *fakeConn, f *frame.Frame) { c.nc.Close() }, ErrConnectionLost},
		{"mute", func(*fakeConn, *frame.Frame) {}, ErrTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.broker("a:6650").on(pulsarpb.BaseCommand_LOOKUP, tt.hook)
				if _, err := r.client.Lookup(t.Context(), testTopic); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestServiceHostsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.ServiceURL = "pulsar://gone,cut,b" })
		cut, b := r.broker("cut:6650"), r.broker("b:6650")
		cut.on(pulsarpb.BaseCommand_LOOKUP, func(c *fakeConn, f *frame.Frame) { c.nc.Close() })
		for range 3 {
			if got, err := r.client.Lookup(t.Context(), testTopic); err != nil || got.Addr != "b:6650" {
				t.Fatalf("got %v, %v", got, err)
			}
		}
		if n := len(cut.connections()); n != 1 {
			t.Errorf("%d tries of a host that had failed", n)
		}
		b.on(pulsarpb.BaseCommand_LOOKUP, func(c *fakeConn, f *frame.Frame) { c.nc.Close() })
		if _, err := r.client.Lookup(t.Context(), testTopic); !errors.Is(err, ErrConnectionLost) {
			t.Errorf("all hosts failing: %v", err)
		}
	})
}

func TestConnectionsPerBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.ConnectionsPerBroker = 2 })
		b := r.broker("a:6650")
		for i := range 6 {
			o := ProducerOptions{Topic: testTopic, Name: fmt.Sprint(i)}
			if _, err := r.client.OpenProducer(t.Context(), o, &producerRecorder{}); err != nil {
				t.Fatal(err)
			}
		}
		subscribeTest(t, r, &consumerRecorder{})
		if n := len(b.connections()); n != 2+2+1 {
			t.Errorf("%d connections, want 2 for control, 2 for producers, 1 for the consumer", n)
		}
	})
}
