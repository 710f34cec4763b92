package conformance

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// latest and earliest are the ends of a topic, as a position.
func latest() *pulsarpb.MessageIdData   { return position(1<<63-1, 1<<63-1) }
func earliest() *pulsarpb.MessageIdData { return position(1<<64-1, 1<<64-1) }

func position(ledger, entry uint64) *pulsarpb.MessageIdData {
	return &pulsarpb.MessageIdData{LedgerId: proto.Uint64(ledger), EntryId: proto.Uint64(entry)}
}

// unasked is the request id of what the broker does by itself.
const unasked = 1<<64 - 1

func lookup(topic string, authoritative bool) *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_LOOKUP.Enum(), LookupTopic: &pulsarpb.CommandLookupTopic{
		Topic: proto.String(topic), Authoritative: proto.Bool(authoritative), RequestId: proto.Uint64(0)}}
}

// LookUp asks once, and follows nothing.
func (w *Wire) LookUp(topic string, authoritative bool) *pulsarpb.CommandLookupTopicResponse {
	w.t.Helper()
	return w.Ask(lookup(topic, authoritative)).GetLookupTopicResponse()
}

// BrokerOf finds who serves a topic, as every client must before it opens anything there.
func (t *T) BrokerOf(topic string) (broker int) {
	t.Helper()
	authoritative := false
	for range 10 {
		w := t.Connect(broker)
		r := w.LookUp(topic, authoritative)
		w.Close()
		broker = t.brokerAt(r.GetBrokerServiceUrl())
		authoritative = r.GetAuthoritative()
		if r.GetResponse() == pulsarpb.CommandLookupTopicResponse_Connect {
			return broker
		}
	}
	t.Fatalf("look-up of %s: redirected ten times", topic)
	return 0
}

func (t *T) brokerAt(url string) int {
	t.Helper()
	for n := range t.Brokers() {
		if "pulsar://"+t.Service(n) == url {
			return n
		}
	}
	t.Fatalf("%q is no broker of the cluster", url)
	return 0
}

// At connects to the broker that serves a topic.
func (t *T) At(topic string) *Wire {
	t.Helper()
	return t.Connect(t.BrokerOf(topic))
}

func producer(topic string, id uint64, name string) *pulsarpb.BaseCommand {
	p := &pulsarpb.CommandProducer{Topic: proto.String(topic), ProducerId: proto.Uint64(id), RequestId: proto.Uint64(0)}
	if name != "" {
		p.ProducerName, p.UserProvidedProducerName = proto.String(name), proto.Bool(true)
	}
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_PRODUCER.Enum(), Producer: p}
}

// open asks again as long as the topic is on its way from one broker to another.
func (w *Wire) open(topic string, cmd *pulsarpb.BaseCommand) (answer *pulsarpb.BaseCommand) {
	w.t.Helper()
	w.t.Eventually("opening "+topic, func() error {
		if answer = w.Ask(cmd); answer.GetError().GetError() == pulsarpb.ServerError_ServiceNotReady {
			w.LookUp(topic, false)
			return fmt.Errorf("%v", answer)
		}
		return nil
	})
	return answer
}

// Produce opens a producer.
func (w *Wire) Produce(topic string, id uint64, name string) *pulsarpb.CommandProducerSuccess {
	w.t.Helper()
	answer := w.open(topic, producer(topic, id, name))
	if answer.GetProducerSuccess() == nil {
		w.t.Fatalf("PRODUCER on %s: %v", topic, answer)
	}
	return answer.GetProducerSuccess()
}

// subscribe is durable and begins at the earliest; edits change that.
func subscribe(topic string, id uint64, sub string, typ pulsarpb.CommandSubscribe_SubType, edits ...func(*pulsarpb.CommandSubscribe)) *pulsarpb.BaseCommand {
	s := &pulsarpb.CommandSubscribe{
		Topic: proto.String(topic), ConsumerId: proto.Uint64(id), Subscription: proto.String(sub), SubType: typ.Enum(),
		RequestId: proto.Uint64(0), ConsumerName: proto.String(fmt.Sprintf("consumer-%d", id)), Durable: proto.Bool(true),
		ForceTopicCreation: proto.Bool(false), InitialPosition: pulsarpb.CommandSubscribe_Earliest.Enum(),
	}
	for _, edit := range edits {
		edit(s)
	}
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SUBSCRIBE.Enum(), Subscribe: s}
}

