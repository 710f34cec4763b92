package admin

import (
	"context"
	"errors"
	"math"
	"net/http"
)

// EnsureRegularTopic makes a persistent:// topic without partitions, unless it
// exists (in whatever form). It needs tenant admin: otherwise it is
// ErrUnauthorized, and EnsureSubscription may still create it.
func (c *Client) EnsureRegularTopic(ctx context.Context, topic string) error {
	path, err := regularPath(topic)
	err = c.do(ctx, call{op: "create " + topic, method: http.MethodPut, path: path, err: err})
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// EnsureSubscription makes a durable subscription on a regular topic, at its
// earliest entry or after its last, unless there is one: that is left where it
// stands. The right to consume suffices. A topic that does not exist is created
// with it where the broker creates topics by themselves (broker 5.0.1,
// observed), and is ErrNotFound otherwise.
func (c *Client) EnsureSubscription(ctx context.Context, topic, sub string, earliest bool) error {
	position := struct {
		Ledger int64 `json:"ledgerId"`
		Entry  int64 `json:"entryId"`
	}{math.MaxInt64, math.MaxInt64}
	if earliest {
		position.Ledger, position.Entry = -1, -1
	}
	path, err := regularPath(topic, "subscription", sub)
	err = c.do(ctx, call{op: "create subscription " + sub + " on " + topic, method: http.MethodPut, path: path, err: err, in: position})
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// RegularSubscriptions are the names of a regular topic's subscriptions. No such
// topic is ErrNotFound.
func (c *Client) RegularSubscriptions(ctx context.Context, topic string) (subs []string, err error) {
	path, err := regularPath(topic, "subscriptions")
	err = c.do(ctx, call{op: "list subscriptions of " + topic, method: http.MethodGet, path: path, err: err, out: &subs})
	return subs, err
}

// CompactTopic starts the compaction of a regular topic; Compaction tells when
// it is done. It needs tenant admin. ErrConflict: one is running already, which
// may not see what was written since it began.
func (c *Client) CompactTopic(ctx context.Context, topic string) error {
	path, err := regularPath(topic, "compaction")
	return c.do(ctx, call{op: "compact " + topic, method: http.MethodPut, path: path, err: err})
}

// States of a Compaction.
const (
	CompactionNotRun  = "NOT_RUN" // since the broker loaded the topic
	CompactionRunning = "RUNNING"
	CompactionSuccess = "SUCCESS"
	CompactionError   = "ERROR"
)

// Compaction is how a topic's last compaction went, as its broker remembers.
type Compaction struct {
	State     string `json:"status"`
	LastError string `json:"lastError"`
}

// Compaction asks for the state of a regular topic's compaction.
func (c *Client) Compaction(ctx context.Context, topic string) (state Compaction, err error) {
	path, err := regularPath(topic, "compaction")
	err = c.do(ctx, call{op: "get compaction of " + topic, method: http.MethodGet, path: path, err: err, out: &state})
	return state, err
}
