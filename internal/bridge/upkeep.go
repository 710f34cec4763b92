package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/admin"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
)

// UpkeepOptions is what is needed besides the configuration.
type UpkeepOptions struct {
	Logger *slog.Logger
	// Tell is told of each step, for people to read.
	Tell func(format string, args ...any)
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // may be nil
}

// NewUpkeep is for who takes care of a mapping that nobody serves. It contacts
// nothing; end closes its connections.
func NewUpkeep(cfg *config.Config, m config.Mapping, o UpkeepOptions) (u *replicate.Upkeep, end func(), err error) {
	source, closeSource, err := newCaretaker(cfg.Clusters[m.From.Cluster], m.From.Topic, o)
	if err != nil {
		return nil, nil, err
	}
	target, closeTarget, err := newCaretaker(cfg.Clusters[m.To.Cluster], m.To.Topic, o)
	if err != nil {
		closeSource()
		return nil, nil, err
	}
	env := &replicate.Env{
		Mapping: m.Name, Subscription: m.Subscription, Instance: cfg.Instance, Source: source, Target: target,
		CheckpointTopic: replicate.CheckpointTopic(StateNamespace(cfg, m.To.Topic), cfg.Group),
		ParkingTopic:    replicate.ParkingTopic(StateNamespace(cfg, m.From.Topic), cfg.Group),
		Rules:           replicate.Rules{SourceCluster: source.Cluster, TargetCluster: target.Cluster, ForwardReplicated: m.ForwardReplicated},
		Log:             o.Logger,
	}
	u = replicate.NewUpkeep(env, watcher{source.Client}, source.Admin.(adminAdapter), target.Admin.(adminAdapter), o.Tell)
	return u, func() {
		closeSource()
		closeTarget()
	}, nil
}

// newCaretaker makes one end of a mapping, without a cache of its layout.
func newCaretaker(c config.Cluster, topic string, o UpkeepOptions) (side replicate.Side, end func(), err error) {
	opts, err := clientOptions(c, o.Logger, o.Dial)
	if err != nil {
		return side, nil, err
	}
	rest, err := newAdmin(c, opts, o.Logger, o.Dial)
	if err != nil {
		return side, nil, err
	}
	client, err := pulsar.New(opts)
	if err != nil {
		return side, nil, err
	}
	side = replicate.Side{Key: c.Key, Cluster: c.ClusterName, Topic: topic, Client: client, Admin: adminAdapter{rest}}
	return side, func() {
		_ = client.Close() // never fails
		rest.Close()
	}, nil
}

// Holding asks the segments for names only where somebody is attached.
func (a adminAdapter) Holding(ctx context.Context, topic, subscription string) (h replicate.Holding, err error) {
	subs, err := a.Client.Subscriptions(ctx, topic)
	if errors.Is(err, admin.ErrNotFound) {
		return h, nil
	}
	sub, there := subs[subscription]
	if err != nil || !there {
		return h, err
	}
	h = replicate.Holding{There: true, Recorded: sub.Type == admin.TypeStream, Segments: len(sub.Segments), Backlog: sub.Backlog, Backlogs: map[uint64]int64{}}
	at := map[string][]string{} // segments by consumer
	for _, id := range slices.Sorted(maps.Keys(sub.Segments)) {
		h.Backlogs[id] = sub.Segments[id].Backlog
		if sub.Segments[id].Consumers == 0 {
			continue
		}
		stats, err := a.SegmentStats(ctx, topic, id)
		if err != nil && !errors.Is(err, admin.ErrNotFound) {
			return h, err
		}
		names := stats.Subscriptions[subscription].Consumers
		if len(names) == 0 { // gone since, or not told
			names = []admin.SegmentConsumer{{Name: "a consumer"}}
		}
		for _, c := range names {
			at[c.Name] = append(at[c.Name], strconv.FormatUint(id, 10))
		}
	}
	for name, segments := range at {
		h.Attached = append(h.Attached, fmt.Sprintf("%s (segments %s)", name, strings.Join(segments, ", ")))
	}
	for _, c := range sub.Registered {
		if len(at[c.Name]) == 0 {
			h.Attached = append(h.Attached, c.Name)
		}
	}
	slices.Sort(h.Attached)
	return h, nil
}

// Exists: brokers tell a topic that is not there by its subscriptions.
func (a adminAdapter) Exists(ctx context.Context, topic string) (bool, error) {
	_, err := a.RegularSubscriptions(ctx, topic)
	if errors.Is(err, admin.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
