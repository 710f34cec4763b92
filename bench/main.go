// Command bench measures geobridge next to the bridge that one would write in
// fifty lines on Pulsar's Java V5 client (e2e/witness/java/Bridge.java), on
// real brokers on loopback.
//
// Both copy the same backlog between the same two clusters, layouts aligned,
// one right after the other, in pairs whose order alternates; what counts is
// the median of the pairs' ratios, for the machine has other things to do.
// The time of a run goes from the first stored byte at the target to the last
// one, so neither pays for its start.
//
//	go run ./bench                 400 MB, 3 pairs
//	go run ./bench -mb 100 -pairs 5
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	mb := flag.Int("mb", 400, "size of the backlog in MB (10^6 bytes)")
	pairs := flag.Int("pairs", 3, "pairs of runs")
	binary := flag.String("binary", filepath.Join("bin", "geobridge"), "the geobridge to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *mb, *pairs, *binary); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, mb, pairs int, binary string) (err error) {
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("build it first (make build): %w", err)
	}
	dir, err := os.MkdirTemp("", "geobridge-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stage, err := newStage(ctx, dir, binary)
	if err != nil {
		return err
	}
	defer stage.close()
	fmt.Fprintf(os.Stderr, "bench: publishing %d MB\n", mb)
	if err := stage.fill(ctx, mb); err != nil {
		return err
	}
	fmt.Fprintf(out, "backlog: %d entries, %.0f MB stored, 2 segments of 2 buckets on both sides\n\n", stage.entries, float64(stage.bytes)/1e6)
	var ours, naive []result
	for i := range pairs {
		runs := []func(context.Context, int) (result, error){stage.geobridge, stage.java}
		into := []*[]result{&ours, &naive}
		if i%2 == 1 {
			slices.Reverse(runs)
			slices.Reverse(into)
		}
		for k, one := range runs {
			r, err := one(ctx, i)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "bench: %s\n", r)
			*into[k] = append(*into[k], r)
		}
	}
	return report(out, ours, naive)
}

// result is one run.
type result struct {
	who     string
	entries int64 // of the source
	bytes   int64 // stored at the source
	wall    time.Duration
	cpu     time.Duration // while it copied
	start   time.Duration // CPU time before its first stored byte
}

func (r result) perSecond() float64   { return float64(r.entries) / r.wall.Seconds() }
func (r result) mbPerSecond() float64 { return float64(r.bytes) / 1e6 / r.wall.Seconds() }
func (r result) cpuPerGB() float64    { return r.cpu.Seconds() / (float64(r.bytes) / 1e9) }

func (r result) String() string {
	return fmt.Sprintf("%s: %.0f entries/s, %.1f MB/s, %.2f CPU s/GB (and %.2f CPU s to start)", r.who, r.perSecond(), r.mbPerSecond(),
		r.cpuPerGB(), r.start.Seconds())
}

// report prints all runs, the medians, and the medians of the pairs' ratios.
func report(out io.Writer, ours, naive []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "pair\tbridge\tentries/s\tMB/s\tCPU s/GB\tCPU s to start\t")
	row := func(label string, r result) {
		fmt.Fprintf(table, "%s\t%s\t%.0f\t%.1f\t%.2f\t%.2f\t\n", label, r.who, r.perSecond(), r.mbPerSecond(), r.cpuPerGB(), r.start.Seconds())
	}
	for i := range ours {
		row(fmt.Sprint(i+1), ours[i])
		row(fmt.Sprint(i+1), naive[i])
	}
	for _, all := range [][]result{ours, naive} {
		fmt.Fprintf(table, "median\t%s\t%.0f\t%.1f\t%.2f\t%.2f\t\n", all[0].who, median(all, result.perSecond), median(all, result.mbPerSecond),
			median(all, result.cpuPerGB), median(all, func(r result) float64 { return r.start.Seconds() }))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var speed, cost []float64
	for i := range ours {
		speed = append(speed, ours[i].perSecond()/naive[i].perSecond())
		cost = append(cost, ours[i].cpuPerGB()/naive[i].cpuPerGB())
	}
	identity := func(x float64) float64 { return x }
	_, err := fmt.Fprintf(out, "\ngeobridge against the naive bridge, median of %d pairs: %.2f × the entries per second, %.3f × the CPU time per GB\n",
		len(ours), median(speed, identity), median(cost, identity))
	return err
}

func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}
