package pulsartest

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// serve handles one command as a healthy broker does. The cluster's lock is held.
// A command that this package does not know ends the connection, so that it is
// seen.
func (c *conn) serve(f *frame.Frame) {
	cmd := f.Command
	core := &c.broker.cluster.core
	switch {
	case f.Type == pulsarpb.BaseCommand_CONNECT:
		c.connect(cmd.GetConnect())
		return
	case !c.greeted:
		c.cut()
		return
	}
	if refused := c.unauthorized(f); refused != nil {
		c.refuse(f, refused)
		return
	}
	switch f.Type {
	case pulsarpb.BaseCommand_PING:
		m := base(pulsarpb.BaseCommand_PONG)
		m.Pong = &pulsarpb.CommandPong{}
		c.send(command(m))
	case pulsarpb.BaseCommand_PONG:
	case pulsarpb.BaseCommand_LOOKUP:
		c.lookup(cmd.GetLookupTopic())
	case pulsarpb.BaseCommand_PARTITIONED_METADATA:
		c.send(command(noPartitions(cmd.GetPartitionMetadata())))
	case pulsarpb.BaseCommand_AUTH_RESPONSE:
		c.answerChallenge(cmd.GetAuthResponse())
	case pulsarpb.BaseCommand_PRODUCER:
		c.produce(cmd.GetProducer())
	case pulsarpb.BaseCommand_SEND:
		if p := c.producers[f.Send.ProducerID]; p != nil { // facts 6: else dropped without an answer
			p.send(f.Send, f.Entry, f.EntryErr)
		}
	case pulsarpb.BaseCommand_CLOSE_PRODUCER:
		c.closeProducer(cmd.GetCloseProducer())
	case pulsarpb.BaseCommand_SUBSCRIBE:
		c.subscribe(cmd.GetSubscribe())
	case pulsarpb.BaseCommand_FLOW, pulsarpb.BaseCommand_ACK, pulsarpb.BaseCommand_SEEK, pulsarpb.BaseCommand_CONSUMER_STATS,
		pulsarpb.BaseCommand_REDELIVER_UNACKNOWLEDGED_MESSAGES, pulsarpb.BaseCommand_UNSUBSCRIBE,
		pulsarpb.BaseCommand_GET_LAST_MESSAGE_ID, pulsarpb.BaseCommand_CLOSE_CONSUMER:
		c.serveConsumer(cmd)
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP:
		if !wellFormed(cmd.GetScalableTopicLookup().GetTopic()) { // facts 1
			c.cut()
			return
		}
		core.watchLayout(c.broker, c, cmd.GetScalableTopicLookup())
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_CLOSE:
		core.unwatchLayout(c, func(id uint64) bool { return id == cmd.GetScalableTopicClose().GetSessionId() })
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE:
		c.registerStream(cmd.GetScalableTopicSubscribe())
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE:
		c.unregisterStream(cmd.GetScalableTopicUnsubscribe())
	case pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS:
		core.watchTopics(c, cmd.GetWatchScalableTopics())
	case pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_CLOSE:
		core.unwatchTopics(c, func(id uint64) bool { return id == cmd.GetWatchScalableTopicsClose().GetWatchId() })
	default:
		c.cut()
	}
}

// connect greets (facts 1). A credential that is refused ends the connection
// (P35).
func (c *conn) connect(cmd *pulsarpb.CommandConnect) {
	check := c.broker.cluster.core.opts.Authenticate
	if check != nil && !check(cmd.GetAuthMethodName(), cmd.GetAuthData()) {
		refused := command(failure(unasked, refuse(pulsarpb.ServerError_AuthenticationError, "Failed to authenticate")))
		refused.last = true
		c.send(refused)
		return
	}
	if role := c.broker.cluster.core.opts.Role; role != nil {
		c.role = role(cmd.GetAuthMethodName(), cmd.GetAuthData())
	}
	c.greeted, c.refreshes = true, cmd.GetFeatureFlags().GetSupportsAuthRefresh()
	m := base(pulsarpb.BaseCommand_CONNECTED)
	m.Connected = &pulsarpb.CommandConnected{
		ServerVersion: proto.String("PulsarServer5.0.1"), ProtocolVersion: proto.Int32(cmd.GetProtocolVersion()),
		MaxMessageSize: proto.Int32(maxMessageSize),
		FeatureFlags: &pulsarpb.FeatureFlags{
			SupportsTopicWatchers: proto.Bool(true), SupportsGetPartitionedMetadataWithoutAutoCreation: proto.Bool(true),
			SupportsReplDedupByLidAndEid: proto.Bool(true), SupportsTopicWatcherReconcile: proto.Bool(true),
			SupportsScalableTopics: proto.Bool(true), SupportsTcMetadataDiscovery: proto.Bool(true),
		},
	}
	c.send(command(m))
}

