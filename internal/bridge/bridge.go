// Package bridge puts the parts of the daemon together: two clusters, the
// mappings between them, and what all of these show of themselves. It knows
// neither files nor flags nor the process, so that a test or the demo can run
// one, or several, inside itself.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/status"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/replicate"
)

// Options is what is needed besides the configuration.
type Options struct {
	Pair       config.Pair // the clusters to connect; their mappings are served
	Board      *status.Board
	Registerer prometheus.Registerer
	Logger     *slog.Logger
	// Dial replaces net.Dialer, for the binary protocol and for REST.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Bridge is everything that copies: two clusters and the mappings between them.
type Bridge struct {
	cfg      *config.Config
	clusters map[string]*cluster
	caches   []*layoutcache.Cache
	records  map[string]*replicate.Records // by cluster and checkpoint topic
	scans    map[string]*replicate.Scans   // by cluster
	mappings []*replicate.Mapping
	budget   *replicate.Budget
	board    *status.Board
	log      *slog.Logger
}

// New makes a bridge and contacts nothing. An error means that the configuration
// is wrong.
func New(cfg *config.Config, o Options) (*Bridge, error) {
	reconnects := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "geobridge", Name: "reconnects_total", Help: "Connections lost or not made, by cause.",
	}, []string{"cluster", "reason"})
	o.Registerer.MustRegister(reconnects)
	b := &Bridge{
		cfg: cfg, clusters: map[string]*cluster{}, records: map[string]*replicate.Records{}, scans: map[string]*replicate.Scans{},
		budget: replicate.NewBudget(cfg.MemoryLimit), board: o.Board, log: o.Logger,
	}
	for _, key := range []string{o.Pair.A, o.Pair.B} {
		cl, err := newCluster(cfg.Clusters[key], o, reconnects)
		if err != nil {
			return nil, err
		}
		b.clusters[key], b.scans[key] = cl, replicate.NewScans(cl.client)
	}
	metrics := replicate.NewMetrics(o.Registerer, b.budget)
	for _, m := range cfg.MappingsOf(o.Pair) {
		b.mappings = append(b.mappings, b.newMapping(m, metrics))
	}
	return b, nil
}

func (b *Bridge) newMapping(m config.Mapping, metrics *replicate.Metrics) *replicate.Mapping {
	source, target := b.side(m.From), b.side(m.To)
	checkpoint := replicate.CheckpointTopic(StateNamespace(b.cfg, m.To.Topic), b.cfg.Group)
	env := &replicate.Env{
		Mapping: m.Name, Subscription: m.Subscription, Instance: b.cfg.Instance,
		Source: source, Target: target, CheckpointTopic: checkpoint,
		ParkingTopic: replicate.ParkingTopic(StateNamespace(b.cfg, m.From.Topic), b.cfg.Group),
		Rules: replicate.Rules{
			SourceCluster: source.Cluster, TargetCluster: target.Cluster,
			SplitMessages: m.Split == config.SplitMessage, OriginalProducer: m.ProducerName == config.ProducerOriginal,
			ForwardReplicated: m.ForwardReplicated,
		},
		StopPoison: m.OnUnroutable == config.UnroutableStop, StopGap: m.OnGap == config.GapStop, FromLatest: m.Start == config.StartLatest,
		StopEvidence: m.OnLostEvidence == config.EvidenceStop, CheckpointInterval: b.cfg.CheckpointInterval,
		StallTimeout: b.cfg.StallTimeout,
		Budget:       b.budget, Records: b.recordsOf(m.To.Cluster, checkpoint), Scans: b.scans[m.To.Cluster], ParkingScans: b.scans[m.From.Cluster], Board: boardAdapter{b.board}, Log: b.log,
	}
	return replicate.NewMapping(env, replicate.Policy{Latest: m.Start == config.StartLatest, Guard: m.Guard},
		watcher{b.clusters[m.From.Cluster].client}, metrics)
}

func (b *Bridge) side(e config.Endpoint) replicate.Side {
	cl := b.clusters[e.Cluster]
	cache := layoutcache.New(layoutcache.Options{
		Topic: e.Topic, Watcher: watcher{cl.client}, Namespace: cl.namespace(replicate.NamespaceOf(e.Topic)), Logger: cl.log,
	})
	b.caches = append(b.caches, cache)
	return replicate.Side{Key: cl.Key, Cluster: cl.ClusterName, Topic: e.Topic, Client: cl.client, Admin: adminAdapter{cl.admin}, Layout: cache}
}

func (b *Bridge) recordsOf(cluster, topic string) *replicate.Records {
	key := cluster + " " + topic
	if b.records[key] == nil {
		b.records[key] = replicate.NewRecords(b.clusters[cluster].client, topic, b.log)
	}
	return b.records[key]
}

// ErrNotDrained is a stop that ran out of time. Nothing is lost by it.
var ErrNotDrained = errors.New("not everything was drained within shutdown_timeout; nothing is lost, the rest is copied after the next start")

// Run copies until ctx ends, then drains for shutdown_timeout at most
// (ErrNotDrained). It is called once.
func (b *Bridge) Run(ctx context.Context) error {
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
		return ErrNotDrained
	}
	b.log.Info("drained")
	return nil
}

// ErrUnknownMapping: no mapping of that name is served here.
var ErrUnknownMapping = errors.New("no such mapping")

// Resume accepts what a mapping, or any of its lanes, holds for: lost source data,
// or lost evidence.
func (b *Bridge) Resume(mapping string) error {
	for _, m := range b.mappings {
		if m.Name() == mapping {
			m.Resume()
			return nil
		}
	}
	return fmt.Errorf("%w: %s", ErrUnknownMapping, mapping)
}

// close ends all connections.
func (b *Bridge) close() {
	for _, cl := range b.clusters {
		_ = cl.client.Close() // never fails
		cl.admin.Close()
	}
}