const (
	exclusive = pulsarpb.CommandSubscribe_Exclusive
	shared    = pulsarpb.CommandSubscribe_Shared
	failover  = pulsarpb.CommandSubscribe_Failover
	keyShared = pulsarpb.CommandSubscribe_Key_Shared
)

// fromLatest is an edit of subscribe.
func fromLatest(s *pulsarpb.CommandSubscribe) {
	s.InitialPosition = pulsarpb.CommandSubscribe_Latest.Enum()
}

// fromPosition is an edit of subscribe: a reader, not durable.
func fromPosition(at *pulsarpb.MessageIdData) func(*pulsarpb.CommandSubscribe) {
	return func(s *pulsarpb.CommandSubscribe) { s.Durable, s.StartMessageId = proto.Bool(false), at }
}

// named is an edit of subscribe.
func named(consumer string) func(*pulsarpb.CommandSubscribe) {
	return func(s *pulsarpb.CommandSubscribe) { s.ConsumerName = proto.String(consumer) }
}

// Subscribe opens a consumer.
func (w *Wire) Subscribe(topic string, id uint64, sub string, typ pulsarpb.CommandSubscribe_SubType, edits ...func(*pulsarpb.CommandSubscribe)) {
	w.t.Helper()
	if answer := w.open(topic, subscribe(topic, id, sub, typ, edits...)); answer.GetSuccess() == nil {
		w.t.Fatalf("SUBSCRIBE on %s: %v", topic, answer)
	}
}

// CloseConsumer closes one.
func (w *Wire) CloseConsumer(id uint64) {
	w.t.Helper()
	w.Ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_CLOSE_CONSUMER.Enum(), CloseConsumer: &pulsarpb.CommandCloseConsumer{
		ConsumerId: proto.Uint64(id), RequestId: proto.Uint64(0)}})
}

// CloseProducer closes one.
func (w *Wire) CloseProducer(id uint64) {
	w.t.Helper()
	w.Ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_CLOSE_PRODUCER.Enum(), CloseProducer: &pulsarpb.CommandCloseProducer{
		ProducerId: proto.Uint64(id), RequestId: proto.Uint64(0)}})
}

// Flow gives permits.
func (w *Wire) Flow(id uint64, messages uint32) {
	w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_FLOW.Enum(), Flow: &pulsarpb.CommandFlow{
		ConsumerId: proto.Uint64(id), MessagePermits: proto.Uint32(messages)}})
}

func ack(id uint64, typ pulsarpb.CommandAck_AckType, at ...*pulsarpb.MessageIdData) *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_ACK.Enum(), Ack: &pulsarpb.CommandAck{
		ConsumerId: proto.Uint64(id), AckType: typ.Enum(), MessageId: at, RequestId: proto.Uint64(0)}}
}

// Ack acknowledges cumulatively, and returns the refusal.
func (w *Wire) Ack(id uint64, at *pulsarpb.MessageIdData) *pulsarpb.CommandAckResponse {
	w.t.Helper()
	return w.Ask(ack(id, pulsarpb.CommandAck_Cumulative, at)).GetAckResponse()
}

// Message returns the next message of a consumer.
func (w *Wire) Message(id uint64) Got {
	w.t.Helper()
	return w.ExpectThat(fmt.Sprintf("a message for consumer %d", id), func(g Got) bool {
		return g.Type == pulsarpb.BaseCommand_MESSAGE && g.Message.ConsumerID == id
	})
}

// ID is a message's position, for acknowledging it.
func (g Got) ID() *pulsarpb.MessageIdData {
	return position(uint64(g.Message.Ledger), uint64(g.Message.Entry))
}

// Text is a message's payload.
func (g Got) Text() string { return string(g.Entry.Payload) }

// Texts reads n messages.
func (w *Wire) Texts(id uint64, n int) (texts []string) {
	w.t.Helper()
	for range n {
		texts = append(texts, w.Message(id).Text())
	}
	return texts
}

// NoMessage checks that a consumer gets none.
func (w *Wire) NoMessage(id uint64) {
	w.t.Helper()
	w.NoneThat("a message", func(g Got) bool { return g.Type == pulsarpb.BaseCommand_MESSAGE && g.Message.ConsumerID == id })
}

// Backlog asks a consumer's CONSUMER_STATS.
func (w *Wire) Backlog(id uint64) uint64 {
	w.t.Helper()
	return w.Ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_CONSUMER_STATS.Enum(), ConsumerStats: &pulsarpb.CommandConsumerStats{
		ConsumerId: proto.Uint64(id), RequestId: proto.Uint64(0)}}).GetConsumerStatsResponse().GetMsgBacklog()
}

