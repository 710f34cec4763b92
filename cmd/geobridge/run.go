package main

import (
	"context"
	"errors"
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
	bridge, err := newBridge(cfg, opts, board, registry)
	if err != nil {
		return usageError(err)
	}
	ln, err := httpapi.Listen(ctx, cfg.HTTP.Listen)
	if err != nil {
		return err
	}
	opts.Logger.Info("geobridge runs", "version", opts.Build.Version, "group", cfg.Group, "instance", cfg.Instance,
		"pair", opts.Pair.String(), "mappings", len(opts.Mappings), "http", ln.Addr().String())
	server := httpapi.New(httpapi.Options{Board: board, Gatherer: registry, Logger: opts.Logger})
	// The endpoints outlive the bridge, so that the draining can be watched.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return server.Run(serving, ln) })
	group.Go(func() error {
		defer stopServing()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		context.AfterFunc(serving, stop) // without its endpoints the process must not go on
		context.AfterFunc(ctx, board.SetStopping)
		return bridge.Run(ctx)
	})
	err = group.Wait()
	if errors.Is(err, errNotDrained) {
		return &exitError{code: exitDeadline, err: err}
	}
	return err
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
