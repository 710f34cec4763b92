package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// result is one run.
type result struct {
	who     string
	entries int64 // of the source
	bytes   int64 // stored at the source
	stored  int64 // bytes at the target
	wall    time.Duration
	cpu     time.Duration // from its first stored byte on
	start   time.Duration // CPU time before
}

func (r result) perSecond() float64   { return float64(r.entries) / r.wall.Seconds() }
func (r result) mbPerSecond() float64 { return float64(r.bytes) / 1e6 / r.wall.Seconds() }
func (r result) cpuPerGB() float64    { return r.cpu.Seconds() / (float64(r.bytes) / 1e9) }
func (r result) grown() float64       { return float64(r.stored-r.bytes) / float64(r.entries) }
func (r result) cpuPerEntry() float64 { return float64(r.cpu.Microseconds()) / float64(r.entries) }

func (r result) String() string {
	return fmt.Sprintf("%s: %.0f entries/s, %.1f MB/s, %.2f CPU s/GB, %.1f CPU µs/entry (and %.2f CPU s to start)", r.who, r.perSecond(), r.mbPerSecond(),
		r.cpuPerGB(), r.cpuPerEntry(), r.start.Seconds())
}

// columns are what the table shows of a run.
func columns() []func(result) float64 {
	return []func(result) float64{result.perSecond, result.mbPerSecond, result.cpuPerGB, result.cpuPerEntry, result.grown, func(r result) float64 { return r.start.Seconds() }}
}

// report prints all runs, the medians, and the medians of the pairs' ratios.
func report(out io.Writer, ours, theirs []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "pair\tbridge\tentries/s\tMB/s\tCPU s/GB\tCPU µs/entry\tbytes/entry more\tCPU s to start\t")
	row := func(label, who string, of func(func(result) float64) float64) {
		fmt.Fprintf(table, "%s\t%s\t", label, who)
		for i, column := range columns() {
			fmt.Fprintf(table, []string{"%.0f", "%.1f", "%.2f", "%.1f", "%+.0f", "%.2f"}[i]+"\t", of(column))
		}
		fmt.Fprintln(table)
	}
	for i := range ours {
		for _, r := range []result{ours[i], theirs[i]} {
			row(fmt.Sprint(i+1), r.who, func(column func(result) float64) float64 { return column(r) })
		}
	}
	for _, all := range [][]result{ours, theirs} {
		row("median", all[0].who, func(column func(result) float64) float64 { return median(all, column) })
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s against %s, median of %d pairs: %s the entries per second, %s the CPU time per GB\n",
		ours[0].who, theirs[0].who, len(ours), ratio("%.2f", ours, theirs, result.perSecond), ratio("%.3f", ours, theirs, result.cpuPerGB))
	return err
}

// ratio is the median of the pairs' ratios, and their spread.
func ratio(format string, ours, theirs []result, of func(result) float64) string {
	var all []float64
	for i := range ours {
		all = append(all, of(ours[i])/of(theirs[i]))
	}
	return fmt.Sprintf(format+" × ("+format+"–"+format+")", median(all, func(x float64) float64 { return x }), slices.Min(all), slices.Max(all))
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
