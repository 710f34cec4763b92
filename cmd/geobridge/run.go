package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/bridge"
	"github.com/geobridge/geobridge/internal/httpapi"
)

// runOptions is what the command line adds to the configuration.
type runOptions struct {
	Pair   config.Pair
	Logger *slog.Logger
	Build  buildInfo
}

// runBridge runs until ctx ends and all is drained. An [exitError] in what it returns decides the exit code.
func runBridge(ctx context.Context, cfg *config.Config, opts runOptions) error {
	board, err := bridge.NewBoard(cfg, opts.Pair, opts.Build.Version)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(board.Collector(opts.Build.Revision), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b, err := bridge.New(cfg, bridge.Options{Pair: opts.Pair, Board: board, Registerer: registry, Logger: opts.Logger})
	if err != nil {
		return usageError(err)
	}
	ln, err := httpapi.Listen(ctx, cfg.HTTP.Listen)
	if err != nil {
		return err
	}
	opts.Logger.Info("geobridge runs", "version", opts.Build.Version, "group", cfg.Group, "instance", cfg.Instance,
		"pair", opts.Pair.String(), "mappings", len(cfg.MappingsOf(opts.Pair)), "http", ln.Addr().String())
	server := httpapi.New(httpapi.Options{Board: board, Gatherer: registry, Logger: opts.Logger, AcceptGap: func(mapping string) error {
		if err := b.Resume(mapping); err != nil {
			return fmt.Errorf("%w: %s", httpapi.ErrNoMapping, mapping)
		}
		return nil
	}})
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
		return b.Run(ctx)
	})
	err = group.Wait()
	if errors.Is(err, bridge.ErrNotDrained) {
		return &exitError{code: exitDeadline, err: err}
	}
	return err
}
