package pulsartest

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// layoutWatch is one session of SCALABLE_TOPIC_LOOKUP.
type layoutWatch struct {
	peer   peer
	broker *Broker
	id     uint64
	topic  string
}

// topicsWatch is one session of WATCH_SCALABLE_TOPICS.
type topicsWatch struct {
	peer      peer
	id        uint64
	namespace string
}

// watchLayout opens a session. Of a missing topic it is dead with its first
// answer (facts 2.1). Sessions of one id live side by side (facts 2.7).
func (c *core) watchLayout(b *Broker, p peer, cmd *pulsarpb.CommandScalableTopicLookup) {
	w := &layoutWatch{peer: p, broker: b, id: cmd.GetSessionId(), topic: parentOf(cmd.GetTopic())}
	if c.scalables[w.topic] == nil && cmd.GetCreateIfMissing() {
		_ = c.create(w.topic, 1) // what cannot be created is not found
	}
	s := c.scalables[w.topic]
	if s == nil {
		update := base(pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE)
		update.ScalableTopicUpdate = &pulsarpb.CommandScalableTopicUpdate{
			SessionId: proto.Uint64(w.id), Error: pulsarpb.ServerError_TopicNotFound.Enum(),
			Message: proto.String("Scalable topic not found: " + w.topic),
		}
		p.send(command(update))
		return
	}
	c.layouts = append(c.layouts, w)
	w.push(c.dag(s))
}

// push tells all watches of a topic what there is.
func (c *core) push(topic string) {
	s := c.scalables[topic]
	if s == nil {
		return
	}
	for _, w := range c.layouts {
		if w.topic == topic {
			w.push(c.dag(s))
		}
	}
}

func (w *layoutWatch) push(dag *pulsarpb.ScalableTopicDAG) {
	update := base(pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE)
	update.ScalableTopicUpdate = &pulsarpb.CommandScalableTopicUpdate{
		SessionId: proto.Uint64(w.id), Dag: dag, ResolvedTopicName: proto.String(w.topic),
	}
	w.peer.send(command(update))
}

func (c *core) dag(s *scalable) *pulsarpb.ScalableTopicDAG {
	dag := &pulsarpb.ScalableTopicDAG{Epoch: proto.Uint64(s.layout.Epoch)}
	for i := range s.layout.Segments {
		seg := &s.layout.Segments[i]
		dag.Segments = append(dag.Segments, segmentInfo(seg))
		owner := c.owners[bundleOf(seg.Topic(s.layout.Topic))]
		if owner == nil || seg.Sealed {
			continue // facts 1: active ones only
		}
		dag.SegmentBrokers = append(dag.SegmentBrokers, &pulsarpb.SegmentBrokerAddress{
			SegmentId: proto.Uint64(seg.ID), BrokerUrl: proto.String(owner.URL()), BrokerUrlTls: proto.String(owner.tlsURL()),
		})
	}
	if b := s.controller; b != nil {
		dag.ControllerBrokerUrl, dag.ControllerBrokerUrlTls = proto.String(b.URL()), proto.String(b.tlsURL())
	}
	return dag
}

func segmentInfo(s *Segment) *pulsarpb.SegmentInfoProto {
	info := &pulsarpb.SegmentInfoProto{
		SegmentId: proto.Uint64(s.ID), HashStart: proto.Uint32(uint32(s.Start)), HashEnd: proto.Uint32(uint32(s.End)),
		State: pulsarpb.SegmentState_ACTIVE.Enum(), ParentIds: slices.Clone(s.Parents), ChildIds: slices.Clone(s.Children),
		CreatedAtEpoch: proto.Uint64(s.CreatedEpoch), CreatedAtMs: proto.Uint64(uint64(s.Created.UnixMilli())),
	}
	if s.Sealed {
		info.State = pulsarpb.SegmentState_SEALED.Enum()
		info.SealedAtEpoch, info.SealedAtMs = proto.Uint64(s.SealedEpoch), proto.Uint64(uint64(s.SealedAt.UnixMilli()))
	}
	for _, split := range s.Splits {
		info.EntryBucketSplits = append(info.EntryBucketSplits, uint32(split))
	}
	return info
}

// watchTopics opens a session; an unknown namespace is an empty one (facts 2.1).
func (c *core) watchTopics(p peer, cmd *pulsarpb.CommandWatchScalableTopics) {
	w := &topicsWatch{peer: p, id: cmd.GetWatchId(), namespace: cmd.GetNamespace()}
	c.watches = append(c.watches, w)
	w.push(&pulsarpb.CommandWatchScalableTopicsUpdate{
		Event: &pulsarpb.CommandWatchScalableTopicsUpdate_Snapshot{Snapshot: &pulsarpb.ScalableTopicsSnapshot{Topics: c.list(w.namespace)}},
	})
}

// list gives the scalable topics of a namespace, in order.
func (c *core) list(namespace string) []string {
	var topics []string
	for _, name := range slices.Sorted(maps.Keys(c.scalables)) {
		if namespaceOf(name) == namespace {
			topics = append(topics, name)
		}
	}
	return topics
}

// announce tells the namespace's watches that a topic came or went: the only sign
// of a deletion (facts 2.5).
func (c *core) announce(topic string, added bool) {
	diff := &pulsarpb.ScalableTopicsDiff{}
	if added {
		diff.Added = []string{topic}
	} else {
		diff.Removed = []string{topic}
	}
	for _, w := range c.watches {
		if w.namespace == namespaceOf(topic) {
			w.push(&pulsarpb.CommandWatchScalableTopicsUpdate{Event: &pulsarpb.CommandWatchScalableTopicsUpdate_Diff{Diff: diff}})
		}
	}
}

func (w *topicsWatch) push(m *pulsarpb.CommandWatchScalableTopicsUpdate) {
	m.WatchId = proto.Uint64(w.id)
	update := base(pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_UPDATE)
	update.WatchScalableTopicsUpdate = m
	w.peer.send(command(update))
}

// unwatch ends sessions: those of an id, or all of a connection.
func (c *core) unwatchLayout(p peer, ends func(id uint64) bool) {
	c.layouts = slices.DeleteFunc(c.layouts, func(w *layoutWatch) bool { return w.peer == p && ends(w.id) })
}

func (c *core) unwatchTopics(p peer, ends func(id uint64) bool) {
	c.watches = slices.DeleteFunc(c.watches, func(w *topicsWatch) bool { return w.peer == p && ends(w.id) })
}
