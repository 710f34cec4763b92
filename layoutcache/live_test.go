package layoutcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/reroute"
)

// liveWatcher gives the cache the sessions of a real broker.
type liveWatcher struct{ client *pulsar.Client }

func (w liveWatcher) WatchLayout(ctx context.Context, topic string, update func(Update)) error {
	return liveError(w.client.WatchLayout(ctx, topic, func(u pulsar.LayoutUpdate) {
		out := Update{Topic: u.Topic, Epoch: u.Epoch, Brokers: u.Brokers, ControllerURL: u.ControllerURL, Err: liveError(u.Err)}
		for _, s := range u.Segments {
			out.Segments = append(out.Segments, reroute.Segment{ID: s.ID, Range: reroute.HashRange{Start: s.HashStart, End: s.HashEnd},
				Splits: s.EntryBucketSplits, Sealed: s.Sealed, LegacyTopic: s.LegacyTopic, Parents: s.Parents, Children: s.Children,
				CreatedAtMs: s.CreatedAtMs, SealedAtMs: s.SealedAtMs})
		}
		update(out)
	}))
}

func (w liveWatcher) WatchTopics(ctx context.Context, ns string, event func(TopicsEvent)) error {
	return w.client.WatchTopics(ctx, ns, func(u pulsar.TopicsUpdate) {
		event(TopicsEvent{Snapshot: u.Snapshot, Topics: u.Topics, Added: u.Added, Removed: u.Removed})
	})
}

func liveError(err error) error {
	if errors.Is(err, pulsar.ErrTopicNotFound) {
		return fmt.Errorf("%w: %w", ErrTopicNotFound, err)
	}
	return err
}

// TestLiveTopic follows a topic of a real broker from before it exists over
// split, rebucket, deletion and recreation, in make e2e: LIVE=pulsar://… LIVE_HTTP=http://…
func TestLiveTopic(t *testing.T) {
	url := os.Getenv("LIVE")
	if url == "" {
		t.Skip("LIVE is not set")
	}
	client, err := pulsar.New(pulsar.Options{Cluster: "live", ServiceURL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	w := liveWatcher{client}
	name := fmt.Sprintf("cache-%d", time.Now().UnixNano()%1e12)
	namespace := NewNamespace(NamespaceOptions{Namespace: "public/default", Watcher: w})
	cache := New(Options{Topic: "topic://public/default/" + name, Watcher: w, Namespace: namespace})
	snapshots := make(chan *Snapshot, 1000)
	cache.Subscribe(func(s *Snapshot) { snapshots <- s })
	done := make(chan error, 2)
	go func() { done <- namespace.Run(ctx) }()
	go func() { done <- cache.Run(ctx) }()
	rest := func(method, path, body string) {
		t.Helper()
		req, _ := http.NewRequestWithContext(ctx, method, os.Getenv("LIVE_HTTP")+"/admin/v2/scalable/public/default/"+name+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Fatalf("%s %s: %s", method, path, resp.Status)
		}
	}
	await := func(what string, ok func(*Snapshot) bool) {
		t.Helper()
		began := time.Now()
		for {
			select {
			case s := <-snapshots:
				t.Logf("%v incarnation %d %v", s.State, s.Incarnation, s.Err)
				if ok(s) {
					t.Logf("%s after %v", what, time.Since(began))
					return
				}
			case <-ctx.Done():
				t.Fatalf("no %s; last: %+v", what, cache.Snapshot())
			}
		}
	}
	await("missing", func(s *Snapshot) bool { return s.State == Missing })
	rest("PUT", "?numInitialSegments=1", "")
	await("created", func(s *Snapshot) bool { return s.State == Live && s.Incarnation == 1 && len(s.Layout.Active()) == 1 })
	rest("POST", "/autoScalePolicy", `{"enabled":false}`)
	rest("POST", "/split/0", "")
	await("split", func(s *Snapshot) bool { return s.Layout.Epoch == 1 && len(s.Layout.Active()) == 2 })
	rest("POST", "/rebucket/1?bucketCount=1024", "")
	await("rebucket", func(s *Snapshot) bool {
		return s.Layout.Epoch == 2 && s.Layout.Active()[0].Buckets() == 1024 && s.Layout.Active()[0].Parents[0] == 1
	})
	rest("DELETE", "?force=true", "")
	await("deleted", func(s *Snapshot) bool { return s.State == Missing && s.Incarnation == 1 })
	rest("PUT", "?numInitialSegments=3", "")
	await("recreated", func(s *Snapshot) bool {
		return s.State == Live && s.Incarnation == 2 && s.Layout.Epoch == 0 && len(s.Layout.Active()) == 3
	})
	rest("DELETE", "?force=true", "")
	rest("PUT", "?numInitialSegments=2", "")
	await("recreated at once", func(s *Snapshot) bool {
		return s.State == Live && s.Incarnation == 3 && len(s.Layout.Active()) == 2
	})
	if s, err := Lookup(ctx, w, cache.opts.Topic); err != nil || s.State != Live || s.Layout.Active()[1].Topic(s.Topic) != "segment://public/default/"+name+"/8000-ffff-1" {
		t.Errorf("look-up: %+v, %v", s, err)
	}
	if s, err := Lookup(ctx, w, cache.opts.Topic+"-not"); err != nil || s.State != Missing {
		t.Errorf("look-up of a missing topic: %+v, %v", s, err)
	}
	rest("DELETE", "", "")
	await("deleted without force", func(s *Snapshot) bool { return s.State == Missing })
	stop()
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}
