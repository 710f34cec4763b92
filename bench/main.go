// Command bench measures geobridge side by side with something else, on real
// brokers on loopback:
//
//   - java: the bridge that one would write in fifty lines on Pulsar's Java V5
//     client (e2e/witness/java/Bridge.java);
//   - cost: a geobridge without exactly once, that is with no records, no identity
//     and no guard, built with -tags bare. Once with large batches and once with
//     single small messages, where an entry has least to share the cost with.
//
// Both of a pair copy the same backlog between the same two clusters, layouts
// aligned, one right after the other, in an order that alternates; what counts is
// the median of the pairs' ratios, for the machine has other things to do. The
// first run of all warms the brokers and does not count. The time of a run goes
// from the first stored byte at the target to the last one, so neither pays for its
// start; its CPU time goes from there to its end, acknowledgements and all.
//
//	go run ./bench                          both, 400 MB, 3 pairs
//	go run ./bench -only cost -pairs 7      the cost of exactly once
//	go run ./bench -mb 100 -small 50000
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
)

// options are the flags.
type options struct {
	only               string // java, cost, or both
	mb, small, pairs   int
	binary, bareBinary string
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "java or cost; both if empty")
	flag.IntVar(&o.mb, "mb", 400, "size of the backlog of batches, in MB (10^6 bytes)")
	flag.IntVar(&o.small, "small", 100_000, "entries of the backlog of single messages")
	flag.IntVar(&o.pairs, "pairs", 3, "pairs of runs, of each comparison")
	flag.StringVar(&o.binary, "binary", filepath.Join("bin", "geobridge"), "the geobridge to measure")
	flag.StringVar(&o.bareBinary, "bare", filepath.Join("bin", "geobridge-bare"), "the same, built with -tags bare")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) (err error) {
	for _, binary := range []string{o.binary, o.bareBinary} {
		if _, err := os.Stat(binary); err != nil {
			return fmt.Errorf("build it first (make bench does): %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "geobridge-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := newStage(ctx, dir)
	if err != nil {
		return err
	}
	defer s.close()
	ours := s.daemon("geobridge", o.binary, nil)
	bare := s.daemon("bare", o.bareBinary, map[string]any{"guard": false})
	const size = 1000
	batches, err := s.fill(ctx, shape{name: "batches", messages: o.mb * 1e6 / size, batch: 100, size: size})
	if err != nil {
		return err
	}
	if _, err := s.run(ctx, ours, batches); err != nil { // warms the brokers
		return err
	}
	if o.only != "cost" {
		if err := s.compare(ctx, out, batches, o.pairs, ours, s.java()); err != nil {
			return err
		}
	}
	if o.only == "java" {
		return nil
	}
	if err := s.compare(ctx, out, batches, o.pairs, ours, bare); err != nil {
		return err
	}
	singles, err := s.fill(ctx, shape{name: "singles", messages: o.small, batch: 1, size: 100})
	if err != nil {
		return err
	}
	return s.compare(ctx, out, singles, o.pairs, ours, bare)
}

// compare runs pairs, in an order that alternates, and reports them.
func (s *stage) compare(ctx context.Context, out io.Writer, b *backlog, pairs int, one, other contender) error {
	fmt.Fprintf(out, "\n%s: %d entries, %.1f MB stored, 2 segments of 2 buckets on both sides\n\n", b.topic, b.entries, float64(b.bytes)/1e6)
	results := make([][]result, 2)
	for i := range pairs {
		order := []int{0, 1}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, k := range order {
			r, err := s.run(ctx, []contender{one, other}[k], b)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "bench: %s\n", r)
			results[k] = append(results[k], r)
		}
	}
	return report(out, results[0], results[1])
}
