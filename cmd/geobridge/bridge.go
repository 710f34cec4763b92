package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/admin"
	"github.com/geobridge/geobridge/internal/status"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/replicate"
)

// bridge is everything that copies: two clusters and the mappings between them.
type bridge struct {
	cfg      *config.Config
	clusters map[string]*cluster
	caches   []*layoutcache.Cache
	records  map[string]*replicate.Records // by cluster and checkpoint topic
	mappings []*replicate.Mapping
	budget   *replicate.Budget
	board    *status.Board
	log      *slog.Logger
}

func newBridge(cfg *config.Config, opts runOptions, board *status.Board, reg prometheus.Registerer) (*bridge, error) {
	reconnects := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "geobridge", Name: "reconnects_total", Help: "Connections lost or not made, by cause.",
	}, []string{"cluster", "reason"})
	reg.MustRegister(reconnects)
	b := &bridge{
		cfg: cfg, clusters: map[string]*cluster{}, records: map[string]*replicate.Records{},
		budget: replicate.NewBudget(cfg.MemoryLimit), board: board, log: opts.Logger,
	}
	for _, key := range []string{opts.Pair.A, opts.Pair.B} {
		cl, err := newCluster(cfg.Clusters[key], board, reconnects, opts.Logger)
		if err != nil {
			return nil, err
		}
		b.clusters[key] = cl
	}
	metrics := replicate.NewMetrics(reg, b.budget)
	for _, m := range opts.Mappings {
		b.mappings = append(b.mappings, b.newMapping(m, metrics))
	}
	return b, nil
}

func (b *bridge) newMapping(m config.Mapping, metrics *replicate.Metrics) *replicate.Mapping {
	source, target := b.side(m.From), b.side(m.To)
	checkpoint := replicate.CheckpointTopic(b.stateNamespace(m.To.Topic), b.cfg.Group)
	env := &replicate.Env{
		Mapping: m.Name, Subscription: m.Subscription, Instance: b.cfg.Instance,
		Source: source, Target: target, CheckpointTopic: checkpoint,
		ParkingTopic: replicate.ParkingTopic(b.stateNamespace(m.From.Topic), b.cfg.Group),
		Rules: replicate.Rules{
			SourceCluster: source.Cluster, TargetCluster: target.Cluster,
			SplitMessages: m.Split == config.SplitMessage, OriginalProducer: m.ProducerName == config.ProducerOriginal,
			ForwardReplicated: m.ForwardReplicated,
		},
		StopPoison: m.OnUnroutable == config.UnroutableStop, CheckpointInterval: b.cfg.CheckpointInterval,
		Budget: b.budget, Records: b.recordsOf(m.To.Cluster, checkpoint), Board: boardAdapter{b.board}, Log: b.log,
	}
	return replicate.NewMapping(env, replicate.Policy{Latest: m.Start == config.StartLatest, Guard: m.Guard},
		watcher{b.clusters[m.From.Cluster].client}, metrics)
}

func (b *bridge) side(e config.Endpoint) replicate.Side {
	cl := b.clusters[e.Cluster]
	cache := layoutcache.New(layoutcache.Options{
		Topic: e.Topic, Watcher: watcher{cl.client}, Namespace: cl.namespace(replicate.NamespaceOf(e.Topic)), Logger: cl.log,
	})
	b.caches = append(b.caches, cache)
	return replicate.Side{Key: cl.Key, Cluster: cl.ClusterName, Topic: e.Topic, Client: cl.client, Admin: adminAdapter{cl.admin}, Layout: cache}
}

// stateNamespace is where geobridge's own topics live.
func (b *bridge) stateNamespace(topic string) string {
	if b.cfg.State.Namespace != "" {
		return b.cfg.State.Namespace
	}
	return replicate.NamespaceOf(topic)
}

func (b *bridge) recordsOf(cluster, topic string) *replicate.Records {
	key := cluster + " " + topic
	if b.records[key] == nil {
		b.records[key] = replicate.NewRecords(b.clusters[cluster].client, topic, b.log)
	}
	return b.records[key]
}

// errNotDrained becomes exit code 5.
var errNotDrained = errors.New("not everything was drained within shutdown_timeout; nothing is lost, the rest is copied after the next start")

// Run copies until ctx ends, then drains for shutdown_timeout at most.
func (b *bridge) Run(ctx context.Context) error {
	hard, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	var watches sync.WaitGroup
	watching, unwatch := context.WithCancel(hard)
	for _, cl := range b.clusters {
		watches.Go(func() { cl.connect(watching) })
		for _, ns := range cl.namespaces {
			watches.Go(func() { _ = ns.Run(watching) })
		}
	}
	for _, c := range b.caches {
		watches.Go(func() { _ = c.Run(watching) })
	}
	for _, r := range b.records {
		watches.Go(func() { _ = r.Run(watching) })
	}
	var mu sync.Mutex
	var failed error
	var mappings sync.WaitGroup
	for _, m := range b.mappings {
		mappings.Go(func() {
			err := m.Run(ctx, hard)
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		})
	}
	<-ctx.Done()
	b.log.Info("stopping: draining", "timeout", b.cfg.ShutdownTimeout)
	deadline := time.AfterFunc(b.cfg.ShutdownTimeout, func() {
		giveUp()
		b.close() // no close of a handle waits for a mute broker any more
	})
	mappings.Wait()
	deadline.Stop()
	unwatch()
	watches.Wait()
	b.close()
	if failed != nil {
		b.log.Error("not drained", "error", failed)
		return errNotDrained
	}
	b.log.Info("drained")
	return nil
}

// close ends all connections.
func (b *bridge) close() {
	for _, cl := range b.clusters {
		_ = cl.client.Close() // never fails
		cl.admin.Close()
	}
}

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

// ClusterName is empty where the role may not ask.
func (a adminAdapter) ClusterName(ctx context.Context) (string, error) {
	name, err := a.Client.ClusterName(ctx)
	if errors.Is(err, admin.ErrUnknown) || errors.Is(err, admin.ErrUnauthorized) {
		return "", nil
	}
	return name, err
}
