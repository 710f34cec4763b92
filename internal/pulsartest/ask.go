package pulsartest

import (
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// noPartitions: nothing here has any, whether it exists or not (facts 1).
func noPartitions(cmd *pulsarpb.CommandPartitionedTopicMetadata) *pulsarpb.BaseCommand {
	m := base(pulsarpb.BaseCommand_PARTITIONED_METADATA_RESPONSE)
	m.PartitionMetadataResponse = &pulsarpb.CommandPartitionedTopicMetadataResponse{RequestId: cmd.RequestId,
		Partitions: proto.Uint32(0), Response: pulsarpb.CommandPartitionedTopicMetadataResponse_Success.Enum()}
	return m
}

func noConsumer() *refusal {
	return refuse(pulsarpb.ServerError_MetadataError, "Consumer not found")
}

// unsubscribe deletes a subscription, if the consumer is its only one. The consumer ends without
// a CLOSE_CONSUMER.
func (c *conn) unsubscribe(cmd *pulsarpb.CommandUnsubscribe) {
	s := c.consumers[cmd.GetConsumerId()]
	switch {
	case s == nil:
		c.send(command(failure(cmd.GetRequestId(), noConsumer())))
	case len(s.sub.consumers) > 1:
		c.send(command(failure(cmd.GetRequestId(), refuse(pulsarpb.ServerError_MetadataError, "Unconnected or shared consumer attempting to unsubscribe"))))
	default:
		delete(c.consumers, s.id)
		s.sub.detach(s)
		if t := s.sub.topic; t.subs[s.sub.name] == s.sub {
			delete(t.subs, s.sub.name)
		}
		c.send(command(success(cmd.GetRequestId())))
	}
}

// lastMessage answers GET_LAST_MESSAGE_ID as a broker without transactions does (P22).
func (c *conn) lastMessage(cmd *pulsarpb.CommandGetLastMessageId) {
	s := c.consumers[cmd.GetConsumerId()]
	if s == nil {
		c.send(command(failure(cmd.GetRequestId(), noConsumer())))
		return
	}
	l := s.sub.topic.log
	mark := noPosition()
	if e := l.get(s.sub.cur.mark - 1); e != nil && e.n == s.sub.cur.mark-1 {
		mark = e.at
	}
	m := base(pulsarpb.BaseCommand_GET_LAST_MESSAGE_ID_RESPONSE)
	m.GetLastMessageIdResponse = &pulsarpb.CommandGetLastMessageIdResponse{RequestId: cmd.RequestId,
		LastMessageId: s.sub.topic.lastPosition().id(), ConsumerMarkDeletePosition: mark.id()}
	c.send(command(m))
}

// lastPosition is what brokers take for the last message: not a marker, the first time after a
// load; later whatever was stored last; and of a topic that was sealed without an entry since the load,
// none (P22).
func (t *topic) lastPosition() Position {
	first := !t.asked
	t.asked = true
	switch {
	case t.log.terminated && t.log.last.Ledger != t.log.ledgers[len(t.log.ledgers)-1]:
		return noPosition()
	case !first:
		return t.log.last
	}
	for i := len(t.log.entries) - 1; i >= 0; i-- {
		if e := t.log.entries[i]; !e.marker {
			return e.at
		}
	}
	return noPosition()
}

func (p Position) id() *pulsarpb.MessageIdData {
	return &pulsarpb.MessageIdData{LedgerId: proto.Uint64(uint64(p.Ledger)), EntryId: proto.Uint64(uint64(p.Entry))}
}

// answerChallenge ends the connection at once if the new credential is no better (P36).
func (c *conn) answerChallenge(cmd *pulsarpb.CommandAuthResponse) {
	check := c.broker.cluster.core.opts.Authenticate
	if check != nil && !check(cmd.GetResponse().GetAuthMethodName(), cmd.GetResponse().GetAuthData()) {
		c.cut()
		return
	}
	c.challenge = false
}
