package verify

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// maxKey is how much of a key a table shows, in bytes.
const maxKey = 48

// WriteText writes a report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Mapping, r.verdict())
	if r.Result != NotAsked {
		fmt.Fprintf(&b, "  source  %v: %d entries, %s%s\n", r.From, r.Source.Entries, size(r.Source.Bytes), r.Source.left())
		fmt.Fprintf(&b, "  target  %v: %d entries, %s%s\n", r.To, r.Target.Entries, size(r.Target.Bytes), r.Target.left())
	}
	r.writeRanges(&b)
	r.writeFaults(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) verdict() string {
	differing := r.differing()
	switch r.Result {
	case Equal:
		return fmt.Sprintf("EQUAL: %s in %d ranges of the key space, in %.1f s%s",
			count(r.Source.Compared, "message"), len(r.Ranges), r.Seconds, r.left())
	case NothingCompared:
		return "NOTHING COMPARED, which proves nothing: " + r.Reason
	case NotAsked:
		return "COULD NOT ASK: " + r.Reason
	}
	return fmt.Sprintf("DIFFERS in %d of %d ranges of the key space, %s compared, in %.1f s: %s%s",
		len(differing), len(r.Ranges), count(r.Source.Compared, "message"), r.Seconds, r.Faults, r.left())
}

// left says in short what the answer does not rest on, of both sides; the lines
// below it say which.
func (r *Report) left() string {
	s, t := &r.Source, &r.Target
	flying := some{s.InFlight, "entries in flight, at most"}
	if s.InFlight == 0 {
		flying = some{t.InFlight, "in flight"}
	}
	return notCompared(some{s.Trimmed + t.Trimmed + t.Early, "trimmed"}, flying,
		some{s.Parked, "parked"}, some{t.Unreadable, "damaged entries"})
}

// String lists the kinds that there are.
func (c FaultCounts) String() string {
	var parts []string
	for k, n := range [...]int64{c.Lost, c.Duplicated, c.Altered, c.OutOfOrder, c.Unknown} {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, Kind(k)))
		}
	}
	if len(parts) == 0 {
		return "no message was found at fault"
	}
	return strings.Join(parts, ", ")
}

func (r *Report) writeRanges(b *strings.Builder) {
	all := r.differing()
	if len(all) == 0 {
		return
	}
	const most = 16
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\n  RANGE\tSOURCE\tTARGET\tOUT OF ORDER\tSEARCHED")
	for i, x := range all {
		if i == most {
			fmt.Fprintf(t, "  and %d more\n", len(all)-most)
			break
		}
		fmt.Fprintf(t, "  %s\t%d\t%d\t%d\t%.0f %%\n", x.Range, x.Source.Messages, x.Target.Messages, x.OutOfOrder, x.Narrowed*100)
	}
	_ = t.Flush() // a strings.Builder never fails
}

func (r *Report) writeFaults(b *strings.Builder) {
	if len(r.Named) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\n  FAULT\tKEY\tAT THE SOURCE\tAT THE TARGET\tWHAT")
	for i := range r.Named {
		f := &r.Named[i]
		var places []string
		for _, p := range f.Target {
			places = append(places, p.String())
		}
		if places == nil {
			places = []string{"-"}
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", f.Kind, f.key(), f.Source, strings.Join(places, " and "), f.what())
	}
	_ = t.Flush() // a strings.Builder never fails
	if more := r.Faults.Total() - int64(len(r.Named)); more > 0 {
		fmt.Fprintf(b, "  and %d more: --limit names more of them\n", more)
	}
}

func (f *Fault) key() string {
	if f.Key == nil {
		return "-"
	}
	key := *f.Key
	if len(key) > maxKey {
		return fmt.Sprintf("%q…", key[:maxKey])
	}
	return fmt.Sprintf("%q", key)
}

func (f *Fault) what() string {
	if f.Before != nil {
		return fmt.Sprintf("behind %s, which is at %s", f.Before.Source, f.Before.Target[0])
	}
	return strings.Join(f.Fields, ", ")
}

// left says what was not compared.
func (c *SourceCounts) left() string {
	return notCompared(
		some{c.NotForwarded, "not for the target"}, some{c.Parked, "parked"},
		some{c.Trimmed, "older than what the target holds"}, some{c.InFlight, "entries in flight, at most"})
}

func (c *TargetCounts) left() string {
	return notCompared(
		some{c.Foreign, "of others"}, some{c.Other, "of other mappings or of source segments that are gone"},
		some{c.Trimmed, "older than what the source holds"}, some{c.Parked, "parked"}, some{c.InFlight, "in flight"},
		some{c.Early, "without a key, from before the target holds all of their segment"}, some{c.Unreadable, "damaged entries"})
}

type some struct {
	n    int64
	what string
}

func notCompared(all ...some) string {
	var parts []string
	for _, s := range all {
		if s.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", s.n, s.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; not compared: " + strings.Join(parts, ", ")
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
