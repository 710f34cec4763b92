package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/httpapi"
	"github.com/geobridge/geobridge/internal/status"
)

// runOptions is what the command line adds to the configuration.
type runOptions struct {
	Pair config.Pair
	// Mappings are those of Pair.
	Mappings []config.Mapping
	Logger   *slog.Logger
	Build    buildInfo
	Env      func(string) (string, bool)
}

// runBridge runs until ctx ends and all is drained. An [exitError] in what it returns decides the exit code.
func runBridge(ctx context.Context, cfg *config.Config, opts runOptions) error {
	board, registry, err := newBoard(cfg, opts)
	if err != nil {
		return err
	}
	ln, err := httpapi.Listen(ctx, cfg.HTTP.Listen)
	if err != nil {
		return err
	}
	opts.Logger.Info("geobridge runs", "version", opts.Build.Version, "group", cfg.Group, "instance", cfg.Instance,
		"pair", opts.Pair.String(), "mappings", len(opts.Mappings), "http", ln.Addr().String())
	server := httpapi.New(httpapi.Options{Board: board, Gatherer: registry, Logger: opts.Logger})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(ctx, ln) })
	return group.Wait()
}

// newBoard makes the board of everything that this process serves, and the registry that all metrics go to.
func newBoard(cfg *config.Config, opts runOptions) (*status.Board, *prometheus.Registry, error) {
	hash, err := cfg.Hash()
	if err != nil {
		return nil, nil, err
	}
	o := status.Options{
		Version: opts.Build.Version, ConfigHash: hash,
		Group: cfg.Group, Instance: cfg.Instance, Pair: opts.Pair.String(),
	}
	for _, key := range slices.Sorted(maps.Keys(cfg.Clusters)) {
		if key == opts.Pair.A || key == opts.Pair.B {
			o.Clusters = append(o.Clusters, status.Cluster{Name: key, ClusterName: cfg.Clusters[key].ClusterName})
		}
	}
	for _, m := range opts.Mappings {
		o.Mappings = append(o.Mappings, status.Mapping{
			Name: m.Name, Subscription: m.Subscription, From: status.Endpoint(m.From), To: status.Endpoint(m.To),
		})
	}
	board := status.NewBoard(o)
	registry := prometheus.NewRegistry()
	registry.MustRegister(board.Collector(opts.Build.Revision), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return board, registry, nil
}