// metadata is that of a plain message with a key; edits change it.
func metadata(key string, edits ...func(*pulsarpb.MessageMetadata)) *pulsarpb.MessageMetadata {
	m := &pulsarpb.MessageMetadata{ProducerName: proto.String("app"), SequenceId: proto.Uint64(0), PublishTime: proto.Uint64(1_700_000_000_000)}
	if key != "" {
		m.PartitionKey = proto.String(key)
	}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

// marker is an edit of metadata.
func marker(m *pulsarpb.MessageMetadata) { m.MarkerType = proto.Int32(1000) }

// Put sends an entry and does not wait.
func (w *Wire) Put(id, sequence uint64, m *pulsarpb.MessageMetadata, payload string) {
	w.t.Helper()
	head, err := proto.Marshal(m)
	w.t.Must(err)
	w.PutRaw(&frame.SendCommand{ProducerID: id, SequenceID: sequence, NumMessages: max(m.GetNumMessagesInBatch(), 1)}, head, payload)
}

// PutRaw sends an entry with whatever metadata.
func (w *Wire) PutRaw(cmd *frame.SendCommand, head []byte, payload string) {
	b := frame.AppendSend(nil, cmd, head, len(payload), frame.Checksum(0, []byte(payload)))
	w.Raw(append(b, payload...))
}

// Receipt awaits the receipt of a SEND.
func (w *Wire) Receipt(id, sequence uint64) frame.ReceiptCommand {
	w.t.Helper()
	return w.ExpectThat(fmt.Sprintf("the receipt of %d", sequence), func(g Got) bool {
		return g.Type == pulsarpb.BaseCommand_SEND_RECEIPT && g.Receipt.ProducerID == id && g.Receipt.SequenceID == sequence
	}).Receipt
}

// Store sends an entry and awaits where it is stored.
func (w *Wire) Store(id, sequence uint64, m *pulsarpb.MessageMetadata, payload string) *pulsarpb.MessageIdData {
	w.t.Helper()
	w.Put(id, sequence, m, payload)
	r := w.Receipt(id, sequence)
	return position(uint64(r.Ledger), uint64(r.Entry))
}

// StoreAll stores n messages with payloads "0", "1" and so on, through a producer of its own.
func (t *T) StoreAll(topic string, n int) (at []*pulsarpb.MessageIdData) {
	t.Helper()
	w := t.At(topic)
	w.Produce(topic, 1, "")
	for i := range n {
		at = append(at, w.Store(1, uint64(i), metadata("k"), fmt.Sprint(i)))
	}
	w.CloseProducer(1)
	w.Close()
	return at
}

// Watch opens a watch of a topic's layout, which creates nothing.
func (w *Wire) Watch(topic string, session uint64) {
	w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP.Enum(), ScalableTopicLookup: &pulsarpb.CommandScalableTopicLookup{
		SessionId: proto.Uint64(session), Topic: proto.String(topic), CreateIfMissing: proto.Bool(false)}})
}

// Update returns the next update of a watch.
func (w *Wire) Update(session uint64) *pulsarpb.CommandScalableTopicUpdate {
	w.t.Helper()
	return w.UpdateThat(session, "an update", func(*pulsarpb.CommandScalableTopicUpdate) bool { return true })
}

// UpdateThat returns the next update of a watch that matches, over those that do not.
func (w *Wire) UpdateThat(session uint64, what string, match func(*pulsarpb.CommandScalableTopicUpdate) bool) *pulsarpb.CommandScalableTopicUpdate {
	w.t.Helper()
	return w.ExpectThat(what, func(g Got) bool {
		u := g.Command.GetScalableTopicUpdate()
		return u != nil && u.GetSessionId() == session && match(u)
	}).Command.GetScalableTopicUpdate()
}

// atEpoch matches an update of that epoch.
func atEpoch(epoch uint64) func(*pulsarpb.CommandScalableTopicUpdate) bool {
	return func(u *pulsarpb.CommandScalableTopicUpdate) bool { return u.Dag != nil && u.Dag.GetEpoch() == epoch }
}

// segmentOf finds a segment in a layout, nil if it is not there.
func segmentOf(dag *pulsarpb.ScalableTopicDAG, id uint64) *pulsarpb.SegmentInfoProto {
	for _, s := range dag.GetSegments() {
		if s.GetSegmentId() == id {
			return s
		}
	}
	return nil
}
