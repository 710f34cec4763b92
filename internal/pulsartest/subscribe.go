package pulsartest

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func (c *conn) subscribe(cmd *pulsarpb.CommandSubscribe) {
	if c.consumers[cmd.GetConsumerId()] != nil { // facts 4.3: the same again is a success
		c.send(command(success(cmd.GetRequestId())))
		return
	}
	refused := c.attach(cmd)
	if refused != nil {
		if !refused.silent {
			c.send(command(failure(cmd.GetRequestId(), refused)))
		}
		return
	}
	// Who is active is told before this answer.
	c.send(command(success(cmd.GetRequestId())))
}

func (c *conn) attach(cmd *pulsarpb.CommandSubscribe) *refusal {
	t, refused := c.topic(cmd.GetTopic(), cmd.GetForceTopicCreation())
	if refused != nil {
		return refused
	}
	switch cmd.GetSubType() {
	case pulsarpb.CommandSubscribe_Shared, pulsarpb.CommandSubscribe_Key_Shared:
		if cmd.GetReadCompacted() { // facts 9.4
			return refuse(pulsarpb.ServerError_NotAllowedError, "readCompacted only allowed on failover or exclusive subscriptions")
		}
	}
	s := t.subs[cmd.GetSubscription()]
	switch {
	case s != nil && s.durable != cmd.GetDurable():
		return refuse(pulsarpb.ServerError_NotAllowedError, "subscription of that name differs in being durable")
	case s == nil && t.stuck[cmd.GetSubscription()]:
		return &refusal{silent: true}
	case s == nil:
		if s, refused = t.newSubscription(cmd); refused != nil {
			return refused
		}
	}
	name := cmd.GetConsumerName()
	if name == "" {
		name = fmt.Sprintf("%d-%d", c.number, cmd.GetConsumerId())
	}
	consumer := &consumer{peer: c, id: cmd.GetConsumerId(), name: name, priority: cmd.GetPriorityLevel()}
	if refused := s.attach(consumer, cmd.GetSubType(), cmd.GetKeySharedMeta()); refused != nil {
		return refused
	}
	c.consumers[consumer.id] = consumer
	return nil
}

// newSubscription begins where the command says. A start counts only where the
// subscription is not durable, and then an initial position only if the start is beyond
// the end (P23). Where no ledger is left there is no earliest, and a durable subscription
// that asked for it is opened for ever, until the next load.
func (t *topic) newSubscription(cmd *pulsarpb.CommandSubscribe) (*subscription, *refusal) {
	earliest := t.log.start
	if cmd.GetReadCompacted() && t.compacted != nil {
		earliest = 0
	}
	const unsaid = -1
	at, fromEarliest := int64(unsaid), cmd.GetInitialPosition() == pulsarpb.CommandSubscribe_Earliest
	if start := positionOf(cmd.GetStartMessageId()); !cmd.GetDurable() && cmd.StartMessageId != nil {
		if start.compare(noPosition()) > 0 {
			at = t.log.opening(start, unsaid)
		} else {
			fromEarliest = true
		}
	}
	switch {
	case at != unsaid:
	case !fromEarliest:
		at = t.log.end()
	case t.log.nothing:
		t.stuck[cmd.GetSubscription()] = cmd.GetDurable()
		return nil, refuse(pulsarpb.ServerError_UnknownError, "")
	default:
		at = earliest
	}
	s := &subscription{topic: t, name: cmd.GetSubscription(), durable: cmd.GetDurable(), compacted: cmd.GetReadCompacted(), cur: newCursor(at)}
	t.subs[s.name] = s
	return s, nil
}

// serveConsumer handles what is addressed to a consumer. Of one that it does not
// know, a broker answers only what asks for an answer by itself: not an ACK (facts
// 9.3, P12).
func (c *conn) serveConsumer(cmd *pulsarpb.BaseCommand) {
	switch cmd.GetType() {
	case pulsarpb.BaseCommand_FLOW:
		if s := c.consumers[cmd.GetFlow().GetConsumerId()]; s != nil {
			s.permits += int64(cmd.GetFlow().GetMessagePermits())
			s.sub.dispatch()
		}
	case pulsarpb.BaseCommand_ACK:
		c.ack(cmd.GetAck())
	case pulsarpb.BaseCommand_SEEK:
		c.seek(cmd.GetSeek())
	case pulsarpb.BaseCommand_CONSUMER_STATS:
		c.stats(cmd.GetConsumerStats())
	case pulsarpb.BaseCommand_REDELIVER_UNACKNOWLEDGED_MESSAGES:
		m := cmd.GetRedeliverUnacknowledgedMessages()
		if s := c.consumers[m.GetConsumerId()]; s != nil {
			var named []Position
			for _, id := range m.GetMessageIds() {
				named = append(named, positionOf(id))
			}
			s.sub.redeliver(s, named)
		}
	case pulsarpb.BaseCommand_UNSUBSCRIBE:
		c.unsubscribe(cmd.GetUnsubscribe())
	case pulsarpb.BaseCommand_GET_LAST_MESSAGE_ID:
		c.lastMessage(cmd.GetGetLastMessageId())
	case pulsarpb.BaseCommand_CLOSE_CONSUMER:
		m := cmd.GetCloseConsumer()
		if s := c.consumers[m.GetConsumerId()]; s != nil {
			delete(c.consumers, s.id)
			s.sub.detach(s)
		}
		c.send(command(success(m.GetRequestId())))
	}
}

func (c *conn) ack(cmd *pulsarpb.CommandAck) {
	s := c.consumers[cmd.GetConsumerId()]
	if s == nil {
		return
	}
	var ids []ackedID
	for _, id := range cmd.GetMessageId() {
		ids = append(ids, ackedID{positionOf(id), id.GetAckSet()})
	}
	refused := s.sub.ack(cmd.GetAckType(), ids)
	if cmd.RequestId != nil {
		c.send(command(ackResponse(cmd, refused)))
	}
}

// seek moves the subscription, and closes its consumers, before the answer or behind it
// (facts 9.4, P16).
func (c *conn) seek(cmd *pulsarpb.CommandSeek) {
	s := c.consumers[cmd.GetConsumerId()]
	if s == nil || cmd.MessageId == nil {
		c.send(command(failure(cmd.GetRequestId(), refuse(pulsarpb.ServerError_MetadataError, "Consumer not found"))))
		return
	}
	l := s.sub.topic.log
	at := l.from(positionOf(cmd.GetMessageId()))
	s.sub.cur.seek(at)
	s.sub.cur.save(time.Time{}, 0)
	s.sub.closeAll()
	c.send(command(success(cmd.GetRequestId())))
}

func (c *conn) stats(cmd *pulsarpb.CommandConsumerStats) {
	m := base(pulsarpb.BaseCommand_CONSUMER_STATS_RESPONSE)
	r := &pulsarpb.CommandConsumerStatsResponse{RequestId: cmd.RequestId}
	m.ConsumerStatsResponse = r
	s := c.consumers[cmd.GetConsumerId()]
	if s == nil {
		r.ErrorCode, r.ErrorMessage = pulsarpb.ServerError_ConsumerNotFound.Enum(), proto.String("Consumer not found")
	} else {
		r.ConsumerName, r.Type = proto.String(s.name), proto.String(s.sub.typ.String())
		r.AvailablePermits = proto.Uint64(uint64(s.permits))
		r.MsgBacklog = proto.Uint64(uint64(s.sub.cur.backlog(s.sub.topic.log)))
	}
	c.send(command(m))
}
