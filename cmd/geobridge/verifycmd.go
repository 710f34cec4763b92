package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/bridge"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/verify"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

func (a app) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify MAPPING | --all",
		Short: "Read both sides of a mapping and prove them equal, or name what differs",
		Long: `Read both sides of a mapping and prove them equal, or name what differs.

What an application sees of each message is compared, and the order of each key, whatever segments and batches the
messages are in. Nothing is written and nothing is left behind on either cluster; a bridge may run meanwhile. What one
side does not hold any more (trimmed), or not yet (in flight), is left out, counted and shown.

The exit code is 0 if both are equal, 3 if they differ or if there was nothing to compare, 4 if a cluster could not be asked.`,
		Args: cobra.MaximumNArgs(1),
	}
	path := a.configFlag(cmd)
	flags := cmd.Flags()
	pair := flags.String("pair", "", "the two clusters of --all, `A,B`, where the mappings are of more")
	all := flags.Bool("all", false, "all mappings of the pair, one after the other")
	output := flags.StringP("output", "o", "table", "table or json")
	var o verify.Options
	flags.IntVar(&o.Limit, "limit", 20, "how many faulty messages to name")
	flags.BoolVar(&o.Untrimmed, "untrimmed", false, "the target was never trimmed: what it lacks at its beginning is lost, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *output != "table" && *output != "json":
			return usageError(fmt.Errorf("-o must be table or json, not %q", *output))
		case *all == (len(args) == 1):
			return usageError(errors.New("name one mapping, or use --all"))
		case o.Limit < 0:
			return usageError(errors.New("--limit must not be negative"))
		}
		cfg, err := a.load(*path)
		if err != nil {
			return err
		}
		mappings, err := chosen(cfg, *pair, args)
		if err != nil {
			return usageError(err)
		}
		if o.Limit == 0 {
			o.Limit = -1 // none
		}
		reports, err := a.verify(contextOf(cmd), cfg, mappings, o)
		if err != nil {
			return err
		}
		if err := a.printReports(reports, *output == "json"); err != nil {
			return err
		}
		return verdictOf(reports)
	}
	return cmd
}

// chosen are the mappings that the command line names.
func chosen(cfg *config.Config, pair string, args []string) ([]config.Mapping, error) {
	of := cfg.Mappings
	if pair != "" || len(args) == 0 {
		p, err := cfg.SelectPair(pair)
		if err != nil {
			return nil, err
		}
		of = cfg.MappingsOf(p)
	}
	if len(args) == 0 {
		if len(of) == 0 {
			return nil, errors.New("there are no mappings to verify")
		}
		return of, nil
	}
	var names []string
	for _, m := range of {
		if m.Name == args[0] {
			return []config.Mapping{m}, nil
		}
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("no mapping %q: there are %v", args[0], names)
}

// verify compares one mapping after the other. Clusters that cannot be asked are in the reports.
func (a app) verify(ctx context.Context, cfg *config.Config, mappings []config.Mapping, o verify.Options) ([]*verify.Report, error) {
	clients := map[string]*pulsar.Client{}
	defer func() {
		for _, c := range clients {
			_ = c.Close() // never fails
		}
	}()
	side := func(e config.Endpoint) (verify.Side, error) {
		cl := cfg.Clusters[e.Cluster]
		if clients[e.Cluster] == nil {
			client, err := bridge.NewClient(cl, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				return verify.Side{}, usageError(err)
			}
			clients[e.Cluster] = client
		}
		client := clients[e.Cluster]
		return verify.Side{Key: cl.Key, Cluster: cl.ClusterName, Topic: e.Topic, Client: client,
			Layout: func(ctx context.Context) (*reroute.Layout, error) { return bridge.Layout(ctx, client, e.Topic) }}, nil
	}
	var reports []*verify.Report
	for _, m := range mappings {
		source, err := side(m.From)
		if err != nil {
			return nil, err
		}
		target, err := side(m.To)
		if err != nil {
			return nil, err
		}
		o.Progress = &verify.Progress{}
		end := a.showProgress(m.Name, o.Progress)
		r, err := verify.Run(ctx, verify.Mapping{
			Name: m.Name, Subscription: m.Subscription, Source: source, Target: target, ForwardReplicated: m.ForwardReplicated,
			CheckpointTopic: replicate.CheckpointTopic(bridge.StateNamespace(cfg, m.To.Topic), cfg.Group),
			ParkingTopic:    replicate.ParkingTopic(bridge.StateNamespace(cfg, m.From.Topic), cfg.Group),
		}, o)
		end()
		if err != nil {
			r = &verify.Report{Mapping: m.Name, Result: verify.NotAsked, Reason: err.Error(), Ranges: []verify.Range{}, Named: []verify.Fault{},
				From: replicate.Ref{Cluster: source.Key, Topic: source.Topic}, To: replicate.Ref{Cluster: target.Key, Topic: target.Topic}}
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func (a app) printReports(reports []*verify.Report, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Schema   int              `json:"schema"`
			Mappings []*verify.Report `json:"mappings"`
		}{1, reports})
	}
	for _, r := range reports {
		if err := r.WriteText(a.stdout); err != nil {
			return err
		}
	}
	return nil
}

// verdictOf is the worst answer: a difference counts more than what nobody could tell.
func verdictOf(reports []*verify.Report) error {
	var no, unasked []string
	for _, r := range reports {
		switch r.Result {
		case verify.Differs:
			no = append(no, r.Mapping+" differs")
		case verify.NothingCompared:
			no = append(no, "nothing of "+r.Mapping+" could be compared")
		case verify.NotAsked:
			unasked = append(unasked, r.Mapping+": "+r.Reason)
		}
	}
	switch {
	case len(no) > 0:
		return &exitError{exitNo, fmt.Errorf("verify: %v", no)}
	case len(unasked) > 0:
		return &exitError{exitNotAsked, fmt.Errorf("verify: %v", unasked)}
	}
	return nil
}
