package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/geobridge/geobridge/internal/bridge"
	"github.com/geobridge/geobridge/replicate"
)

// upkeep does something to a mapping that nobody serves.
func (a app) upkeep(cmd *cobra.Command, path, mapping string, do func(context.Context, *replicate.Upkeep) error) error {
	cfg, err := a.load(path)
	if err != nil {
		return err
	}
	found, err := chosen(cfg, "", []string{mapping})
	if err != nil {
		return usageError(err)
	}
	u, end, err := bridge.NewUpkeep(cfg, found[0], bridge.UpkeepOptions{Logger: slog.New(slog.DiscardHandler),
		Tell: func(format string, args ...any) { fmt.Fprintf(a.stderr, mapping+": "+format+"\n", args...) }})
	if err != nil {
		return usageError(err)
	}
	defer end()
	ctx, stop := signal.NotifyContext(contextOf(cmd), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch err = do(ctx, u); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted: say it again to bring it to its end")
	case replicate.Refused(err):
		return &exitError{exitNo, err}
	}
	return &exitError{exitNotAsked, err}
}

// print writes a report to stdout, as a table or as JSON.
func (a app) print(output string, text func(*printer), report any) error {
	if output == "json" {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	p := &printer{w: a.stdout}
	text(p)
	return p.err
}

// printer writes lines until one fails.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
