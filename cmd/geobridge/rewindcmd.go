package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
)

func (a app) rewindCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rewind MAPPING --to earliest|TIME|AGO",
		Short: "Set a mapping back, so that what it has copied is copied again",
		Long: `Set a mapping back to a point in the past. Its next start copies everything after that point A SECOND TIME: also what the
target still has, and behind what is there. It is for a target that has lost data, and for applications that can take
duplicates.

--to is earliest (all that the source still holds), a time like 2026-11-30T03:00:00Z (what was published then or later), or
how long ago, like 90m or 2d. With --segment N it may be an entry of that segment, LEDGER:ENTRY, too; only that segment goes
back then, and those that came of it.

Without --yes nothing is changed, and what would be copied again is shown. No instance may serve the mapping meanwhile: stop
them, or take the mapping out of their configuration and restart them; then name a file that still has it with --config. To find a
time, the segments are read from their beginning up to there.

The exit code is 0 if it is done, or was only shown; 3 if an instance serves the mapping, or if it cannot be set back; 4 if a
cluster could not be asked. After a failure, say it again.`,
		Args: cobra.ExactArgs(1),
	}
	path := a.configFlag(cmd)
	flags := cmd.Flags()
	to := flags.String("to", "", "where to go back to")
	segment := flags.Uint64("segment", 0, "of the source: only this one, and those that came of it")
	yes := flags.Bool("yes", false, "do it")
	output := flags.StringP("output", "o", "table", "table or json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o := replicate.RewindOptions{Yes: *yes}
		if flags.Changed("segment") {
			o.Segment = segment
		}
		var err error
		if o.To, err = point(*to, time.Now()); err != nil {
			return usageError(err)
		}
		switch {
		case *output != "table" && *output != "json":
			return usageError(fmt.Errorf("-o must be table or json, not %q", *output))
		case o.To.Position != nil && o.Segment == nil:
			return usageError(errors.New("--to LEDGER:ENTRY needs --segment"))
		}
		return a.upkeep(cmd, *path, args[0], func(ctx context.Context, u *replicate.Upkeep) error {
			r, err := u.Rewind(ctx, o)
			if r == nil {
				return err
			}
			text := func(p *printer) { writeRewinding(p, r) }
			if perr := a.print(*output, text, struct {
				Schema int `json:"schema"`
				*replicate.Rewinding
			}{1, r}); perr != nil {
				return perr
			}
			if err == nil && !*yes {
				fmt.Fprintln(a.stderr, "geobridge: nothing was changed: add --yes to rewind it")
			}
			return err
		})
	}
	return cmd
}

// point reads --to.
func point(s string, now time.Time) (p replicate.Point, err error) {
	const form = "--to must be earliest, a time like 2026-11-30T03:00:00Z, or how long ago, like 90m or 2d"
	switch {
	case s == "":
		return p, errors.New(form)
	case s == "earliest":
		return p, nil
	case strings.Contains(s, "T"):
		p.Time, err = time.Parse(time.RFC3339, s)
	case strings.Contains(s, ":"):
		var at pulsar.MessageID
		at, err = pulsar.ParseMessageID(s)
		p.Position = &at
	default:
		var ago time.Duration
		ago, err = config.ParseDuration(s)
		p.Time = now.Add(-ago)
	}
	if err != nil {
		return p, fmt.Errorf("%s, not %q", form, s)
	}
	if p.Time.After(now) {
		return p, fmt.Errorf("--to %s lies in the future", s)
	}
	return p, nil
}

func writeRewinding(p *printer, r *replicate.Rewinding) {
	p.line("%s: %v to %v", r.Mapping, r.From, r.To)
	again, back := "would be copied again", "would go"
	if r.Done {
		again, back = "are copied again by the next start", "goes"
	}
	for _, l := range r.Lanes {
		name := fmt.Sprintf("  segment %d  %s", l.Segment, l.Range)
		if l.Sealed {
			name += " sealed"
		}
		switch {
		case l.Back == "":
			p.line("%s: stays: %s", name, l.Why)
		case l.Why != "":
			p.line("%s: %s from %s back to %s, %s: %d entries", name, back, l.Stands, l.Back, l.Why, l.Entries)
		default:
			p.line("%s: %s from %s back to %s: %d entries", name, back, l.Stands, l.Back, l.Entries)
		}
	}
	if len(r.Gone) > 0 {
		p.line("  segments %s have left the source, and what they held cannot be brought back", ranges(r.Gone))
	}
	if len(r.Lanes) > 0 {
		p.line("  %d entries after %s %s, also what the target still has, and behind what is there", r.Entries, r.Point, again)
	}
}

// ranges writes ascending numbers like 0-3, 7.
func ranges(ids []uint64) string {
	var out []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if j > i {
			out = append(out, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		} else {
			out = append(out, fmt.Sprint(ids[i]))
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}
