package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Answers as broker 5.0.1 gave them, cut to one of each kind.
const (
	statsAnswer = `{"controllerBroker":"127.0.0.1:27080","layout":{"epoch":6},"storageSize":0,"producers":[],"subscriptions":{
		"s":{"type":"STREAM","msgBacklog":3,"backlogSize":120,"unackedMessages":1,"msgRateOut":0.0,"uncoveredSegmentIds":[],
			"segments":{"4":{"msgBacklog":3,"backlogSize":120,"unackedMessages":1,"blocked":true,"drainingBuckets":0,"consumerCount":2}},
			"consumers":[{"consumerName":"a","connected":true}]},
		"loose":{"type":"QUEUE","msgBacklog":0,"backlogSize":0,"unackedMessages":0,"uncoveredSegmentIds":[5],"segments":{},"consumers":[]}}}`
	segmentAnswer = `{"ownerBroker":"127.0.0.1:27080","terminated":true,"msgRateIn":0.0,"storageSize":300,"backlogSize":120,
		"oldestBacklogMessageAgeSeconds":-1,"waitingPublishers":0,"topicCreationTime":"2026-11-30T10:56:49.796Z",
		"producers":[{"producerName":"p"}],
		"subscriptions":{"s":{"type":"Failover","msgBacklog":3,"backlogSize":120,"unackedMessages":1,"oldestBacklogMessageAgeSeconds":9,
			"consumers":[{"consumerName":"a"}]}}}`
	policiesAnswer = `{"replication_clusters":["rr"],"backlog_quota_map":{
		"message_age":{"limit":0,"limitSize":0,"limitTime":3600,"policy":"consumer_backlog_eviction"},
		"destination_storage":{"limit":1000000,"limitSize":1000000,"limitTime":0,"policy":"producer_exception"}},
		"deduplicationEnabled":true,"message_ttl_in_seconds":120,"retention_policies":{"retentionTimeInMinutes":60,"retentionSizeInMB":-1}}`
)

