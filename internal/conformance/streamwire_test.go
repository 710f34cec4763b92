package conformance

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func register(topic, sub, name string, id uint64) *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE.Enum(), ScalableTopicSubscribe: &pulsarpb.CommandScalableTopicSubscribe{
		RequestId: proto.Uint64(0), Topic: proto.String(topic), Subscription: proto.String(sub), ConsumerName: proto.String(name),
		ConsumerId: proto.Uint64(id), ConsumerType: pulsarpb.ScalableConsumerType_STREAM.Enum()}}
}

// Register makes a STREAM consumer, and returns its share.
func (w *Wire) Register(topic, sub, name string, id uint64) *pulsarpb.ScalableConsumerAssignment {
	w.t.Helper()
	r := w.Ask(register(topic, sub, name, id)).GetScalableTopicSubscribeResponse()
	if r.GetAssignment() == nil {
		w.t.Fatalf("registration of %s: %v", name, r)
	}
	return r.GetAssignment()
}

func unregister(id uint64) *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE.Enum(), ScalableTopicUnsubscribe: &pulsarpb.CommandScalableTopicUnsubscribe{
		RequestId: proto.Uint64(0), ConsumerId: proto.Uint64(id)}}
}

// Unregister ends a registration.
func (w *Wire) Unregister(id uint64) {
	w.t.Helper()
	if answer := w.Ask(unregister(id)); answer.GetSuccess() == nil {
		w.t.Fatalf("UNSUBSCRIBE of %d: %v", id, answer)
	}
}

func assigned(id uint64, match func(*pulsarpb.ScalableConsumerAssignment) bool) func(Got) bool {
	return func(g Got) bool {
		u := g.Command.GetScalableTopicAssignmentUpdate()
		return u != nil && u.GetConsumerId() == id && match(u.GetAssignment())
	}
}

// Assigned awaits that a consumer is told these segments, over what it is told before.
func (w *Wire) Assigned(id uint64, want string) Got {
	w.t.Helper()
	for {
		g := w.ExpectThat(fmt.Sprintf("an assignment of %q to consumer %d", want, id), assigned(id, func(*pulsarpb.ScalableConsumerAssignment) bool { return true }))
		if share(g.Command.GetScalableTopicAssignmentUpdate().GetAssignment()) == want {
			return g
		}
	}
}

// NotAssigned checks that a consumer is told nothing that brings segments other than these.
func (w *Wire) NotAssigned(id uint64, but string) {
	w.t.Helper()
	w.NoneThat("an assignment other than "+but, assigned(id, func(a *pulsarpb.ScalableConsumerAssignment) bool { return share(a) != but }))
}

// share writes an assignment as the ids of its segments, in order, each with the number of
// its bucket ranges if it is shared: "0 1", "2/4", or "" for none.
func share(a *pulsarpb.ScalableConsumerAssignment) (text string) {
	all := slices.Clone(a.GetSegments())
	slices.SortFunc(all, func(a, b *pulsarpb.ScalableAssignedSegment) int { return int(a.GetSegmentId()) - int(b.GetSegmentId()) })
	for i, s := range all {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprint(s.GetSegmentId())
		if n := len(s.GetBucketRanges()); n > 0 {
			text += fmt.Sprint("/", n)
		}
	}
	return text
}

// tiles are bucket ranges that begin at 0 and at the splits.
func tiles(splits ...int32) (ranges []*pulsarpb.IntRange) {
	start := int32(0)
	for _, split := range append(splits, 65536) {
		ranges = append(ranges, &pulsarpb.IntRange{Start: proto.Int32(start), End: proto.Int32(split - 1)})
		start = split
	}
	return ranges
}

// byBucket is an edit of subscribe: Key_Shared as the specification's Stream consumer attaches.
func byBucket(ranges []*pulsarpb.IntRange) func(*pulsarpb.CommandSubscribe) {
	return func(s *pulsarpb.CommandSubscribe) {
		s.KeySharedMeta = &pulsarpb.KeySharedMeta{KeySharedMode: pulsarpb.KeySharedMode_STICKY.Enum(), HashRanges: ranges, EntryBucketDispatch: proto.Bool(true)}
	}
}
