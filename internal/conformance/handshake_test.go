package conformance

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func handshakeScenarios() []Scenario {
	return []Scenario{
		{Name: "Connect", Facts: []string{"1a", "1b", "1c"}, Run: connect},
		{Name: "LookupOfSegments", Facts: []string{"1f", "1g"}, Run: lookupOfSegments},
		{Name: "LookupAfterUnload", Facts: []string{"1g", "6b"}, Run: lookupAfterUnload},
		{Name: "MalformedName", Facts: []string{"1i"}, Run: malformedName},
		{Name: "MuteClient", Facts: []string{"1h"}, Run: muteClient},
	}
}

// The broker says what it can; the client's protocol version comes back, and a client that
// announces nothing may use scalable topics all the same.
func connect(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.BrokerOf(segment)
	for _, version := range []int32{10, 21} {
		w := t.Dial(0)
		w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_CONNECT.Enum(), Connect: &pulsarpb.CommandConnect{
			ClientVersion: proto.String("plain"), ProtocolVersion: proto.Int32(version)}})
		c := w.Expect(pulsarpb.BaseCommand_CONNECTED).Command.GetConnected()
		flags := c.GetFeatureFlags()
		if c.GetProtocolVersion() != version || c.GetMaxMessageSize() != 5<<20 || !flags.GetSupportsScalableTopics() ||
			flags.GetSupportsBrokerEntryMetadata() || flags.GetSupportsAuthRefresh() {
			t.Errorf("protocol %d: %v", version, c)
		}
		w.Watch(topic.Topic(), 1)
		if u := w.Update(1); u.GetDag() == nil {
			t.Errorf("protocol %d, watch: %v", version, u)
		}
		w.Produce(segment, 1, "")
		w.Store(1, 0, metadata("k"), "x")
		w.CloseProducer(1)
		w.Subscribe(segment, 1, "s", exclusive)
		w.Flow(1, 10)
		if g := w.Message(1); g.Entry.BrokerMetadata != nil || version >= 11 && !g.Entry.Checked { // older clients get no checksum
			t.Errorf("protocol %d: an entry with broker metadata, or without a checksum", version)
		}
		w.Close()
	}
}

// A look-up of a segment that is not there succeeds; PRODUCER and SUBSCRIBE on it do not,
// and the connection stays.
func lookupOfSegments(t *T) {
	topic := t.Scalable("t", 1)
	w := t.Connect(0)
	missing := fmt.Sprintf("segment://%s/8000-ffff-7", topic)
	for _, segment := range []string{t.Segment(topic, 0), missing} {
		r := w.LookUp(segment, false)
		if r.GetResponse() != pulsarpb.CommandLookupTopicResponse_Connect || !r.GetAuthoritative() || !r.GetProxyThroughServiceUrl() ||
			r.GetBrokerServiceUrl() != "pulsar://"+t.Service(0) {
			t.Errorf("look-up of %s: %v", segment, r)
		}
	}
	for _, cmd := range []*pulsarpb.BaseCommand{producer(missing, 1, ""), subscribe(missing, 1, "s", exclusive)} {
		if answer := w.Ask(cmd); answer.GetError().GetError() != pulsarpb.ServerError_TopicNotFound {
			t.Errorf("%v on a missing segment: %v", cmd.GetType(), answer)
		}
	}
	w.Alive()
}

// An unload closes what is open with a request id of -1; until somebody looks the topic up
// again, nobody serves it.
func lookupAfterUnload(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	w := t.At(segment)
	w.Produce(segment, 1, "p")
	w.Subscribe(segment, 2, "s", exclusive)
	t.Unload()
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_PRODUCER).Command.GetCloseProducer(); c.GetProducerId() != 1 || c.GetRequestId() != unasked {
		t.Errorf("closed: %v", c)
	}
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER).Command.GetCloseConsumer(); c.GetConsumerId() != 2 || c.GetRequestId() != unasked {
		t.Errorf("closed: %v", c)
	}
	for _, cmd := range []*pulsarpb.BaseCommand{producer(segment, 3, "p"), subscribe(segment, 4, "s", exclusive)} {
		if answer := w.Ask(cmd); answer.GetError().GetError() != pulsarpb.ServerError_ServiceNotReady {
			t.Errorf("%v without a look-up: %v", cmd.GetType(), answer)
		}
	}
	w.LookUp(segment, false)
	w.Produce(segment, 5, "p")
	w.Subscribe(segment, 6, "s", exclusive)
}

// A malformed name is refused by a look-up, and ends the whole connection in a layout watch.
func malformedName(t *T) {
	w := t.Connect(0)
	r := w.LookUp("topic://bad", false)
	if r.GetResponse() != pulsarpb.CommandLookupTopicResponse_Failed || r.GetError() != pulsarpb.ServerError_InvalidTopicName {
		t.Errorf("look-up: %v", r)
	}
	w.Alive()
	w.Watch("topic://bad", 1)
	w.Ended()
}

// A client that leaves PINGs unanswered is cut at the second one, not at the first.
func muteClient(t *T) {
	since := time.Now() // the broker's time begins with the connection
	w := t.Connect(0)
	w.Mute()
	w.EndedWithin(2*t.KeepAlive() + t.Patience())
	if after := time.Since(since); after < t.KeepAlive()*5/4 {
		t.Errorf("cut after %v", after)
	}
}
