package pulsar

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

const (
	// reregisterEvery is how often a STREAM registration is renewed: when an old
	// connection of the same name closes late, the controller takes the present
	// one for gone, without a word, and evicts it 60 s later (broker 5.0.1,
	// observed).
	reregisterEvery = 20 * time.Second
	// unregisterTimeout bounds the goodbye.
	unregisterTimeout = 5 * time.Second
)

// StreamOptions says whom to register with the controller of a scalable topic.
type StreamOptions struct {
	Topic        string // topic://tenant/namespace/name
	Subscription string
	ConsumerName string // one registration per name
	// Controller is LayoutUpdate.ControllerURL: no other broker takes the
	// registration. Empty asks a service host, which is right only while there
	// is no controller yet.
	Controller string
}

// Assignment is what a registered consumer shall read: all of it, each time.
type Assignment struct {
	LayoutEpoch uint64
	Segments    []AssignedSegment
}

// AssignedSegment is one segment to read. With no Buckets the consumer is the
// only one, and subscribes Exclusive; otherwise it shares the segment, and
// subscribes Key_Shared, sticky, by entry bucket, declaring just these ranges:
// the segment's whole boundary list (PIP-486).
type AssignedSegment struct {
	ID                 uint64
	HashStart, HashEnd uint16
	Topic              string
	Buckets            []HashRange
}

// RegisterStream registers a STREAM consumer and tells what it is assigned, now
// and whenever it may have changed; the same assignment is told many times. It
// blocks until the session dies or ctx ends, and always returns an error; at
// the end of ctx it unregisters, so that the peers take over at once. A
// registration alone neither creates a cursor nor keeps data (broker 5.0.1,
// observed).
func (c *Client) RegisterStream(ctx context.Context, o StreamOptions, update func(Assignment)) error {
	if err := checkTopic(o.Topic); err != nil {
		return err
	}
	if err := checkText("subscription", o.Subscription); err != nil {
		return err
	}
	if err := checkText("consumer", o.ConsumerName); err != nil {
		return err
	}
	conn, err := c.controllerConn(ctx, o.Controller)
	if err != nil {
		return fmt.Errorf("register with %s: %w", o.Topic, err)
	}
	r := &registration{conn: conn, id: c.ids.Add(1), opts: o, session: newSession[*pulsarpb.ScalableConsumerAssignment]()}
	if err := conn.own(func(h *handles) { h.streams[r.id] = r.session }); err != nil {
		return fmt.Errorf("register with %s: %w", o.Topic, err)
	}
	defer conn.disown(func(h *handles) { delete(h.streams, r.id) })
	err = r.run(ctx, update)
	if conn.alive() {
		r.unregister(ctx)
	}
	return fmt.Errorf("register with %s at %s: %w", o.Topic, conn.target, err)
}

func (c *Client) controllerConn(ctx context.Context, url string) (*conn, error) {
	if url == "" {
		return c.watchConn(ctx)
	}
	u, err := parseServiceURL(url)
	if err != nil || len(u.hosts) != 1 || u.tls != c.service.tls {
		return nil, fmt.Errorf("%w: controller %q", ErrProtocol, url)
	}
	return c.pool.get(ctx, target{dial: u.hosts[0], broker: u.hosts[0], kind: KindControl})
}

// registration is one session with a controller.
type registration struct {
	conn    *conn
	id      uint64
	opts    StreamOptions
	session *session[*pulsarpb.ScalableConsumerAssignment]
}

func (r *registration) run(ctx context.Context, update func(Assignment)) error {
	renew := time.NewTimer(0)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-renew.C:
			if err := r.register(ctx); err != nil {
				return err
			}
			renew.Reset(reregisterEvery)
		case <-r.session.wake:
		}
		news, err := r.session.take()
		for _, m := range news {
			a, bad := assignment(m)
			if bad != nil {
				return bad
			}
			update(a)
		}
		if err != nil {
			return err
		}
	}
}

// register asks for the current assignment, which joins the queue of pushed
// ones in the order the broker sent them.
func (r *registration) register(ctx context.Context) error {
	_, err := r.conn.request(ctx, r.conn.opts.OperationTimeout, pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE_RESPONSE, func(res result) {
		if a := res.cmd.GetScalableTopicSubscribeResponse().GetAssignment(); res.err == nil && a != nil {
			push(r.conn, func(*handles) *session[*pulsarpb.ScalableConsumerAssignment] { return r.session }, a)
		}
	}, func(id uint64) *pulsarpb.BaseCommand {
		cmd := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE)
		cmd.ScalableTopicSubscribe = &pulsarpb.CommandScalableTopicSubscribe{
			RequestId: proto.Uint64(id), ConsumerId: proto.Uint64(r.id), ConsumerType: pulsarpb.ScalableConsumerType_STREAM.Enum(),
			Topic: proto.String(r.opts.Topic), Subscription: proto.String(r.opts.Subscription), ConsumerName: proto.String(r.opts.ConsumerName),
		}
		return cmd
	})
	return err
}

// unregister is best effort: without it the peers wait out the grace of 60 s.
func (r *registration) unregister(ctx context.Context) {
	_, err := r.conn.request(context.WithoutCancel(ctx), unregisterTimeout, pulsarpb.BaseCommand_SUCCESS, nil, func(id uint64) *pulsarpb.BaseCommand {
		cmd := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE)
		cmd.ScalableTopicUnsubscribe = &pulsarpb.CommandScalableTopicUnsubscribe{RequestId: proto.Uint64(id), ConsumerId: proto.Uint64(r.id)}
		return cmd
	})
	if err != nil {
		r.conn.log.Debug("could not unregister", "topic", r.opts.Topic, "error", err)
	}
}

func assignment(m *pulsarpb.ScalableConsumerAssignment) (Assignment, error) {
	a := Assignment{LayoutEpoch: m.GetLayoutEpoch()}
	for _, s := range m.GetSegments() {
		if s.GetHashStart() > s.GetHashEnd() || s.GetHashEnd() > math.MaxUint16 {
			return Assignment{}, fmt.Errorf("%w: assigned segment %d has range %x-%x", ErrProtocol, s.GetSegmentId(), s.GetHashStart(), s.GetHashEnd())
		}
		seg := AssignedSegment{ID: s.GetSegmentId(), HashStart: uint16(s.GetHashStart()), HashEnd: uint16(s.GetHashEnd()), Topic: s.GetSegmentTopic()}
		for _, b := range s.GetBucketRanges() {
			if b.GetStart() < 0 || b.GetStart() > b.GetEnd() || b.GetEnd() > math.MaxUint16 {
				return Assignment{}, fmt.Errorf("%w: assigned segment %d has bucket %d-%d", ErrProtocol, s.GetSegmentId(), b.GetStart(), b.GetEnd())
			}
			seg.Buckets = append(seg.Buckets, HashRange{uint16(b.GetStart()), uint16(b.GetEnd())})
		}
		a.Segments = append(a.Segments, seg)
	}
	return a, nil
}
