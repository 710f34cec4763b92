package pulsartest

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// electionTime is from the end of a lost controller's lock to the next one (P6).
const electionTime = 200 * time.Millisecond

// stream is a registration as the connection knows it that sent it.
type stream struct {
	topic     *scalable
	sub, name string
}

// elect makes a broker the controller of a topic, as whatever needs one does first.
// The layout's watches are told, in the same epoch (facts 2.3).
func (c *core) elect(s *scalable, b *Broker) {
	if s.controller != nil || b == nil {
		return
	}
	s.controller = b
	s.stand(b)
	for _, name := range names(s.groups) {
		s.groups[name].restore()
	}
	c.push(s.layout.Topic)
}

// stand makes a broker one of those that may become the controller.
func (s *scalable) stand(b *Broker) {
	if !slices.Contains(s.asked, b) {
		s.asked = append(s.asked, b)
	}
}

// depose is the end of a broker's leadership: its topics have no controller, until one
// of the other brokers that were asked before takes over (P6), or one is asked now.
func (c *core) depose(b *Broker) {
	for _, name := range names(c.scalables) {
		s := c.scalables[name]
		s.asked = slices.DeleteFunc(s.asked, func(o *Broker) bool { return o == b })
		if s.controller != b {
			continue
		}
		s.controller = nil
		for _, g := range s.groups {
			g.suspend()
		}
		c.push(name)
		c.after(electionTime, func() {
			if c.scalables[name] == s && len(s.asked) > 0 {
				c.elect(s, s.asked[0])
			}
		})
	}
}

// register takes a STREAM consumer, where the controller is (P5). Whoever is asked
// first becomes it. Registering creates neither the topic nor a cursor (facts 3.1).
func (c *core) register(b *Broker, p peer, cmd *pulsarpb.CommandScalableTopicSubscribe) (stream, *pulsarpb.ScalableConsumerAssignment, *refusal) {
	s := c.scalables[cmd.GetTopic()]
	switch {
	case s == nil: // facts 2.5
		return stream{}, nil, refuse(pulsarpb.ServerError_UnknownError, "Failed to initialize controller for "+cmd.GetTopic())
	case s.controller != nil && s.controller != b:
		s.stand(b)
		return stream{}, nil, refuse(pulsarpb.ServerError_UnknownError, "This broker is not the leader for topic: "+cmd.GetTopic())
	case cmd.GetConsumerType() != pulsarpb.ScalableConsumerType_STREAM:
		return stream{}, nil, refuse(pulsarpb.ServerError_NotAllowedError, "pulsartest: STREAM consumers only")
	}
	c.elect(s, b)
	g := s.groups[cmd.GetSubscription()]
	if g == nil {
		g = newGroup(c, s, cmd.GetSubscription())
		s.groups[g.name] = g
	}
	own := g.register(cmd.GetConsumerName(), p, cmd.GetConsumerId())
	c.push(s.layout.Topic) // facts 2.4
	return stream{s, g.name, cmd.GetConsumerName()}, own, nil
}

// group is where the registration is, if the broker is still its controller.
func (st stream) group(b *Broker) *group {
	if st.topic.controller != b {
		return nil
	}
	return st.topic.groups[st.sub]
}

func (c *conn) registerStream(cmd *pulsarpb.CommandScalableTopicSubscribe) {
	st, own, refused := c.broker.cluster.core.register(c.broker, c, cmd)
	if refused != nil {
		c.send(command(streamRefusal(cmd, refused)))
		return
	}
	c.streams[cmd.GetConsumerId()] = st
	m := base(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
	m.ScalableTopicSubscribeResponse = &pulsarpb.CommandScalableTopicSubscribeResponse{RequestId: cmd.RequestId, Assignment: own}
	c.send(command(m))
}

func streamRefusal(cmd *pulsarpb.CommandScalableTopicSubscribe, r *refusal) *pulsarpb.BaseCommand {
	m := base(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
	m.ScalableTopicSubscribeResponse = &pulsarpb.CommandScalableTopicSubscribeResponse{
		RequestId: cmd.RequestId, Error: r.code.Enum(), Message: proto.String(r.message)}
	return m
}

// unregisterStream tells the peers before it answers; of a consumer that it does not
// know, it answers well (facts 4.7).
func (c *conn) unregisterStream(cmd *pulsarpb.CommandScalableTopicUnsubscribe) {
	st, known := c.streams[cmd.GetConsumerId()]
	delete(c.streams, cmd.GetConsumerId())
	if known {
		if g := st.group(c.broker); g != nil {
			g.unregister(st.name, cmd.GetConsumerId())
		}
	}
	c.send(command(success(cmd.GetRequestId())))
}
