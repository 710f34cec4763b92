package pulsartest_test

import (
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/geobridge/geobridge/internal/admin"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// rest is a client of the cluster's admin service, over loopback.
func rest(t *testing.T, c *pulsartest.Cluster) *admin.Client {
	t.Helper()
	server := httptest.NewServer(c.Admin())
	t.Cleanup(server.Close)
	client, err := admin.New(admin.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Facts 13, 3.5, P16, P17.
func TestAdminScalable(t *testing.T) {
	c := pulsartest.New(pulsartest.Options{Cluster: "east"})
	a, ctx := rest(t, c), t.Context()
	if exists, err := a.Exists(ctx, scalableTopic); exists || err != nil {
		t.Errorf("before: %v, %v", exists, err)
	}
	_, stats := a.Subscriptions(ctx, scalableTopic)
	_, segment := a.SegmentStats(ctx, scalableTopic, 0)
	for what, err := range map[string]error{
		"record": a.RecordSubscription(ctx, scalableTopic, "s"), "skip": a.SkipAll(ctx, scalableTopic, "s"),
		"delete": a.DeleteSubscription(ctx, scalableTopic, "s"), "stats": stats, "segment": segment,
	} {
		if !errors.Is(err, admin.ErrNotFound) {
			t.Errorf("%s of a missing topic: %v", what, err)
		}
	}
	must(t, a.CreateScalable(ctx, scalableTopic, 2))
	if err := a.CreateScalable(ctx, scalableTopic, 1); !errors.Is(err, admin.ErrConflict) {
		t.Errorf("created twice: %v", err)
	}
	if topics, err := a.ScalableTopics(ctx, "public/default"); err != nil || len(topics) != 1 || topics[0] != scalableTopic {
		t.Errorf("%v, %v", topics, err)
	}
	must(t, a.RecordSubscription(ctx, scalableTopic, "s"))
	must(t, a.SkipAll(ctx, scalableTopic, "s"))
	must(t, a.SkipAll(ctx, scalableTopic, "nobody"))
	got, err := a.Subscriptions(ctx, scalableTopic)
	want := map[string]admin.SubscriptionInfo{"s": {Type: admin.TypeStream, Uncovered: []uint64{}, Registered: []admin.RegisteredConsumer{},
		Segments: map[uint64]admin.SegmentSubscription{0: {}, 1: {}}}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	must(t, c.Split(scalableTopic, 0))
	if s, err := a.SegmentStats(ctx, scalableTopic, 0); err != nil || !s.Terminated || s.CreatedAt.IsZero() || s.Subscriptions["s"].Type != "None" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := a.SegmentStats(ctx, scalableTopic, 99); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("no such segment: %v", err)
	}
	must(t, a.DeleteSubscription(ctx, scalableTopic, "s"))
	if got, err := a.Subscriptions(ctx, scalableTopic); len(got) != 0 || err != nil {
		t.Errorf("deleted: %v, %v", got, err)
	}
}

// P17: the cursor of an attached consumer stays.
func TestDeleteAttachedSubscription(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		r.produce(segment, "p").send("a", "b")
		c := r.subscribe(failover(segment, "c"), 0)
		must(t, r.RecordSubscription(scalableTopic, "s"))
		must(t, r.DeleteSubscription(scalableTopic, "s"))
		synctest.Wait()
		if n := c.backlog(); n != 2 {
			t.Errorf("backlog %d", n)
		}
	})
}

// P31.
func TestAdminRegular(t *testing.T) {
	c := pulsartest.New(pulsartest.Options{Cluster: "east"})
	a, ctx := rest(t, c), t.Context()
	const topic, missing = "persistent://public/default/__x", "persistent://no/such/__x"
	if _, err := a.RegularSubscriptions(ctx, topic); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	must(t, a.EnsureRegularTopic(ctx, topic))
	must(t, a.EnsureRegularTopic(ctx, topic))
	must(t, a.EnsureSubscription(ctx, topic, "s", true))
	must(t, a.EnsureSubscription(ctx, topic, "s", false))
	if s, err := a.Compaction(ctx, topic); err != nil || s.State != admin.CompactionNotRun {
		t.Errorf("%+v, %v", s, err)
	}
	must(t, a.CompactTopic(ctx, topic))
	if s, err := a.Compaction(ctx, topic); err != nil || s.State != admin.CompactionSuccess {
		t.Errorf("%+v, %v", s, err)
	}
	if subs, err := a.RegularSubscriptions(ctx, topic); err != nil || len(subs) != 2 {
		t.Errorf("%v, %v", subs, err)
	}
	for _, err := range []error{a.EnsureRegularTopic(ctx, missing), a.EnsureSubscription(ctx, missing, "s", true)} {
		if !errors.Is(err, admin.ErrNotFound) {
			t.Errorf("in no namespace: %v", err)
		}
	}
	if p, err := a.NamespacePolicies(ctx, "public/default"); err != nil || p.RetentionMB != nil || p.Deduplication != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := a.NamespacePolicies(ctx, "no/such"); !errors.Is(err, admin.ErrNotFound) {
		t.Error(err)
	}
	if name, err := a.ClusterName(ctx); name != "east" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}
