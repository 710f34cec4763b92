package pulsartest

import (
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func (c *conn) judgeSent(o *outgoing) Action {
	hook := c.broker.cluster.core.opts.Hook
	if hook == nil {
		return Pass()
	}
	return hook(Command{Broker: c.broker, Conn: c.number, Sent: true, Type: o.typ(), Base: o.cmd, Receipt: o.receipt, Message: o.message})
}

func (c *conn) judgeReceived(f *frame.Frame) Action {
	hook := c.broker.cluster.core.opts.Hook
	if hook == nil {
		return Pass()
	}
	cmd := Command{Broker: c.broker, Conn: c.number, Type: f.Type, Base: f.Command}
	if f.Type == pulsarpb.BaseCommand_SEND {
		cmd.Send, cmd.Entry = &f.Send, f.Entry
	}
	c.broker.cluster.locked(func() { cmd.Topic = c.topicOf(f) })
	return hook(cmd)
}

// topicOf is what a received command is about, "" if that cannot be told.
func (c *conn) topicOf(f *frame.Frame) string {
	cmd := f.Command
	consumer := func(id uint64) string {
		if s := c.consumers[id]; s != nil {
			return s.sub.topic.name
		}
		return ""
	}
	producer := func(id uint64) string {
		if p := c.producers[id]; p != nil && p.topic != nil {
			return p.topic.name
		}
		return ""
	}
	switch f.Type {
	case pulsarpb.BaseCommand_LOOKUP:
		return cmd.GetLookupTopic().GetTopic()
	case pulsarpb.BaseCommand_PRODUCER:
		return cmd.GetProducer().GetTopic()
	case pulsarpb.BaseCommand_SUBSCRIBE:
		return cmd.GetSubscribe().GetTopic()
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP:
		return cmd.GetScalableTopicLookup().GetTopic()
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE:
		return cmd.GetScalableTopicSubscribe().GetTopic()
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE:
		if st, ok := c.streams[cmd.GetScalableTopicUnsubscribe().GetConsumerId()]; ok {
			return st.topic.layout.Topic
		}
	case pulsarpb.BaseCommand_SEND:
		return producer(f.Send.ProducerID)
	case pulsarpb.BaseCommand_CLOSE_PRODUCER:
		return producer(cmd.GetCloseProducer().GetProducerId())
	case pulsarpb.BaseCommand_FLOW:
		return consumer(cmd.GetFlow().GetConsumerId())
	case pulsarpb.BaseCommand_ACK:
		return consumer(cmd.GetAck().GetConsumerId())
	case pulsarpb.BaseCommand_SEEK:
		return consumer(cmd.GetSeek().GetConsumerId())
	case pulsarpb.BaseCommand_CONSUMER_STATS:
		return consumer(cmd.GetConsumerStats().GetConsumerId())
	case pulsarpb.BaseCommand_CLOSE_CONSUMER:
		return consumer(cmd.GetCloseConsumer().GetConsumerId())
	}
	return ""
}

// refuse answers a command as Fail wants it.
func (c *conn) refuse(f *frame.Frame, r *refusal) {
	cmd := f.Command
	code, text := r.code.Enum(), proto.String(r.message)
	switch f.Type {
	case pulsarpb.BaseCommand_SEND:
		c.send(command(sendError(f.Send.ProducerID, f.Send.SequenceID, r.code, r.message)))
	case pulsarpb.BaseCommand_LOOKUP:
		m := base(pulsarpb.BaseCommand_LOOKUP_RESPONSE)
		m.LookupTopicResponse = &pulsarpb.CommandLookupTopicResponse{RequestId: cmd.GetLookupTopic().RequestId,
			Response: pulsarpb.CommandLookupTopicResponse_Failed.Enum(), Error: code, Message: text}
		c.send(command(m))
	case pulsarpb.BaseCommand_ACK:
		if cmd.GetAck().RequestId != nil {
			c.send(command(ackResponse(cmd.GetAck(), r)))
		}
	case pulsarpb.BaseCommand_CONSUMER_STATS:
		m := base(pulsarpb.BaseCommand_CONSUMER_STATS_RESPONSE)
		m.ConsumerStatsResponse = &pulsarpb.CommandConsumerStatsResponse{RequestId: cmd.GetConsumerStats().RequestId, ErrorCode: code, ErrorMessage: text}
		c.send(command(m))
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP:
		m := base(pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE)
		m.ScalableTopicUpdate = &pulsarpb.CommandScalableTopicUpdate{SessionId: cmd.GetScalableTopicLookup().SessionId, Error: code, Message: text}
		c.send(command(m))
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE:
		c.send(command(streamRefusal(cmd.GetScalableTopicSubscribe(), r)))
	case pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS:
		m := base(pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_UPDATE)
		m.WatchScalableTopicsUpdate = &pulsarpb.CommandWatchScalableTopicsUpdate{WatchId: cmd.GetWatchScalableTopics().WatchId, Error: code, Message: text}
		c.send(command(m))
	default:
		if id, ok := requestOf(cmd); ok {
			c.send(command(failure(id, r)))
		}
	}
}

// requestOf is the request id of a command that ERROR can answer.
func requestOf(cmd *pulsarpb.BaseCommand) (id uint64, ok bool) {
	switch cmd.GetType() {
	case pulsarpb.BaseCommand_CONNECT:
		return unasked, true
	case pulsarpb.BaseCommand_PRODUCER:
		return cmd.GetProducer().GetRequestId(), true
	case pulsarpb.BaseCommand_SUBSCRIBE:
		return cmd.GetSubscribe().GetRequestId(), true
	case pulsarpb.BaseCommand_SEEK:
		return cmd.GetSeek().GetRequestId(), true
	case pulsarpb.BaseCommand_CLOSE_PRODUCER:
		return cmd.GetCloseProducer().GetRequestId(), true
	case pulsarpb.BaseCommand_CLOSE_CONSUMER:
		return cmd.GetCloseConsumer().GetRequestId(), true
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE:
		return cmd.GetScalableTopicUnsubscribe().GetRequestId(), true
	}
	return 0, false
}
