package ladder

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func TestMain(m *testing.M) {
	if err := warm(); err != nil {
		panic(err)
	}
	debug.SetGCPercent(400) // many small worlds
	goleak.VerifyTestMain(m)
}

// warm makes what the codecs keep for everybody outside of any bubble: a channel
// made inside one must not be used in another.
func warm() error {
	plain := []byte("geobridge geobridge geobridge")
	for _, codec := range []pulsarpb.CompressionType{pulsarpb.CompressionType_LZ4, pulsarpb.CompressionType_ZLIB, pulsarpb.CompressionType_ZSTD, pulsarpb.CompressionType_SNAPPY} {
		b, err := frame.Compress(codec, plain)
		if err != nil {
			return err
		}
		if _, err := frame.Decompress(&frame.Info{Compression: codec, UncompressedSize: uint32(len(plain))}, b, 1<<20); err != nil {
			return err
		}
	}
	return nil
}

// TestLadder climbs every rung once, each with a seed made of its name;
// GEOBRIDGE_SEED runs one seed, GEOBRIDGE_LADDER_RUNS that many.
func TestLadder(t *testing.T) {
	all := rungs()
	if s := os.Getenv("GEOBRIDGE_SEED"); s != "" {
		run(t, number(t, s), func(w *world, out outcome) {
			t.Logf("%s", w.story())
			t.Logf("%v: struck %v, in flight %v, undrained %v, %v of fake time: %v", out.rung, out.struck, out.flying, out.undrained, out.took, out.report)
		})
		return
	}
	if s := os.Getenv("GEOBRIDGE_LADDER_RUNS"); s != "" {
		climb(t, number(t, s), uint64(len(all)))
		return
	}
	for i, r := range all {
		if i%everyNth != 0 {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			run(t, seedOf(r.String(), i, len(all)), func(*world, outcome) {})
		})
	}
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// climb runs n seeds, which pass all rungs in turn, and prints what came of it.
func climb(t *testing.T, n, rungs uint64) {
	first := rungs * 1_000_000 // apart from the fixed ones
	if s := os.Getenv("GEOBRIDGE_LADDER_FIRST"); s != "" {
		first = number(t, s)
	}
	sum := newSummary()
	t.Run("seeds", func(t *testing.T) {
		for i := range n {
			t.Run(fmt.Sprint(first+i), func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() { sum.ended(t.Failed(), first+i) })
				run(t, first+i, func(_ *world, out outcome) { sum.add(out) })
			})
		}
	})
	for _, line := range sum.lines() {
		t.Log(line)
	}
}

func TestRungsAreDistinct(t *testing.T) {
	names := map[string]bool{}
	for _, r := range rungs() {
		if names[r.String()] {
			t.Errorf("rung %q is there twice", r)
		}
		names[r.String()] = true
	}
	t.Logf("%d rungs", len(names))
}

func TestClaimsNameRungs(t *testing.T) {
	var points []string
	for _, r := range rungs() {
		points = append(points, r.side+" "+r.point)
	}
	for _, row := range claims() {
		if row.why == "" {
			t.Errorf("the claim %q of %v has no reason", row.claim, row.points)
		}
		for _, p := range row.points {
			if row.side != "" && !slices.Contains(points, row.side+" "+p) {
				t.Errorf("the table of claims names %s %s, which is no rung", row.side, p)
			}
		}
	}
}
