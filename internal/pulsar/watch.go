package pulsar

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Segment is one segment of a scalable topic, as the broker tells it.
type Segment struct {
	ID                      uint64
	HashStart, HashEnd      uint16 // inclusive
	Sealed                  bool
	Parents, Children       []uint64
	CreatedEpoch            uint64
	SealedEpoch             uint64
	CreatedAtMs, SealedAtMs int64
	LegacyTopic             string   // "" unless it wraps a regular topic
	EntryBucketSplits       []uint16 // start hashes of buckets 1..N-1
}

// LayoutUpdate is the whole layout of a scalable topic at one moment. Updates
// are repeated without news, and an equal epoch may carry some.
type LayoutUpdate struct {
	Topic    string // the canonical topic:// name
	Epoch    uint64
	Segments []Segment
	// Brokers are host:port of the owners of active segments: hints only.
	Brokers       map[uint64]string
	ControllerURL string // "" while there is no controller
	// Err ends the watch: it is the broker's refusal, and nothing else is set.
	Err error
}

// WatchLayout tells of the layout of a topic, now and as it changes, until the
// session dies or ctx ends; it always returns an error. A topic that is missing
// is not created. update is called from within WatchLayout, so it may take its
// time. The deletion of a topic is not told here, only to WatchTopics (broker
// 5.0.1, observed).
func (c *Client) WatchLayout(ctx context.Context, topic string, update func(LayoutUpdate)) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	conn, err := c.watchConn(ctx)
	if err != nil {
		return fmt.Errorf("watch layout of %s: %w", topic, err)
	}
	id := c.ids.Add(1)
	s := newSession[*pulsarpb.CommandScalableTopicUpdate]()
	if err := conn.own(func(h *handles) { h.layouts[id] = s }); err != nil {
		return fmt.Errorf("watch layout of %s: %w", topic, err)
	}
	defer conn.disown(func(h *handles) { delete(h.layouts, id) })
	open := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP)
	open.ScalableTopicLookup = &pulsarpb.CommandScalableTopicLookup{
		SessionId: proto.Uint64(id), Topic: proto.String(topic), CreateIfMissing: proto.Bool(false),
	}
	err = attend(ctx, conn, s, open, func(m *pulsarpb.CommandScalableTopicUpdate) error {
		u := layoutUpdate(m, c.service.tls)
		update(u)
		return u.Err
	})
	if conn.alive() {
		cmd := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_CLOSE)
		cmd.ScalableTopicClose = &pulsarpb.CommandScalableTopicClose{SessionId: proto.Uint64(id)}
		_ = conn.out.command(cmd)
	}
	return fmt.Errorf("watch layout of %s: %w", topic, err)
}

// TopicsUpdate is news about the scalable topics of a namespace: all of them
// (Snapshot, Topics), or who went and who came, in that order.
type TopicsUpdate struct {
	Snapshot               bool
	Topics, Removed, Added []string
}

// WatchTopics tells which scalable topics a namespace has, now and as it
// changes, until the session dies or ctx ends; it always returns an error. An
// unknown namespace is an empty one (broker 5.0.1, observed). update is called
// from within WatchTopics.
func (c *Client) WatchTopics(ctx context.Context, namespace string, update func(TopicsUpdate)) error {
	if err := checkNamespace(namespace); err != nil {
		return err
	}
	conn, err := c.watchConn(ctx)
	if err != nil {
		return fmt.Errorf("watch topics of %s: %w", namespace, err)
	}
	id := c.ids.Add(1)
	s := newSession[*pulsarpb.CommandWatchScalableTopicsUpdate]()
	if err := conn.own(func(h *handles) { h.topics[id] = s }); err != nil {
		return fmt.Errorf("watch topics of %s: %w", namespace, err)
	}
	defer conn.disown(func(h *handles) { delete(h.topics, id) })
	open := command(pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS)
	open.WatchScalableTopics = &pulsarpb.CommandWatchScalableTopics{WatchId: proto.Uint64(id), Namespace: proto.String(namespace)}
	err = attend(ctx, conn, s, open, func(m *pulsarpb.CommandWatchScalableTopicsUpdate) error {
		if err := refusal(m.Error, m.GetMessage()); err != nil {
			return err
		}
		update(topicsUpdate(m))
		return nil
	})
	if conn.alive() {
		cmd := command(pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_CLOSE)
		cmd.WatchScalableTopicsClose = &pulsarpb.CommandWatchScalableTopicsClose{WatchId: proto.Uint64(id)}
		_ = conn.out.command(cmd)
	}
	return fmt.Errorf("watch topics of %s: %w", namespace, err)
}

