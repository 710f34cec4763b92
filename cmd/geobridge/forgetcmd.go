package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geobridge/geobridge/replicate"
)

func (a app) forgetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget MAPPING",
		Short: "Remove what geobridge made for a mapping, so that it can start anew",
		Long: `Remove what geobridge made for a mapping: its subscription at the source, the guard at the target, the records of its
lanes, and the record of how it began. Its next start is that of a new mapping: with start: earliest all that the source
still holds is copied again, with start: latest what was not copied yet is left out.

Without --yes nothing is changed, and what would be removed is shown. No instance may serve the mapping: stop them, or
take the mapping out of their configuration and restart them; then name a file that still has it with --config. Parked entries
stay, and so do geobridge's own topics, which other mappings use.

The exit code is 0 if it is done, was done before, or was only shown; 3 if an instance serves the mapping, or if what is
there may be another deployment's; 4 if a cluster could not be asked. After a failure, say it again.`,
		Args: cobra.ExactArgs(1),
	}
	path := a.configFlag(cmd)
	yes := cmd.Flags().Bool("yes", false, "do it")
	output := cmd.Flags().StringP("output", "o", "table", "table or json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *output != "table" && *output != "json" {
			return usageError(fmt.Errorf("-o must be table or json, not %q", *output))
		}
		return a.upkeep(cmd, *path, args[0], func(ctx context.Context, u *replicate.Upkeep) error {
			f, err := u.Forget(ctx, *yes)
			if f != nil {
				text := func(p *printer) { writeForgetting(p, f) }
				if err := a.print(*output, text, struct {
					Schema int `json:"schema"`
					*replicate.Forgetting
				}{1, f}); err != nil {
					return err
				}
			}
			if err == nil && !*yes && !f.Nothing() {
				fmt.Fprintln(a.stderr, "geobridge: nothing was changed: add --yes to forget it")
			}
			return err
		})
	}
	return cmd
}

func writeForgetting(p *printer, f *replicate.Forgetting) {
	p.line("%s: %v to %v", f.Mapping, f.From, f.To)
	verb := "would be removed"
	if f.Done {
		verb = "removed"
	}
	things := f.Things
	if f.Nothing() {
		p.line("  nothing was there")
		things = nil
	}
	for _, t := range things {
		fate := verb
		if !t.There {
			fate = "was not there"
		}
		name := t.Name
		if name != "" {
			name += " on "
		}
		p.line("  %-13s %s%s, %s: %s", t.What, name, t.Topic, t.Cluster, fate)
		if t.There && t.Detail != "" {
			p.line("  %-13s %s", "", t.Detail)
		}
	}
	if f.Backlog > 0 {
		p.line("  not copied    %d entries at the source", f.Backlog)
	}
	p.line("  parked        %d entries stay on %s, %s", f.Parked, f.ParkingTopic, f.From.Cluster)
}
