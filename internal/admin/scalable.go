package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Types of a scalable topic's subscriptions, in SubscriptionInfo.Type.
const (
	// TypeStream is a recorded subscription: segments are kept until it has
	// drained them.
	TypeStream = "STREAM"
	// TypeQueue is cursors without a record: segments may be deleted undrained
	// (facts 3.5).
	TypeQueue = "QUEUE"
)

// scalable runs a call about one scalable topic. Brokers answer 500 where the
// topic does not exist (broker 5.0.1, observed: "Failed to initialize
// controller"), so that is asked for then.
func (c *Client) scalable(ctx context.Context, topic string, q call) error {
	err := c.do(ctx, q)
	if !errors.Is(err, ErrServer) {
		return err
	}
	if exists, existsErr := c.Exists(ctx, topic); existsErr == nil && !exists {
		return &Error{Op: q.op, Status: http.StatusNotFound, Reason: "no such scalable topic", kind: ErrNotFound, cause: err}
	}
	return err
}

// Exists reports whether there is a scalable topic of that name.
func (c *Client) Exists(ctx context.Context, topic string) (bool, error) {
	path, err := scalablePath(topic)
	var ignored struct{}
	err = c.do(ctx, call{op: "get " + topic, method: http.MethodGet, path: path, err: err, out: &ignored})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// CreateScalable makes a scalable topic with that many segments of equal width.
// One that exists is ErrConflict, whatever its layout. Brokers make it in a
// namespace, even a tenant, that does not exist (broker 5.0.1, observed): check
// with NamespacePolicies first.
func (c *Client) CreateScalable(ctx context.Context, topic string, segments int) error {
	path, err := scalablePath(topic)
	return c.do(ctx, call{op: "create " + topic, method: http.MethodPut, path: path, err: err,
		query: map[string]string{"numInitialSegments": strconv.Itoa(segments)}})
}

// ScalableTopics lists the scalable topics of tenant/namespace, topic:// names,
// in no order. A namespace that does not exist has none.
func (c *Client) ScalableTopics(ctx context.Context, namespace string) (topics []string, err error) {
	path, err := namespacePath("scalable", namespace)
	err = c.do(ctx, call{op: "list scalable topics of " + namespace, method: http.MethodGet, path: path, err: err, out: &topics})
	return topics, err
}

func (c *Client) subscription(ctx context.Context, op, method, topic, sub string, more ...string) error {
	path, err := scalablePath(topic, append([]string{"subscriptions", sub}, more...)...)
	return c.scalable(ctx, topic, call{op: op + " " + sub + " on " + topic, method: method, path: path, err: err})
}

// RecordSubscription writes the subscription into the topic's metadata, which
// alone keeps sealed segments until it drained them. Idempotent: an existing
// record, and cursors that exist already, stay as they are; missing ones are
// created at the earliest entry (facts 3.5, P16).
func (c *Client) RecordSubscription(ctx context.Context, topic, sub string) error {
	return c.subscription(ctx, "record subscription", http.MethodPut, topic, sub)
}

// SkipAll moves the subscription's cursors to the end of every segment;
// attached consumers are not told (facts P16). A subscription that does not
// exist is no error, and is not created (broker 5.0.1, observed).
func (c *Client) SkipAll(ctx context.Context, topic, sub string) error {
	return c.subscription(ctx, "skip backlog of subscription", http.MethodPost, topic, sub, "skip-all")
}

// DeleteSubscription removes the record and the cursors. With a consumer
// attached it removes only the record, silently, and leaves the data
// unprotected (facts P17): make sure first that SubscriptionInfo.Attached is 0.
// A subscription that does not exist is no error.
func (c *Client) DeleteSubscription(ctx context.Context, topic, sub string) error {
	return c.subscription(ctx, "delete subscription", http.MethodDelete, topic, sub)
}

// SubscriptionInfo is a scalable topic's view of one subscription.
type SubscriptionInfo struct {
	Type         string `json:"type"`            // TypeStream, TypeQueue or another name of Pulsar's
	Backlog      int64  `json:"msgBacklog"`      // entries not acknowledged; markers count
	BacklogBytes int64  `json:"backlogSize"`     // size of the backlog in storage
	Unacked      int64  `json:"unackedMessages"` // delivered, not acknowledged
	// Uncovered are segments without a cursor of this subscription.
	Uncovered []uint64                       `json:"uncoveredSegmentIds"`
	Segments  map[uint64]SegmentSubscription `json:"segments"`
	// Registered are the consumers registered with the controller.
	Registered []RegisteredConsumer `json:"consumers"`
}

// SegmentSubscription is the share of one segment in a SubscriptionInfo.
type SegmentSubscription struct {
	Backlog      int64 `json:"msgBacklog"`
	BacklogBytes int64 `json:"backlogSize"`
	Unacked      int64 `json:"unackedMessages"`
	Blocked      bool  `json:"blocked"` // held back until its parents are drained
	Consumers    int   `json:"consumerCount"`
}

// RegisteredConsumer is a consumer that the controller assigns segments to.
type RegisteredConsumer struct {
	Name string `json:"consumerName"`
}

// Attached is how many consumers hold the subscription: those on its segments,
// and those registered without one.
func (s SubscriptionInfo) Attached() int {
	n := 0
	for _, seg := range s.Segments {
		n += seg.Consumers
	}
	return max(n, len(s.Registered))
}

// Subscriptions are the subscriptions of a scalable topic by name, recorded or
// not, with current backlogs.
func (c *Client) Subscriptions(ctx context.Context, topic string) (map[string]SubscriptionInfo, error) {
	var stats struct {
		Subscriptions map[string]SubscriptionInfo `json:"subscriptions"`
	}
	path, err := scalablePath(topic, "stats")
	err = c.scalable(ctx, topic, call{op: "get stats of " + topic, method: http.MethodGet, path: path, err: err, out: &stats})
	return stats.Subscriptions, err
}

// SegmentStats is what the owner of a segment knows of it.
type SegmentStats struct {
	OwnerBroker   string                              `json:"ownerBroker"` // host:port of its admin service
	Terminated    bool                                `json:"terminated"`  // sealed in storage
	StorageBytes  int64                               `json:"storageSize"`
	BacklogBytes  int64                               `json:"backlogSize"`                    // of the slowest subscription
	OldestBacklog int64                               `json:"oldestBacklogMessageAgeSeconds"` // −1: not known
	CreatedAt     time.Time                           `json:"topicCreationTime"`
	Producers     []SegmentProducer                   `json:"producers"`
	Subscriptions map[string]SegmentSubscriptionStats `json:"subscriptions"`
}

// SegmentProducer is a producer attached to a segment.
type SegmentProducer struct {
	Name string `json:"producerName"`
}

// SegmentSubscriptionStats is one cursor of a segment.
type SegmentSubscriptionStats struct {
	Type         string            `json:"type"` // of the consumers attached: Failover, Exclusive, …; None without any
	Backlog      int64             `json:"msgBacklog"`
	BacklogBytes int64             `json:"backlogSize"`
	Unacked      int64             `json:"unackedMessages"`
	OldestAge    int64             `json:"oldestBacklogMessageAgeSeconds"` // −1: not known
	Consumers    []SegmentConsumer `json:"consumers"`
}

// SegmentConsumer is a consumer attached to a segment.
type SegmentConsumer struct {
	Name string `json:"consumerName"`
}

// SegmentStats asks for one segment, which must be in the layout still.
func (c *Client) SegmentStats(ctx context.Context, topic string, segment uint64) (stats SegmentStats, err error) {
	id := strconv.FormatUint(segment, 10)
	path, err := scalablePath(topic, "segments", id, "stats")
	err = c.scalable(ctx, topic, call{op: "get stats of segment " + id + " of " + topic, method: http.MethodGet,
		path: path, err: err, out: &stats})
	return stats, err
}