// watchConn is a control connection to a broker that knows scalable topics.
func (c *Client) watchConn(ctx context.Context) (*conn, error) {
	conn, err := c.control(ctx)
	if err != nil {
		return nil, err
	}
	if !conn.info.ScalableTopics {
		return nil, fmt.Errorf("%w: %s (%s) has no scalable topics", ErrUnsupported, conn.target, conn.info.Version)
	}
	return conn, nil
}

// attend opens a session and handles its updates until it ends.
func attend[T any](ctx context.Context, c *conn, s *session[T], open *pulsarpb.BaseCommand, handle func(T) error) error {
	if err := c.out.command(open); err != nil {
		return err
	}
	first := time.NewTimer(c.opts.OperationTimeout)
	defer first.Stop()
	late := first.C
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			return ErrTimeout
		case <-s.wake:
		}
		updates, err := s.take()
		for _, u := range updates {
			late = nil
			if err := handle(u); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

func topicsUpdate(m *pulsarpb.CommandWatchScalableTopicsUpdate) TopicsUpdate {
	if s := m.GetSnapshot(); s != nil {
		return TopicsUpdate{Snapshot: true, Topics: s.GetTopics()}
	}
	return TopicsUpdate{Removed: m.GetDiff().GetRemoved(), Added: m.GetDiff().GetAdded()}
}

func layoutUpdate(m *pulsarpb.CommandScalableTopicUpdate, tls bool) LayoutUpdate {
	if err := refusal(m.Error, m.GetMessage()); err != nil {
		return LayoutUpdate{Err: err}
	}
	dag := m.GetDag()
	if dag == nil {
		return LayoutUpdate{Err: fmt.Errorf("%w: layout update without a layout", ErrProtocol)}
	}
	u := LayoutUpdate{Topic: m.GetResolvedTopicName(), Epoch: dag.GetEpoch(), ControllerURL: dag.GetControllerBrokerUrl(), Brokers: map[uint64]string{}}
	if tls {
		u.ControllerURL = dag.GetControllerBrokerUrlTls()
	}
	for _, s := range dag.GetSegments() {
		seg, err := segment(s)
		if err != nil {
			return LayoutUpdate{Err: err}
		}
		u.Segments = append(u.Segments, seg)
	}
	for _, b := range dag.GetSegmentBrokers() {
		url := b.GetBrokerUrl()
		if tls {
			url = b.GetBrokerUrlTls()
		}
		if parsed, err := parseServiceURL(url); err == nil && len(parsed.hosts) == 1 {
			u.Brokers[b.GetSegmentId()] = parsed.hosts[0]
		}
	}
	return u
}

func segment(s *pulsarpb.SegmentInfoProto) (Segment, error) {
	if s.GetHashStart() > s.GetHashEnd() || s.GetHashEnd() > math.MaxUint16 {
		return Segment{}, fmt.Errorf("%w: segment %d has range %x-%x", ErrProtocol, s.GetSegmentId(), s.GetHashStart(), s.GetHashEnd())
	}
	seg := Segment{
		ID: s.GetSegmentId(), HashStart: uint16(s.GetHashStart()), HashEnd: uint16(s.GetHashEnd()),
		Sealed:  s.GetState() == pulsarpb.SegmentState_SEALED,
		Parents: s.GetParentIds(), Children: s.GetChildIds(),
		CreatedEpoch: s.GetCreatedAtEpoch(), SealedEpoch: s.GetSealedAtEpoch(),
		CreatedAtMs: int64(s.GetCreatedAtMs()), SealedAtMs: int64(s.GetSealedAtMs()),
		LegacyTopic: s.GetLegacyTopicName(),
	}
	last := uint32(0)
	for _, split := range s.GetEntryBucketSplits() {
		if split <= last || split > math.MaxUint16 {
			return Segment{}, fmt.Errorf("%w: segment %d has bucket splits %v", ErrProtocol, s.GetSegmentId(), s.GetEntryBucketSplits())
		}
		last = split
		seg.EntryBucketSplits = append(seg.EntryBucketSplits, uint16(split))
	}
	return seg, nil
}
