package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geobridge/geobridge/internal/admin"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/status"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// boardAdapter lets mappings and lanes show themselves on the status board.
type boardAdapter struct{ *status.Board }

func (b boardAdapter) Mapping(name, state, reason string) {
	b.SetMapping(name, status.State(state), reason)
}

func (b boardAdapter) Lane(mapping, id string, s replicate.LaneStatus) {
	b.SetLane(mapping, id, status.State(s.State), s.Reason, status.LaneFacts{
		Segment: s.Segment, Range: s.Range, Frontier: s.Frontier,
		InflightEntries: s.Entries, InflightBytes: int64(s.Bytes), Targets: s.Targets,
	})
}

func (b boardAdapter) LaneGone(mapping, id string) { b.RemoveLane(mapping, id) }

// adminAdapter gives replicate what it needs of the admin client.
type adminAdapter struct{ *admin.Client }

func (a adminAdapter) Subscriptions(ctx context.Context, topic string) (map[string]replicate.Subscription, error) {
	subs, err := a.Client.Subscriptions(ctx, topic)
	out := make(map[string]replicate.Subscription, len(subs))
	for name, s := range subs {
		out[name] = replicate.Subscription{Recorded: s.Type == admin.TypeStream, Backlog: s.Backlog}
	}
	return out, err
}

func (a adminAdapter) Keeping(ctx context.Context, namespace string) (replicate.Keeping, error) {
	p, err := a.NamespacePolicies(ctx, namespace)
	if errors.Is(err, admin.ErrUnknown) {
		return replicate.Keeping{}, nil
	}
	set := func(n *int64) bool { return n != nil && *n != 0 }
	k := replicate.Keeping{Known: err == nil, Retention: set(p.RetentionMinutes) && set(p.RetentionMB), QuotaLimit: len(p.BacklogQuota) > 0,
		Deduplication: p.Deduplication != nil && *p.Deduplication}
	if p.TTLSeconds != nil {
		k.TTL = time.Duration(*p.TTLSeconds) * time.Second
	}
	return k, err
}

func (a adminAdapter) Holds(ctx context.Context, topic, subscription string) (bool, error) {
	subs, err := a.RegularSubscriptions(ctx, topic)
	if errors.Is(err, admin.ErrNotFound) {
		return false, nil
	}
	return slices.Contains(subs, subscription), err
}

// ClusterName is empty where the role may not ask.
func (a adminAdapter) ClusterName(ctx context.Context) (string, error) {
	name, err := a.Client.ClusterName(ctx)
	if errors.Is(err, admin.ErrUnknown) || errors.Is(err, admin.ErrUnauthorized) {
		return "", nil
	}
	return name, err
}

// watcher gives layoutcache the watch sessions of a client.
type watcher struct{ client *pulsar.Client }

func (w watcher) WatchLayout(ctx context.Context, topic string, update func(layoutcache.Update)) error {
	return notFound(w.client.WatchLayout(ctx, topic, func(u pulsar.LayoutUpdate) { update(layoutUpdate(u)) }))
}

func (w watcher) WatchTopics(ctx context.Context, namespace string, event func(layoutcache.TopicsEvent)) error {
	return w.client.WatchTopics(ctx, namespace, func(u pulsar.TopicsUpdate) {
		event(layoutcache.TopicsEvent{Snapshot: u.Snapshot, Topics: u.Topics, Added: u.Added, Removed: u.Removed})
	})
}

func notFound(err error) error {
	if errors.Is(err, pulsar.ErrTopicNotFound) {
		return fmt.Errorf("%w: %w", layoutcache.ErrTopicNotFound, err)
	}
	return err
}

func layoutUpdate(u pulsar.LayoutUpdate) layoutcache.Update {
	out := layoutcache.Update{Topic: u.Topic, Epoch: u.Epoch, Brokers: u.Brokers, ControllerURL: u.ControllerURL, Err: notFound(u.Err)}
	for _, s := range u.Segments {
		out.Segments = append(out.Segments, reroute.Segment{
			ID: s.ID, Range: reroute.HashRange{Start: s.HashStart, End: s.HashEnd}, Splits: s.EntryBucketSplits,
			Sealed: s.Sealed, LegacyTopic: s.LegacyTopic, Parents: s.Parents, Children: s.Children,
			CreatedAtMs: s.CreatedAtMs, SealedAtMs: s.SealedAtMs,
		})
	}
	return out
}
