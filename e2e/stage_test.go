//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// stage is a copy under faults. What the source stores is counted, which tells what
// Pulsar's own producer stored twice there when a segment was sealed under it or
// its broker died. Nothing deduplicates, and nothing is retained.
type stage struct {
	*scene
	n      restadmin.Name
	source *tally
	target *witness.Consumption
	seed   uint64

	turn    sync.Mutex // one change of a layout at a time
	mu      sync.Mutex
	changed map[string]int // by cluster and kind
}

// newStage creates a topic of 2 buckets a segment on both sides, counts what
// the source stores of it, and reads it at the target.
func (s *scene) newStage(sourceSegments, targetSegments int) *stage {
	s.Helper()
	g := &stage{scene: s, n: s.create(s.east, "orders", sourceSegments, 2), seed: uint64(time.Now().UnixNano()), changed: map[string]int{}}
	if text := os.Getenv("GEOBRIDGE_SEED"); text != "" {
		var err error
		g.seed, err = strconv.ParseUint(text, 10, 64)
		s.must(err)
	}
	s.Logf("GEOBRIDGE_SEED=%d", g.seed)
	s.create(s.west, "orders", targetSegments, 2)
	g.source, g.target = s.tally(end{s.east, g.n}), s.consume(s.west, g.n, 2)
	return g
}

// random is a stream of the stage's seed, for one goroutine.
func (g *stage) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(g.seed, stream)) }

// flow publishes to the source until it is stopped.
func (g *stage) flow(rate int) *witness.Production {
	g.Helper()
	load := g.produce(g.east, witness.Produce{Topic: g.n.Topic(), IDPrefix: "m", Keys: 300, Rate: rate, Compression: "LZ4"}, g.target)
	g.must(load.WaitReceipts(g.within(time.Minute, "the load"), rate))
	return load
}

// copies waits until n more messages have come, see comes.
func (g *stage) copies(n int, what string) {
	g.Helper()
	g.comes(g.target, g.target.Distinct()+n, "copying "+what)
}

// change splits, merges or rebuckets at a cluster, and keeps 2 to 4 segments. With
// merges the number of ranges goes up and down, without only buckets change.
func (g *stage) change(at site, random *rand.Rand, ranges bool) error {
	g.turn.Lock()
	defer g.turn.Unlock()
	layout, err := at.admin.Layout(g.ctx, g.n)
	if err != nil {
		return err
	}
	active := byRange(layout)
	i, kind := random.IntN(len(active)), "rebucket"
	switch {
	case !ranges || random.IntN(3) == 0:
		err = at.admin.Rebucket(g.ctx, g.n, active[i].ID, otherBuckets(active[i]))
	case len(active) >= 4 || len(active) > 2 && random.IntN(2) == 0:
		i = min(i, len(active)-2)
		kind, err = "merge", at.admin.Merge(g.ctx, g.n, active[i].ID, active[i+1].ID)
	default:
		if width(active[i]) < 256 { // hundreds of changes leave some that are too narrow
			i = slices.IndexFunc(active, func(s restadmin.Segment) bool { return width(s) >= 256 })
		}
		kind, err = "split", at.admin.Split(g.ctx, g.n, active[i].ID)
	}
	if err == nil {
		g.mu.Lock()
		g.changed[at.name+" "+kind]++
		g.mu.Unlock()
	}
	return err
}

// otherBuckets is another number of buckets than a segment has, from 2 to 5.
func otherBuckets(s restadmin.Segment) int { return len(s.Splits)%4 + 2 }

// width is how many hashes a segment takes.
func width(s restadmin.Segment) int { return s.Range.End - s.Range.Start + 1 }

// changing changes one side and the other in turn, beside the scenario.
func (g *stage) changing(pause time.Duration, sourceRanges bool) (stop func()) {
	random, turn := g.random(2), 0
	return g.every(pause, func(context.Context) error {
		turn++
		if turn%2 == 0 {
			return g.change(g.east, random, sourceRanges)
		}
		return g.change(g.west, random, true)
	})
}

// held is what a daemon shows of its state, zero where it does not answer yet.
type held struct{ unreceipted, avoided, messages, depositions float64 }

func (g *stage) look(d *daemon.Daemon) held {
	m, err := d.Metrics(g.ctx)
	if err != nil {
		return held{}
	}
	return held{m.Sum("unreceipted_sends"), m.Sum("duplicates_avoided_total"), m.Sum("messages_total"), m.Sum("depositions_total")}
}

// inDoubt waits, at most a while, until one of the daemons has sends without
// receipt, and returns what it showed.
func (g *stage) inDoubt(patience time.Duration, daemons ...*daemon.Daemon) (h held) {
	for until := time.Now().Add(patience); ; {
		for _, d := range daemons {
			if h = g.look(d); h.unreceipted > 0 {
				return h
			}
		}
		if time.Now().After(until) {
			return h
		}
		g.pause(5 * time.Millisecond)
	}
}

// pause lets time pass that is part of a scenario.
func (s *scene) pause(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		s.Fatal(context.Cause(s.ctx))
	}
}

// below is a random time.
func below(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit)))
}

// exactly ends the load and judges: nothing lost, nothing twice, each key in order.
func (g *stage) exactly(load *witness.Production) order.Report {
	g.Helper()
	g.must(load.Stop(g.within(2*time.Minute, "ending the load")))
	g.settle(g.target)
	report := g.target.Report()
	if len(report.Duplicates) > 0 { // were they already at the source?
		g.eventually("counting what the source stores", g.source.uncounted,
			func() { _ = g.east.admin.Unload(g.ctx, g.namespace) }) // refused now and then
	}
	excused := 0
	for id, extra := range report.Duplicates {
		if extra < g.source.stored(id) {
			delete(report.Duplicates, id)
			excused++
		}
	}
	for _, problem := range report.Problems(order.Once) {
		g.Error(problem)
	}
	g.Logf("%v; %d stored twice by the source's own producer (%v); layout changes %v", report, excused, g.source, g.changed)
	return report
}

// share fails the scenario unless at least one in n of all had something.
func (g *stage) share(what string, had, all, n int) {
	g.Helper()
	if had*n < all {
		g.Errorf("%s: %d of %d, want at least one in %d: this run proves nothing", what, had, all, n)
	}
}

// changesOf sums the changes made at a cluster.
func (g *stage) changesOf(at site, kinds ...string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, times := range g.changed {
		for _, kind := range kinds {
			if key == at.name+" "+kind {
				n += times
			}
		}
	}
	return n
}

// allKinds waits until every kind of change has happened on both sides.
func (g *stage) allKinds() {
	g.Helper()
	for _, at := range []site{g.east, g.west} {
		for _, kind := range []string{"split", "merge", "rebucket"} {
			g.must(rig.Poll(g.within(2*time.Minute, "a "+kind+" at "+at.name), 100*time.Millisecond, func() error {
				if g.changesOf(at, kind) == 0 {
					return errors.New("there has been none")
				}
				return nil
			}))
		}
	}
}
