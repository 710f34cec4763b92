package conformance

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func twinScenarios() []Scenario {
	return []Scenario{
		{Name: "LookupOfTwo", Facts: []string{"P1", "P2", "P3"}, Needs: TwoBrokers, Run: lookupOfTwo},
		{Name: "LookupAfterMove", Facts: []string{"P1", "P3", "P12"}, Needs: TwoBrokers, Run: lookupAfterMove},
		{Name: "WatchesOnBoth", Facts: []string{"P4"}, Needs: TwoBrokers, Run: watchesOnBoth},
		{Name: "DeletionOnBoth", Facts: []string{"0.5", "2.5"}, Needs: TwoBrokers, Run: deletionOnBoth},
		{Name: "StreamIsNotRedirected", Facts: []string{"P5", "2.3"}, Needs: TwoBrokers, Run: streamIsNotRedirected},
		{Name: "ControllerDies", Facts: []string{"P6"}, Needs: TwoBrokers, Alone: true, Run: controllerDies},
	}
}

// owned waits until every broker names the same one as the owner of a topic: to others it
// takes a moment.
func (t *T) owned(topic string) (owner int) {
	t.Helper()
	t.Eventually("the owner of "+topic, func() error {
		owner = -1
		for n := range t.Brokers() {
			w := t.Connect(n)
			r := w.LookUp(topic, false)
			w.Close()
			at := t.brokerAt(r.GetBrokerServiceUrl())
			if r.GetResponse() != pulsarpb.CommandLookupTopicResponse_Connect || !r.GetAuthoritative() || r.GetProxyThroughServiceUrl() || owner >= 0 && at != owner {
				return fmt.Errorf("broker %d: %v (the one before: %d)", n, r, owner)
			}
			owner = at
		}
		return nil
	})
	return owner
}

// When the deletion of a topic has its answer, no broker shows its layout to a new watch any
// more, though its orphans go on taking sends.
func deletionOnBoth(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	p := t.At(segment)
	p.Produce(segment, 1, "p")
	brokers := []*Wire{t.Connect(0), t.Connect(1)}
	for _, w := range brokers {
		w.Watch(topic.Topic(), 1)
		w.Update(1)
	}
	if a := t.REST(0, "DELETE", "scalable/"+string(topic), nil); a.Code != 204 {
		t.Errorf("delete: %d %s", a.Code, a.Body)
	}
	for n, w := range brokers {
		w.Watch(topic.Topic(), 2)
		if u := w.Update(2); u.GetError() != pulsarpb.ServerError_TopicNotFound {
			t.Errorf("broker %d: %v", n, u)
		}
	}
	p.Store(1, 0, metadata("k"), "ghost")
}

// A bundle without an owner: who is not the leader redirects to the leader, without
// authority; the leader connects, or redirects with authority to whom it chose. An owned
// one: everybody names the owner, and only there it can be opened.
func lookupOfTwo(t *T) {
	led := 0
	for n := range 2 {
		namespace := t.Namespace + map[int]string{0: "-a", 1: "-b"}[n]
		t.CreateNamespace(namespace)
		topic := "segment://" + namespace + "/t/0000-ffff-0" // it need not be there
		w := t.Connect(n)
		r := w.LookUp(topic, false)
		at := t.brokerAt(r.GetBrokerServiceUrl())
		if r.GetResponse() == pulsarpb.CommandLookupTopicResponse_Redirect && !r.GetAuthoritative() {
			led++
			if at == n {
				t.Errorf("broker %d redirects to itself: %v", n, r)
			}
			r = t.Connect(at).LookUp(topic, false)
			at = t.brokerAt(r.GetBrokerServiceUrl())
		}
		if r.GetResponse() == pulsarpb.CommandLookupTopicResponse_Redirect {
			if !r.GetAuthoritative() {
				t.Errorf("the leader redirects without authority: %v", r)
			}
			r = t.Connect(at).LookUp(topic, true)
		}
		if r.GetResponse() != pulsarpb.CommandLookupTopicResponse_Connect || t.brokerAt(r.GetBrokerServiceUrl()) != at || !r.GetAuthoritative() {
			t.Errorf("in the end: %v", r)
		}
		if owner := t.owned(topic); owner != at {
			t.Errorf("owner %d, want %d", owner, at)
		}
	}
	if led != 1 {
		t.Errorf("%d of 2 brokers redirected to a leader", led)
	}
}

// A move closes what is open, with no word about where to. The former owner refuses from
// then on, and look-ups find the new one.
func lookupAfterMove(t *T) {
	segment := t.Segment(t.Scalable("t", 1), 0)
	from := t.BrokerOf(segment)
	to := 1 - from
	w := t.Connect(from)
	w.Produce(segment, 1, "p")
	w.Subscribe(segment, 2, "s", failover)
	t.Move(t, segment, to)
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_PRODUCER).Command.GetCloseProducer(); c.GetRequestId() != unasked || c.AssignedBrokerServiceUrl != nil {
		t.Errorf("closed: %v", c)
	}
	if c := w.Expect(pulsarpb.BaseCommand_CLOSE_CONSUMER).Command.GetCloseConsumer(); c.GetRequestId() != unasked || c.AssignedBrokerServiceUrl != nil {
		t.Errorf("closed: %v", c)
	}
	w.Send(ack(2, pulsarpb.CommandAck_Cumulative, position(0, 0)))
	if owner := t.BrokerOf(segment); owner != to {
		t.Errorf("owner %d, want %d", owner, to)
	}
	t.owned(segment)
	for _, cmd := range []*pulsarpb.BaseCommand{producer(segment, 3, "p"), subscribe(segment, 4, "s", failover)} {
		if answer := w.Ask(cmd); answer.GetError().GetError() != pulsarpb.ServerError_ServiceNotReady {
			t.Errorf("%v at the former owner: %v", cmd.GetType(), answer)
		}
	}
	w.None(pulsarpb.BaseCommand_ACK_RESPONSE) // of a consumer that was closed
	w = t.Connect(to)
	w.Produce(segment, 1, "p")
	w.Subscribe(segment, 2, "s", failover)
}

