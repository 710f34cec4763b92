package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Policies are what an operator set for a namespace; nil fields are not set, and
// the broker's own defaults hold (BrokerConfig).
type Policies struct {
	RetentionMinutes *int64 // how long acknowledged entries are kept; −1 for ever
	RetentionMB      *int64 // how much of them; −1 without limit
	TTLSeconds       *int64 // age at which entries are acknowledged for every subscription
	BacklogQuota     []Quota
	Deduplication    *bool
}

// Quota is one backlog quota.
type Quota struct {
	Type         string // destination_storage or message_age
	LimitBytes   int64  // of destination_storage
	LimitSeconds int64  // of message_age
	Policy       string // producer_request_hold, producer_exception, consumer_backlog_eviction
}

// NamespacePolicies reads the policies of tenant/namespace. It needs tenant
// admin; without, the error is both ErrUnknown and ErrUnauthorized.
func (c *Client) NamespacePolicies(ctx context.Context, namespace string) (Policies, error) {
	var body struct {
		Retention *struct {
			Minutes *int64 `json:"retentionTimeInMinutes"`
			MB      *int64 `json:"retentionSizeInMB"`
		} `json:"retention_policies"`
		TTL    *int64 `json:"message_ttl_in_seconds"`
		Quotas map[string]struct {
			Size   int64  `json:"limitSize"`
			Time   int64  `json:"limitTime"`
			Policy string `json:"policy"`
		} `json:"backlog_quota_map"`
		Deduplication *bool `json:"deduplicationEnabled"`
	}
	path, err := namespacePath("namespaces", namespace)
	err = c.do(ctx, call{op: "get policies of " + namespace, method: http.MethodGet, path: path, err: err, out: &body})
	if err != nil {
		return Policies{}, unknown(err)
	}
	p := Policies{TTLSeconds: body.TTL, Deduplication: body.Deduplication}
	if body.Retention != nil {
		p.RetentionMinutes, p.RetentionMB = body.Retention.Minutes, body.Retention.MB
	}
	for kind, q := range body.Quotas {
		p.BacklogQuota = append(p.BacklogQuota, Quota{Type: kind, LimitBytes: q.Size, LimitSeconds: q.Time, Policy: q.Policy})
	}
	slices.SortFunc(p.BacklogQuota, func(a, b Quota) int { return strings.Compare(a.Type, b.Type) })
	return p, nil
}

func unknown(err error) error {
	if errors.Is(err, ErrUnauthorized) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// BrokerConfig is the running configuration of the broker that answers, by the
// names of broker.conf. It needs superuser; without, the error is both
// ErrUnknown and ErrUnauthorized.
func (c *Client) BrokerConfig(ctx context.Context) (config map[string]string, err error) {
	err = c.do(ctx, call{op: "get broker configuration", method: http.MethodGet,
		path: "/admin/v2/brokers/configuration/runtime", out: &config})
	return config, unknown(err)
}

// ClusterName is the name the cluster calls itself. A superuser reads it from
// the broker's configuration; others from the labels of the broker's metrics,
// which are public unless an operator closed them. Where neither answers, the
// error is both ErrUnknown and ErrUnauthorized.
func (c *Client) ClusterName(ctx context.Context) (string, error) {
	config, err := c.BrokerConfig(ctx)
	if err == nil {
		if name := config["clusterName"]; name != "" {
			return name, nil
		}
		return "", &Error{Op: "get cluster name", Reason: "not in the broker's configuration", kind: ErrServer, cause: ErrUnknown}
	}
	if errors.Is(err, ErrUnauthorized) {
		if name := c.clusterLabel(ctx); name != "" {
			return name, nil
		}
	}
	return "", err
}

// clusterLabel looks for the label in the beginning of the metrics, "" for none.
func (c *Client) clusterLabel(ctx context.Context) string {
	const enough = 256 << 10
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.rest.MakeRequestWithContext(ctx, http.MethodGet, "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, enough)) // what came before an error is good
	_, rest, _ := strings.Cut(string(text), `{cluster="`)
	name, _, closed := strings.Cut(rest, `"`)
	if !closed {
		return ""
	}
	return name
}
