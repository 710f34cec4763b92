package main

import (
	"context"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/geobridge/geobridge/config"
)

func (a app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Copy, until SIGTERM or SIGINT",
		Long: "Copy what the configuration maps, until SIGTERM or SIGINT: then drain, acknowledge and stop.\n" +
			"A second signal ends the process at once; the next start recovers.",
		Args: cobra.NoArgs,
	}
	path := a.configFlag(cmd)
	pair := cmd.Flags().String("pair", "", "the two clusters to serve, `A,B`, where the mappings are of more")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.load(*path)
		if err != nil {
			return err
		}
		p, err := cfg.SelectPair(*pair)
		if err != nil {
			return usageError(err)
		}
		ctx, stop := signal.NotifyContext(context.WithoutCancel(contextOf(cmd)), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		context.AfterFunc(ctx, stop) // from the first signal on, a second has its usual effect
		return runBridge(ctx, cfg, runOptions{Pair: p, Logger: newLogger(a.stderr, cfg.Log), Build: a.build})
	}
	return cmd
}

func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

func newLogger(w io.Writer, l config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // config admits only levels that slog knows
	}
	opts := &slog.HandlerOptions{Level: level}
	if l.Format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