// Watches work on either broker.
func watchesOnBoth(t *T) {
	topic := t.Scalable("t", 1)
	var on []*Wire
	for n := range 2 {
		w := t.Connect(n)
		w.Watch(topic.Topic(), 1)
		w.Update(1)
		w.WatchNamespace(t.Namespace, 2)
		w.Namespace(2)
		on = append(on, w)
	}
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	fresh := t.Scalable("fresh", 1)
	for _, w := range on {
		w.UpdateThat(1, "the split", atEpoch(1))
		if u := w.Namespace(2); u.GetDiff().GetAdded()[0] != fresh.Topic() {
			t.Errorf("broker %d: %v", w.Broker, u)
		}
	}
}

func stream(topic, sub, name string, id uint64) *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE.Enum(), ScalableTopicSubscribe: &pulsarpb.CommandScalableTopicSubscribe{
		RequestId: proto.Uint64(0), Topic: proto.String(topic), Subscription: proto.String(sub), ConsumerName: proto.String(name), ConsumerId: proto.Uint64(id),
		ConsumerType: pulsarpb.ScalableConsumerType_STREAM.Enum()}}
}

// controllerOf waits until a watch on a broker names the controller.
func (w *Wire) controllerOf(session uint64) int {
	w.t.Helper()
	u := w.UpdateThat(session, "the controller's url", func(u *pulsarpb.CommandScalableTopicUpdate) bool { return u.GetDag().ControllerBrokerUrl != nil })
	return w.t.brokerAt(u.GetDag().GetControllerBrokerUrl())
}

// A STREAM registration is taken by the controller's broker only; the other one refuses.
func streamIsNotRedirected(t *T) {
	topic := t.Scalable("t", 1)
	t.record(string(topic), "s")
	w := t.Connect(0)
	w.Watch(topic.Topic(), 1)
	at := w.controllerOf(1)
	if answer := t.Connect(1 - at).Ask(stream(topic.Topic(), "s", "c", 1)); answer.GetScalableTopicSubscribeResponse().GetError() != pulsarpb.ServerError_UnknownError {
		t.Errorf("not the controller: %v", answer)
	}
	if answer := t.Connect(at).Ask(stream(topic.Topic(), "s", "c", 1)); answer.GetScalableTopicSubscribeResponse().Error != nil {
		t.Errorf("the controller: %v", answer)
	}
}

// The survivor's watch tells of a killed controller without a new epoch: there is none. Then
// it is the survivor, if that was ever asked to be it, and else when it is asked. A watch on
// the dead broker ends with its connection.
func controllerDies(t *T) {
	asked, unasked := t.Scalable("asked", 1), t.Scalable("unasked", 1)
	t.record(string(asked), "s")
	t.record(string(unasked), "s")
	w := t.Connect(0)
	w.Watch(asked.Topic(), 1)
	w.Watch(unasked.Topic(), 2)
	dead := w.controllerOf(1)
	if at := w.controllerOf(2); at != dead {
		t.Fatalf("two controllers of what was set up at one broker: %d, %d", dead, at)
	}
	survivor, lost := t.Connect(1-dead), t.Connect(dead)
	for _, w := range []*Wire{survivor, lost} {
		w.Watch(asked.Topic(), 1)
		w.Watch(unasked.Topic(), 2)
		w.Update(1)
		w.Update(2)
	}
	survivor.Ask(stream(asked.Topic(), "s", "c", 1)) // refused: P5
	t.Kill(t, dead)
	since := time.Now()
	lost.Ended()
	heir := func(u *pulsarpb.CommandScalableTopicUpdate) bool {
		return u.GetDag().GetEpoch() == 0 && u.GetDag().GetControllerBrokerUrl() == "pulsar://"+t.Service(1-dead)
	}
	none := func(u *pulsarpb.CommandScalableTopicUpdate) bool {
		return u.GetDag().GetEpoch() == 0 && u.GetDag().ControllerBrokerUrl == nil
	}
	survivor.UpdateThat(1, "the survivor's url", heir)
	t.Logf("another controller after %v", time.Since(since).Round(100*time.Millisecond))
	survivor.UpdateThat(2, "no controller", none)
	survivor.NoneThat("a controller that nobody asked for", func(g Got) bool {
		u := g.Command.GetScalableTopicUpdate()
		return u.GetSessionId() == 2 && heir(u)
	})
	if answer := survivor.Ask(stream(unasked.Topic(), "s", "c", 2)); answer.GetScalableTopicSubscribeResponse().Error != nil {
		t.Errorf("the survivor, asked: %v", answer)
	}
	survivor.UpdateThat(2, "the survivor's url", heir)
	t.Restart(t, dead)
	t.owned(t.Segment(asked, 0))
}