// lookup succeeds for segments that do not exist (facts 1), and refuses a malformed name.
func (c *conn) lookup(cmd *pulsarpb.CommandLookupTopic) {
	m := base(pulsarpb.BaseCommand_LOOKUP_RESPONSE)
	if !wellFormed(cmd.GetTopic()) {
		m.LookupTopicResponse = failedLookup(cmd, pulsarpb.ServerError_InvalidTopicName, "Invalid topic name: "+cmd.GetTopic())
		c.send(command(m))
		return
	}
	if !c.broker.cluster.core.namespaces[namespaceOf(cmd.GetTopic())] {
		m.LookupTopicResponse = failedLookup(cmd, pulsarpb.ServerError_TopicNotFound, "Namespace not found")
		c.send(command(m))
		return
	}
	m.LookupTopicResponse = c.broker.cluster.lookup(c.broker, cmd)
	c.send(command(m))
}

func failedLookup(cmd *pulsarpb.CommandLookupTopic, code pulsarpb.ServerError, message string) *pulsarpb.CommandLookupTopicResponse {
	return &pulsarpb.CommandLookupTopicResponse{
		RequestId: cmd.RequestId, Response: pulsarpb.CommandLookupTopicResponse_Failed.Enum(), Error: code.Enum(), Message: proto.String(message),
	}
}

func wellFormed(topic string) bool {
	scheme, rest, _ := strings.Cut(topic, "://")
	slashes := strings.Count(rest, "/")
	switch scheme {
	case "persistent", "topic":
		return slashes == 2
	case "segment":
		return slashes == 3
	}
	return false
}

// topic finds a topic that this broker serves, or says why not: another one
// serves it (facts 1, P3), there is none, or it has no log of its own (a real
// broker opens a phantom topic for topic:// and breaks its metrics: facts 0.9).
func (c *conn) topic(name string, create bool) (*topic, *refusal) {
	core := &c.broker.cluster.core
	switch {
	case core.owners[bundleOf(name)] != c.broker:
		return nil, refuse(pulsarpb.ServerError_ServiceNotReady, "Namespace bundle for topic ("+name+") not served by this instance. Please redo the lookup.")
	case strings.HasPrefix(name, "topic://"):
		return nil, refuse(pulsarpb.ServerError_NotAllowedError, "a scalable topic has no log")
	}
	t := core.open(name, create)
	if t == nil {
		return nil, refuse(pulsarpb.ServerError_TopicNotFound, "Topic not found "+name)
	}
	return t, nil
}

// produce opens a producer. A holder of the name on another connection is asked
// whether it lives: that makes the call take 5 s for a mute one (P34).
func (c *conn) produce(cmd *pulsarpb.CommandProducer) {
	t, refused := c.topic(cmd.GetTopic(), true)
	p := &producer{peer: c, id: cmd.GetProducerId(), name: cmd.GetProducerName()}
	if refused == nil {
		refused = t.produce(p)
	}
	if refused == nil {
		c.producers[p.id] = p
		m := base(pulsarpb.BaseCommand_PRODUCER_SUCCESS)
		m.ProducerSuccess = &pulsarpb.CommandProducerSuccess{
			RequestId: cmd.RequestId, ProducerName: proto.String(p.name), LastSequenceId: proto.Int64(p.lastSequence()),
		}
		c.send(command(m))
		return
	}
	if refused.code == pulsarpb.ServerError_ProducerBusy && t.producers[p.name].peer != c {
		t.producers[p.name].peer.probe(func(alive bool) {
			switch {
			case c.dead:
			case alive:
				c.send(command(failure(cmd.GetRequestId(), refused)))
			default:
				c.produce(cmd)
			}
		})
		return
	}
	c.send(command(failure(cmd.GetRequestId(), refused)))
}

func (c *conn) closeProducer(cmd *pulsarpb.CommandCloseProducer) {
	if p := c.producers[cmd.GetProducerId()]; p != nil {
		p.release()
		delete(c.producers, p.id)
	}
	c.send(command(success(cmd.GetRequestId())))
}