func TestSubscriptions(t *testing.T) {
	c, seen := serve(t, Options{}, answer{200, statsAnswer})
	got, err := c.Subscriptions(t.Context(), scalable)
	if err != nil || (*seen)[0] != "GET /admin/v2/scalable/t/n/x/stats" {
		t.Fatal(*seen, err)
	}
	want := map[string]SubscriptionInfo{
		"s": {Type: TypeStream, Backlog: 3, BacklogBytes: 120, Unacked: 1, Uncovered: []uint64{},
			Segments:   map[uint64]SegmentSubscription{4: {Backlog: 3, BacklogBytes: 120, Unacked: 1, Blocked: true, Consumers: 2}},
			Registered: []RegisteredConsumer{{"a"}}},
		"loose": {Type: TypeQueue, Uncovered: []uint64{5}, Segments: map[uint64]SegmentSubscription{}, Registered: []RegisteredConsumer{}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if a, b := got["s"].Attached(), got["loose"].Attached(); a != 2 || b != 0 {
		t.Errorf("attached %d and %d", a, b)
	}
}

func TestSegmentStats(t *testing.T) {
	c, seen := serve(t, Options{}, answer{200, segmentAnswer}, answer{404, `{"reason":"Segment 99 not found in scalable topic topic://t/n/x"}`})
	got, err := c.SegmentStats(t.Context(), scalable, 4)
	if err != nil || (*seen)[0] != "GET /admin/v2/scalable/t/n/x/segments/4/stats" {
		t.Fatal(*seen, err)
	}
	want := SegmentStats{OwnerBroker: "127.0.0.1:27080", Terminated: true, StorageBytes: 300, BacklogBytes: 120, OldestBacklog: -1,
		CreatedAt: time.Date(2026, 11, 30, 10, 56, 49, 796e6, time.UTC), Producers: []SegmentProducer{{"p"}},
		Subscriptions: map[string]SegmentSubscriptionStats{"s": {Type: "Failover", Backlog: 3, BacklogBytes: 120, Unacked: 1, OldestAge: 9,
			Consumers: []SegmentConsumer{{"a"}}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err = c.SegmentStats(t.Context(), scalable, 99); !errors.Is(err, ErrNotFound) {
		t.Errorf("pruned segment: %v", err)
	}
}

func TestNamespacePolicies(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	yes := true
	for _, tc := range []struct {
		name   string
		answer answer
		want   Policies
		errs   []error
	}{
		{"all set", answer{200, policiesAnswer}, Policies{RetentionMinutes: number(60), RetentionMB: number(-1), TTLSeconds: number(120),
			BacklogQuota:  []Quota{{"destination_storage", 1000000, 0, "producer_exception"}, {"message_age", 0, 3600, "consumer_backlog_eviction"}},
			Deduplication: &yes}, nil},
		{"none set", answer{200, `{"backlog_quota_map":{},"deleted":false}`}, Policies{}, nil},
		{"not permitted", answer{403, ""}, Policies{}, []error{ErrUnknown, ErrUnauthorized}},
		{"no namespace", answer{404, `{"reason":"Namespace does not exist"}`}, Policies{}, []error{ErrNotFound}},
	} {
		c, _ := serve(t, Options{}, tc.answer)
		got, err := c.NamespacePolicies(t.Context(), "t/n")
		if d := cmp.Diff(tc.want, got); d != "" || (err != nil) != (tc.errs != nil) {
			t.Errorf("%s: %v (-want +got):\n%s", tc.name, err, d)
		}
		for _, want := range tc.errs {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v is not %v", tc.name, err, want)
			}
		}
	}
}

func TestClusterName(t *testing.T) {
	const metrics = "# TYPE x gauge\njvm_x 1\npulsar_x{cluster=\"west\",le=\"5.0\"} 8.0\n"
	for _, tc := range []struct {
		name    string
		answers []answer
		want    string
		err     error
	}{
		{"superuser", []answer{{200, `{"clusterName":"east","a":"b"}`}}, "east", nil},
		{"from metrics", []answer{{401, ""}, {200, metrics}}, "west", nil},
		{"metrics closed", []answer{{401, ""}, {401, ""}}, "", ErrUnknown},
		{"metrics without it", []answer{{401, ""}, {200, "jvm_x 1\n"}}, "", ErrUnknown},
		{"service failed", []answer{{500, ""}}, "", ErrServer},
		{"configuration without it", []answer{{200, `{}`}}, "", ErrUnknown},
	} {
		c, _ := serve(t, Options{}, tc.answers...)
		if got, err := c.ClusterName(t.Context()); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v", tc.name, got, err)
		}
	}
}

func TestLists(t *testing.T) {
	ctx := t.Context()
	c, seen := serve(t, Options{}, answer{200, `["a","b"]`}, answer{200, `["topic://t/n/x"]`}, answer{200, `{"status":"SUCCESS","lastError":""}`},
		answer{404, `{"reason":"Topic persistent://t/n/__x not found"}`})
	if got, err := c.RegularSubscriptions(ctx, regular); err != nil || !cmp.Equal(got, []string{"a", "b"}) {
		t.Error(got, err)
	}
	if got, err := c.ScalableTopics(ctx, "t/n"); err != nil || !cmp.Equal(got, []string{"topic://t/n/x"}) {
		t.Error(got, err)
	}
	if got, err := c.Compaction(ctx, regular); err != nil || got.State != CompactionSuccess {
		t.Error(got, err)
	}
	if _, err := c.RegularSubscriptions(ctx, regular); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	want := []string{"GET /admin/v2/persistent/t/n/__x/subscriptions", "GET /admin/v2/scalable/t/n",
		"GET /admin/v2/persistent/t/n/__x/compaction", "GET /admin/v2/persistent/t/n/__x/subscriptions"}
	if d := cmp.Diff(want, *seen); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
}
