package pulsar

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// read is the read loop: it ends with the connection.
func (c *conn) read() {
	var f frame.Frame
	for {
		if err := frame.ReadCommand(c.in, c.limits(), &f); err != nil {
			c.fail(readReason(err), err)
			return
		}
		c.dispatch(&f)
	}
}

// limits bounds a frame: the broker's own bound for stored entries, and what
// it adds around them, with room to spare for long lists of topics.
func (c *conn) limits() frame.Limits {
	return frame.Limits{MaxFrame: 2 * max(c.info.MaxMessageSize, defaultMaxMessageSize), Pool: c.pool}
}

func readReason(err error) Reason {
	var netErr net.Error
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr) {
		return ReasonEOF
	}
	return ReasonProtocol
}

// dispatch handles one frame. Whatever does not concern anything registered is
// dropped: handles die before the broker knows. It owns f.Entry.
func (c *conn) dispatch(f *frame.Frame) {
	switch f.Type {
	case pulsarpb.BaseCommand_MESSAGE:
		c.dispatchMessage(f)
		return
	case pulsarpb.BaseCommand_SEND_RECEIPT:
		if p := c.producer(f.Receipt.ProducerID); p != nil {
			p.receipt(f.Receipt.SequenceID, MessageID{f.Receipt.Ledger, f.Receipt.Entry})
		}
		return
	}
	if f.Entry != nil {
		f.Entry.Release()
		f.Entry = nil
	}
	if f.Command == nil || c.dispatchReply(f.Command) || c.dispatchHandle(f.Command) {
		return
	}
	c.dispatchConn(f.Command)
}

func (c *conn) dispatchMessage(f *frame.Frame) {
	entry := f.Entry
	f.Entry = nil
	if entry == nil {
		return
	}
	consumer := c.consumer(f.Message.ConsumerID)
	if consumer == nil {
		entry.Release()
		return
	}
	m := Message{
		ID:              MessageID{f.Message.Ledger, f.Message.Entry},
		RedeliveryCount: f.Message.RedeliveryCount,
		Entry:           entry,
		Err:             f.EntryErr,
	}
	if m.Err == nil {
		m.Info, m.Err = frame.Scan(entry.Metadata)
	}
	consumer.message(m)
}

// dispatchReply handles what answers a request id. A command may come without
// its body: its request id reads as 0 then, which no request has.
func (c *conn) dispatchReply(cmd *pulsarpb.BaseCommand) bool {
	r := result{cmd: cmd}
	var id uint64
	switch cmd.GetType() {
	case pulsarpb.BaseCommand_SUCCESS:
		id = cmd.GetSuccess().GetRequestId()
	case pulsarpb.BaseCommand_ERROR:
		e := cmd.GetError()
		id, r = e.GetRequestId(), result{err: &ServerError{Code: e.GetError(), Message: e.GetMessage()}}
		if c.unasked(id, r.err) {
			return true
		}
	case pulsarpb.BaseCommand_PRODUCER_SUCCESS:
		s := cmd.GetProducerSuccess()
		if !s.GetProducerReady() {
			return true // waits for exclusive access; the final answer follows
		}
		id = s.GetRequestId()
	case pulsarpb.BaseCommand_LOOKUP_RESPONSE:
		id = cmd.GetLookupTopicResponse().GetRequestId()
	case pulsarpb.BaseCommand_CONSUMER_STATS_RESPONSE:
		if s := cmd.GetConsumerStatsResponse(); s != nil {
			id, r.err = s.GetRequestId(), refusal(s.ErrorCode, s.GetErrorMessage())
		}
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE_RESPONSE:
		if s := cmd.GetScalableTopicSubscribeResponse(); s != nil {
			id, r.err = s.GetRequestId(), refusal(s.Error, s.GetMessage())
		}
	case pulsarpb.BaseCommand_GET_SCHEMA_RESPONSE:
		if s := cmd.GetGetSchemaResponse(); s != nil {
			id, r.err = s.GetRequestId(), refusal(s.ErrorCode, s.GetErrorMessage())
		}
	case pulsarpb.BaseCommand_GET_OR_CREATE_SCHEMA_RESPONSE:
		if s := cmd.GetGetOrCreateSchemaResponse(); s != nil {
			id, r.err = s.GetRequestId(), refusal(s.ErrorCode, s.GetErrorMessage())
		}
	default:
		return false
	}
	if cl := c.take(id); cl != nil {
		cl.finish(r)
	}
	return true
}

