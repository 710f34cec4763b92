package pulsar

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// SubType is how the consumers of a subscription share it.
type SubType int

// The types of subscriptions.
const (
	Exclusive SubType = iota
	Shared
	Failover
	KeyShared
)

func (t SubType) wire() (pulsarpb.CommandSubscribe_SubType, bool) {
	switch t {
	case Exclusive:
		return pulsarpb.CommandSubscribe_Exclusive, true
	case Shared:
		return pulsarpb.CommandSubscribe_Shared, true
	case Failover:
		return pulsarpb.CommandSubscribe_Failover, true
	case KeyShared:
		return pulsarpb.CommandSubscribe_Key_Shared, true
	}
	return 0, false
}

// InitialPosition is where a new subscription begins.
type InitialPosition int

// The initial positions.
const (
	PositionLatest InitialPosition = iota
	PositionEarliest
)

// HashRange is an inclusive range of 16-bit hashes.
type HashRange struct{ Start, End uint16 }

// KeySharing is what a Key_Shared consumer declares.
type KeySharing struct {
	// Sticky takes exactly Ranges; otherwise the broker divides the keys.
	Sticky bool
	Ranges []HashRange
	// EntryBuckets dispatches by the entry's stamp; Ranges is the segment's
	// whole boundary list then, the same for all consumers (PIP-486).
	EntryBuckets bool
	// OutOfOrder lets keys move before their earlier messages are acknowledged.
	OutOfOrder bool
}

// SubscribeOptions says what to subscribe to.
type SubscribeOptions struct {
	Topic        string
	Subscription string
	// ConsumerName decides the election of a Failover subscription; empty lets
	// the broker choose one.
	ConsumerName string
	Type         SubType
	// PriorityLevel: consumers of a lower level come first; 0 is the first.
	PriorityLevel int32
	// Durable keeps the subscription, and its position, beyond the consumer.
	Durable bool
	// Position counts where the subscription is new and Start is not set, or beyond the end.
	Position InitialPosition
	// Start is the first entry of a subscription that is not durable,
	// inclusive. Where it is trimmed the next one is. Further beyond the end than
	// the position behind the last entry, the broker begins at Position without a
	// word (5.0.1, observed); so it does for Latest.
	Start         *MessageID
	ReadCompacted bool
	// ForceTopicCreation lets the broker create a missing topic.
	ForceTopicCreation bool
	KeyShared          *KeySharing
}

func (o *SubscribeOptions) check() error {
	if err := checkOpenable(o.Topic); err != nil {
		return err
	}
	if err := checkText("subscription", o.Subscription); err != nil {
		return err
	}
	if o.ConsumerName != "" {
		if err := checkText("consumer", o.ConsumerName); err != nil {
			return err
		}
	}
	if _, ok := o.Type.wire(); !ok {
		return errors.New("unknown subscription type")
	}
	if o.Durable && o.Start != nil {
		return errors.New("a durable subscription knows its own position: no start")
	}
	if o.KeyShared != nil && o.Type != KeyShared {
		return errors.New("key sharing needs a Key_Shared subscription")
	}
	return nil
}

func (o *SubscribeOptions) command(consumer, request uint64) *pulsarpb.BaseCommand {
	subType, _ := o.Type.wire()
	position := pulsarpb.CommandSubscribe_Latest
	if o.Position == PositionEarliest {
		position = pulsarpb.CommandSubscribe_Earliest
	}
	sub := &pulsarpb.CommandSubscribe{
		Topic: proto.String(o.Topic), Subscription: proto.String(o.Subscription), SubType: subType.Enum(),
		ConsumerId: proto.Uint64(consumer), RequestId: proto.Uint64(request),
		Durable: proto.Bool(o.Durable), InitialPosition: position.Enum(),
		ReadCompacted:      proto.Bool(o.ReadCompacted),
		ForceTopicCreation: proto.Bool(o.ForceTopicCreation),
	}
	if o.ConsumerName != "" {
		sub.ConsumerName = proto.String(o.ConsumerName)
	}
	if o.PriorityLevel != 0 {
		sub.PriorityLevel = proto.Int32(o.PriorityLevel)
	}
	if o.Start != nil {
		sub.StartMessageId = wireID(*o.Start)
	}
	if o.KeyShared != nil {
		sub.KeySharedMeta = o.KeyShared.wire()
	}
	cmd := command(pulsarpb.BaseCommand_SUBSCRIBE)
	cmd.Subscribe = sub
	return cmd
}

func (k *KeySharing) wire() *pulsarpb.KeySharedMeta {
	mode := pulsarpb.KeySharedMode_AUTO_SPLIT
	if k.Sticky {
		mode = pulsarpb.KeySharedMode_STICKY
	}
	meta := &pulsarpb.KeySharedMeta{KeySharedMode: mode.Enum()}
	for _, r := range k.Ranges {
		meta.HashRanges = append(meta.HashRanges, &pulsarpb.IntRange{Start: proto.Int32(int32(r.Start)), End: proto.Int32(int32(r.End))})
	}
	if k.EntryBuckets {
		meta.EntryBucketDispatch = proto.Bool(true)
	}
	if k.OutOfOrder {
		meta.AllowOutOfOrderDelivery = proto.Bool(true)
	}
	return meta
}
