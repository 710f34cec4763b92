//go:build e2e

package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
)

// kill -9 of geobridge at random moments under load, while both sides split, merge
// and rebucket, also between a crash and the restart, where the target's topics
// may be unloaded and trimmed as well: nothing lost, nothing twice, all in order. A
// sample is repeated with broker deduplication on.
func TestScenario13KilledUnderLoad(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		s := newScene(t, 60*time.Minute)
		s.killedUnderLoad(byMode(s, 20, 200))
	})
	t.Run("deduplicated", func(t *testing.T) {
		s := newScene(t, 10*time.Minute)
		s.deduplicate()
		s.killedUnderLoad(byMode(s, 6, 20)).deduplicated()
	})
}

// killedUnderLoad kills and starts again so many times.
func (s *scene) killedUnderLoad(rounds int) *stage {
	s.Helper()
	g := s.newStage(2, 2)
	random := g.random(1)
	d := g.instance("a", g.config(g.mapping("killed", g.east, g.west, "orders")))
	g.launch(d)
	load := g.flow(1_500)
	stop := g.changing(1900*time.Millisecond, true)
	doubtful, found, changed, split, unloaded := 0, 0, 0, 0, 0
	for round := range rounds {
		h := g.moment(d, random, round%5 == 4)
		d.Kill()
		if h.unreceipted > 0 {
			doubtful++
		}
		if round > 0 && h.avoided > 0 {
			found++
		}
		changes, splits := g.changesOf(g.west, "split", "merge", "rebucket"), g.changesOf(g.west, "split")
		if g.between(random) {
			unloaded++
		}
		if g.changesOf(g.west, "split", "merge", "rebucket") > changes {
			changed++
		}
		if g.changesOf(g.west, "split") > splits {
			split++
		}
		g.launch(d)
	}
	if rounds >= 20 {
		g.allKinds()
	}
	stop()
	g.must(d.WaitReady(g.within(time.Minute, "getting ready")))
	g.exactly(load)
	g.Logf("%d kills: %d with unreceipted sends, %d recoveries of %d found something stored, target changed in %d before the restart, split in %d, unloaded in %d",
		rounds, doubtful, found, rounds-1, changed, split, unloaded)
	if rounds < 20 { // a sample
		g.share("kills with unreceipted sends", doubtful, rounds, rounds)
		g.share("recoveries that found something", found, rounds, rounds)
		return g
	}
	g.share("kills with unreceipted sends", doubtful, rounds, 2)
	g.share("recoveries that found something", found, rounds-1, 5)
	g.share("target changed between crash and restart", changed, rounds, 20)
	if s.suite.full {
		g.share("target split between crash and restart", split, rounds, 50)
	}
	g.share("unloaded between crash and restart", unloaded, rounds, 20)
	return g
}

// moment waits for a moment to kill at: early, somewhere in the start, or in the first
// seconds of copying, that is before, at and after the first records, when sends
// have no receipt.
func (g *stage) moment(d *daemon.Daemon, random *rand.Rand, early bool) held {
	if early {
		g.pause(below(random, 2*time.Second))
		return g.look(d)
	}
	for until := time.Now().Add(20 * time.Second); g.look(d).messages == 0; {
		if time.Now().After(until) {
			g.Logf("no message copied within 20 s of a start")
			break
		}
		g.pause(10 * time.Millisecond)
	}
	g.pause(below(random, 1500*time.Millisecond)) // a record is written each second
	return g.inDoubt(2*time.Second, d)
}

// between is what happens between a crash and the restart; it reports whether the
// target's topics were unloaded: what every reader has acknowledged is trimmed then.
func (g *stage) between(random *rand.Rand) (unloaded bool) {
	g.Helper()
	act := func(err error) {
		if err != nil {
			g.Logf("between: %v", err)
		}
	}
	switch random.IntN(6) {
	case 0, 1:
		act(g.change(g.west, random, true))
	case 2:
		unloaded = true
		act(g.west.admin.Unload(g.ctx, g.namespace))
	case 3:
		unloaded = true
		act(g.change(g.west, random, true))
		act(g.west.admin.Unload(g.ctx, g.namespace))
	case 4:
		act(g.change(g.east, random, true))
		act(g.east.admin.Unload(g.ctx, g.namespace))
	default:
		g.pause(below(random, time.Second))
	}
	return unloaded
}
