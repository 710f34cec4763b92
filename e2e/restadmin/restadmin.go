// Package restadmin is the little of Pulsar's admin REST interface that the
// scenarios need to set topics up and to look at them from outside.
package restadmin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client talks to one or more admin addresses of one cluster; the first that
// answers is used.
type Client struct {
	URLs  []string
	Token string // bearer token, optional
	http  http.Client
}

// New returns a Client.
func New(urls ...string) *Client {
	return &Client{URLs: urls, http: http.Client{Timeout: 30 * time.Second}}
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Method, URL, Body string
	Code              int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Code, e.Body)
}

// Do sends body (nil: none) as JSON and decodes the answer into out (nil: not).
func (c *Client) Do(ctx context.Context, method, path string, body, out any) error {
	var failures []error
	for _, base := range c.URLs {
		err := c.do(ctx, method, base+"/admin/v2/"+path, body, out)
		var status *StatusError
		if err == nil || errors.As(err, &status) {
			return err
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

func (c *Client) do(ctx context.Context, method, address string, body, out any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	// The standard client follows a 307 with the same method and body.
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return &StatusError{Method: method, URL: address, Code: response.StatusCode, Body: string(answer[:min(len(answer), 300)])}
	}
	if out == nil || len(answer) == 0 {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// Name is a scalable topic's name, tenant/namespace/topic.
type Name string

// Topic is the topic:// form.
func (n Name) Topic() string { return "topic://" + string(n) }

func (n Name) path() string { return "scalable/" + string(n) }

// Segment is one segment of a Layout.
type Segment struct {
	ID        int64                    `json:"segmentId"`
	Range     struct{ Start, End int } `json:"hashRange"`
	State     string                   `json:"state"`
	Parents   []int64                  `json:"parentIds"`
	Children  []int64                  `json:"childIds"`
	Splits    []int                    `json:"entryBucketSplits"`
	Active    bool                     `json:"active"`
	CreatedMs int64                    `json:"createdAtMs"`
}

// Descriptor is the last part of the segment's own topic name.
func (s Segment) Descriptor() string {
	return fmt.Sprintf("%04x-%04x-%d", s.Range.Start, s.Range.End, s.ID)
}

// Bucket is the index of the bucket that holds a bucket hash.
func (s Segment) Bucket(hash int) int {
	bucket := 0
	for bucket < len(s.Splits) && hash >= s.Splits[bucket] {
		bucket++
	}
	return bucket
}

// Layout is a topic's segments by id.
type Layout struct {
	Epoch    int64              `json:"epoch"`
	Segments map[string]Segment `json:"segments"`
}

// Active lists the active segments, in no order.
func (l Layout) Active() []Segment {
	var out []Segment
	for _, s := range l.Segments {
		if s.Active {
			out = append(out, s)
		}
	}
	return out
}

// SegmentTopic is the segment:// name of a segment of n.
func (n Name) SegmentTopic(s Segment) string {
	return "segment://" + string(n) + "/" + s.Descriptor()
}

// CreateNamespace creates tenant/namespace with the given number of bundles (0:
// the broker's default) in cluster.
func (c *Client) CreateNamespace(ctx context.Context, namespace, cluster string, bundles int) error {
	body := map[string]any{"replication_clusters": []string{cluster}}
	if bundles > 0 {
		body["bundles"] = map[string]int{"numBundles": bundles}
	}
	return c.Do(ctx, http.MethodPut, "namespaces/"+namespace, body, nil)
}

// KeepAll sets the namespace's retention so that nothing is trimmed.
func (c *Client) KeepAll(ctx context.Context, namespace string) error {
	return c.Do(ctx, http.MethodPost, "namespaces/"+namespace+"/retention",
		map[string]int{"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}, nil)
}

// Unload makes the brokers give the namespace's bundles up.
func (c *Client) Unload(ctx context.Context, namespace string) error {
	return c.Do(ctx, http.MethodPut, "namespaces/"+namespace+"/unload", nil, nil)
}

// CreateTopic creates a scalable topic of the given number of segments and
// switches its automatic scaling off. With buckets > 0 each segment is then
// rebucketed to that many, unless it has them.
func (c *Client) CreateTopic(ctx context.Context, n Name, segments, buckets int) error {
	if err := c.Do(ctx, http.MethodPut, fmt.Sprintf("%s?numInitialSegments=%d", n.path(), segments), nil, nil); err != nil {
		return err
	}
	if err := c.Do(ctx, http.MethodPost, n.path()+"/autoScalePolicy", map[string]bool{"enabled": false}, nil); err != nil {
		return err
	}
	layout, err := c.Layout(ctx, n)
	if err != nil {
		return err
	}
	for _, s := range layout.Active() {
		if buckets > 0 && len(s.Splits)+1 != buckets {
			if err := c.Rebucket(ctx, n, s.ID, buckets); err != nil {
				return err
			}
		}
	}
	return nil
}

// Exists reports whether the scalable topic is there.
func (c *Client) Exists(ctx context.Context, n Name) (bool, error) {
	err := c.Do(ctx, http.MethodGet, n.path(), nil, nil)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// Delete deletes a scalable topic with force.
func (c *Client) Delete(ctx context.Context, n Name) error {
	return c.Do(ctx, http.MethodDelete, n.path()+"?force=true", nil, nil)
}

// Layout reads the topic's segments.
func (c *Client) Layout(ctx context.Context, n Name) (Layout, error) {
	var layout Layout
	err := c.Do(ctx, http.MethodGet, n.path(), nil, &layout)
	return layout, err
}

// Split halves a segment's hash range.
func (c *Client) Split(ctx context.Context, n Name, id int64) error {
	return c.Do(ctx, http.MethodPost, fmt.Sprintf("%s/split/%d", n.path(), id), nil, nil)
}

// Merge joins two neighbours.
func (c *Client) Merge(ctx context.Context, n Name, a, b int64) error {
	return c.Do(ctx, http.MethodPost, fmt.Sprintf("%s/merge/%d/%d", n.path(), a, b), nil, nil)
}

// Rebucket replaces a segment by one of the same range with that many buckets.
func (c *Client) Rebucket(ctx context.Context, n Name, id int64, buckets int) error {
	return c.Do(ctx, http.MethodPost, fmt.Sprintf("%s/rebucket/%d?bucketCount=%d", n.path(), id, buckets), nil, nil)
}

// Subscribe records a subscription: what it has not read is kept from then on.
func (c *Client) Subscribe(ctx context.Context, n Name, subscription string) error {
	return c.Do(ctx, http.MethodPut, n.path()+"/subscriptions/"+url.PathEscape(subscription), nil, nil)
}

// Subscription is what the topic's stats say of one.
type Subscription struct {
	Type    string `json:"type"` // STREAM: recorded; QUEUE: loose
	Backlog int64  `json:"msgBacklog"`
}

// Subscriptions reads the topic's stats.
func (c *Client) Subscriptions(ctx context.Context, n Name) (map[string]Subscription, error) {
	var stats struct {
		Subscriptions map[string]Subscription `json:"subscriptions"`
	}
	err := c.Do(ctx, http.MethodGet, n.path()+"/stats", nil, &stats)
	return stats.Subscriptions, err
}

// Backlog is one subscription's backlog over all segments.
func (c *Client) Backlog(ctx context.Context, n Name, subscription string) (int64, error) {
	all, err := c.Subscriptions(ctx, n)
	if err != nil {
		return 0, err
	}
	s, known := all[subscription]
	if !known {
		return 0, fmt.Errorf("no subscription %s on %s", subscription, n)
	}
	return s.Backlog, nil
}

// ErrNoSubscription says that a segment has no cursor of a subscription.
var ErrNoSubscription = errors.New("no such subscription")

// SegmentBacklog is the backlog of a subscription on one segment.
func (c *Client) SegmentBacklog(ctx context.Context, n Name, segment int64, subscription string) (int64, error) {
	var stats struct {
		Subscriptions map[string]Subscription `json:"subscriptions"`
	}
	if err := c.Do(ctx, http.MethodGet, fmt.Sprintf("%s/segments/%d/stats", n.path(), segment), nil, &stats); err != nil {
		return 0, err
	}
	s, known := stats.Subscriptions[subscription]
	if !known {
		return 0, fmt.Errorf("%w: %s on segment %d of %s", ErrNoSubscription, subscription, segment, n)
	}
	return s.Backlog, nil
}

// DropSegmentSubscription deletes a loose subscription of one segment.
func (c *Client) DropSegmentSubscription(ctx context.Context, n Name, s Segment, subscription string) error {
	return c.Do(ctx, http.MethodDelete, strings.Join([]string{"segments", string(n), s.Descriptor(), "subscription", subscription}, "/"), nil, nil)
}

// StorageSize is the size of what the topic stores, over all segments.
func (c *Client) StorageSize(ctx context.Context, n Name) (int64, error) {
	var stats struct {
		StorageSize int64 `json:"storageSize"`
	}
	err := c.Do(ctx, http.MethodGet, n.path()+"/stats", nil, &stats)
	return stats.StorageSize, err
}