// unasked keeps an ERROR that answers no request: the broker tells like this
// that a credential ran out, before it hangs up. Late answers to requests that
// were given up come here too, and say nothing about the connection.
func (c *conn) unasked(id uint64, err error) bool {
	c.mu.Lock()
	_, asked := c.calls[id]
	c.mu.Unlock()
	if asked {
		return false
	}
	var s *ServerError
	if ClassOf(err) == ClassAuth && id > math.MaxInt64 && errors.As(err, &s) {
		c.complaint.Store(s)
	}
	c.log.Debug("error without a request", "error", err)
	return true
}

// dispatchHandle handles what is addressed to a consumer, producer or watch.
func (c *conn) dispatchHandle(cmd *pulsarpb.BaseCommand) bool {
	switch cmd.GetType() {
	case pulsarpb.BaseCommand_SEND_ERROR:
		e := cmd.GetSendError()
		if p := c.producer(e.GetProducerId()); p != nil {
			p.sendError(e.GetSequenceId(), &ServerError{Code: e.GetError(), Message: e.GetMessage()})
		}
	case pulsarpb.BaseCommand_CLOSE_PRODUCER:
		m := cmd.GetCloseProducer()
		if p := c.producer(m.GetProducerId()); p != nil {
			p.brokerClosed(closedByBroker(m.GetAssignedBrokerServiceUrl()))
		}
	case pulsarpb.BaseCommand_CLOSE_CONSUMER:
		m := cmd.GetCloseConsumer()
		if h := c.consumer(m.GetConsumerId()); h != nil {
			h.die(closedByBroker(m.GetAssignedBrokerServiceUrl()))
		}
	case pulsarpb.BaseCommand_ACK_RESPONSE:
		a := cmd.GetAckResponse()
		if h := c.consumer(a.GetConsumerId()); h != nil && a != nil {
			h.acked(a.GetRequestId(), refusal(a.Error, a.GetMessage()))
		}
	case pulsarpb.BaseCommand_ACTIVE_CONSUMER_CHANGE:
		m := cmd.GetActiveConsumerChange()
		if h := c.consumer(m.GetConsumerId()); h != nil {
			h.activeChanged(m.GetIsActive())
		}
	case pulsarpb.BaseCommand_REACHED_END_OF_TOPIC:
		if h := c.consumer(cmd.GetReachedEndOfTopic().GetConsumerId()); h != nil {
			h.endOfTopic()
		}
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE:
		m := cmd.GetScalableTopicUpdate()
		push(c, func(h *handles) *session[*pulsarpb.CommandScalableTopicUpdate] { return h.layouts[m.GetSessionId()] }, m)
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_ASSIGNMENT_UPDATE:
		m := cmd.GetScalableTopicAssignmentUpdate()
		push(c, func(h *handles) *session[*pulsarpb.ScalableConsumerAssignment] { return h.streams[m.GetConsumerId()] }, m.GetAssignment())
	case pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_UPDATE:
		m := cmd.GetWatchScalableTopicsUpdate()
		push(c, func(h *handles) *session[*pulsarpb.CommandWatchScalableTopicsUpdate] { return h.topics[m.GetWatchId()] }, m)
	default:
		return false
	}
	return true
}

// dispatchConn handles what concerns the connection itself.
func (c *conn) dispatchConn(cmd *pulsarpb.BaseCommand) {
	switch cmd.GetType() {
	case pulsarpb.BaseCommand_PING:
		c.out.keepAlive(false)
	case pulsarpb.BaseCommand_PONG:
		// Any byte counts as a sign of life; the keeper saw it.
	case pulsarpb.BaseCommand_AUTH_CHALLENGE:
		c.answerChallenge()
	default:
		c.log.Debug("unexpected command dropped", "type", cmd.GetType())
	}
}

func (c *conn) consumer(id uint64) *Consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owned.consumers[id]
}

func (c *conn) producer(id uint64) *Producer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owned.producers[id]
}

// closedByBroker names the broker that takes over, where the old one told.
func closedByBroker(assigned string) error {
	if assigned == "" {
		return ErrClosedByBroker
	}
	return fmt.Errorf("%w: now at %s", ErrClosedByBroker, assigned)
}
