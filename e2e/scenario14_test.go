//go:build e2e

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/rig"
)

// One of two instances is stopped (SIGSTOP) with sends in flight until the other
// has taken over, at least 90 s, while the target splits. Then it goes on where it
// was, with what it had read and the producers that it thinks to hold.
func TestScenario14Paused(t *testing.T) {
	t.Parallel()
	s := newScene(t, 20*time.Minute)
	g := s.newStage(4, 3)
	random := g.random(1)
	a, b := g.sharers(g.mapping("paused", g.east, g.west, "orders"))
	load := g.flow(500)
	for round := range byMode(s, 1, 3) {
		stopped, other := a, b
		if round%2 == 1 {
			stopped, other = b, a
		}
		g.copies(1_000, "by both")
		h := g.inDoubt(10*time.Second, stopped)
		g.must(stopped.Process().Pause())
		since := time.Now()
		g.must(g.change(g.west, random, true))
		g.lanesOf(other, 4)
		took := time.Since(since)
		g.copies(1_000, "by one")
		g.pause(time.Until(since.Add(90 * time.Second)))
		g.must(stopped.Process().Resume())
		g.copies(2_000, "after the other goes on")
		g.lanesOf(stopped, 1)
		g.Logf("stopped with %v sends in doubt, taken over after %v, went on after %v; found stored by the other: %v, depositions of the stopped one: %v",
			h.unreceipted, took.Round(time.Second), time.Since(since).Round(time.Second), g.look(other).avoided, g.look(stopped).depositions)
		g.share("sends in doubt at the stop", int(h.unreceipted), 1, 1)
	}
	g.exactly(load)
}

// lanesOf waits until a daemon runs at least so many lanes.
func (g *stage) lanesOf(d *daemon.Daemon, n float64) {
	g.Helper()
	g.must(rig.Poll(g.within(4*time.Minute, "the lanes of "+d.Name), 100*time.Millisecond, func() error {
		m, err := d.Metrics(g.ctx)
		if err == nil && m.Sum("lanes", "state=running") < n {
			err = fmt.Errorf("%v lanes run, want %v", m.Sum("lanes", "state=running"), n)
		}
		return err
	}))
}

// One of two instances loses the source, and keeps the target, where it has sends
// in flight: the other takes over from a live one that hears nothing of it. Every
// other time its connections to the target are mute meanwhile: it holds its names
// there, and goes on with what it had begun once they are not.
func TestScenario14SourceCutOff(t *testing.T) {
	s := newScene(t, 20*time.Minute)
	g := s.newStage(4, 3)
	front := *s
	var cut, mute *rig.Cut
	front.east, cut = s.behind(s.east)
	front.west, mute = s.behind(s.west)
	mapping := s.mapping("cut-off", s.east, s.west, "orders")
	a, b := s.sharing(front.config(mapping), s.config(mapping))
	load := g.flow(1_500)
	stop := g.changing(2500*time.Millisecond, false)
	doubtful, rounds := 0, byMode(s, 4, 20)
	for round := range rounds {
		g.copies(1_500, "by both")
		if round%2 == 1 {
			mute.Stall()
		}
		if g.inDoubt(2*time.Second, a).unreceipted > 0 {
			doubtful++
		}
		cut.Refuse(true)
		cut.Sever(round%4 < 2)
		g.lanesOf(b, 4)
		g.copies(3_000, "by the other")
		cut.Refuse(false)
		mute.Heal()
		g.lanesOf(a, 1)
	}
	stop()
	g.exactly(load)
	g.Logf("cut off %d times, %d with sends in doubt; found stored: %v, %v", rounds, doubtful, g.look(a).avoided, g.look(b).avoided)
	g.share("sends in doubt", doubtful, rounds, 2)
}

// Both instances and the source's broker are killed at once: the source's cursors
// roll back by up to a second, and nobody is left who knows what was sent.
func TestScenario14AllKilledButTheTarget(t *testing.T) {
	s := newScene(t, 30*time.Minute)
	g := s.newStage(4, 3)
	a, b := g.sharers(g.mapping("killed", g.east, g.west, "orders"))
	load := g.flow(1_500)
	doubtful, found, rounds := 0, 0, byMode(s, 1, 8)
	for range rounds {
		g.copies(4_500, "by both")
		if g.inDoubt(5*time.Second, a, b).unreceipted > 0 {
			doubtful++
		}
		for _, d := range []*daemon.Daemon{a, b} { // all at once: Kill waits for the end
			g.must(d.Process().Pause())
		}
		s.suite.east.Kill()
		a.Kill()
		b.Kill()
		g.must(s.suite.east.Start(g.ctx))
		g.launch(a)
		g.launch(b)
		g.copies(4_500, "after the restart")
		if g.look(a).avoided+g.look(b).avoided > 0 {
			found++
		}
	}
	g.exactly(load)
	g.Logf("killed %d times, %d with sends in doubt, %d recoveries found something stored", rounds, doubtful, found)
	g.share("sends in doubt", doubtful, rounds, 2)
	g.share("recoveries that found something", found, rounds, 5)
}

// fault is one point of the path of sends, receipts, entries and acknowledgements
// at which the connections end.
type fault struct {
	name  string
	at    *rig.Cut
	ways  []rig.Way // what is held up before the end
	reset bool      // how they end
	fuse  int       // in the middle of a frame of that way, within so many bytes
	again bool      // once more at once, while the lanes recover
}

// faults are 20 points: each way held up and ended by a reset, by an orderly end, or
// twice in a row, and the middle of a frame.
func faults(east, west *rig.Cut) (all []fault) {
	up, down, both := []rig.Way{rig.Up}, []rig.Way{rig.Down}, []rig.Way{rig.Up, rig.Down}
	for _, p := range []fault{
		{name: "sends", at: west, ways: up, fuse: 20_000}, {name: "receipts", at: west, ways: down, fuse: 5_000},
		{name: "both of the target", at: west, ways: both},
		{name: "acknowledgements", at: east, ways: up, fuse: 500}, {name: "entries", at: east, ways: down, fuse: 20_000},
		{name: "both of the source", at: east, ways: both},
	} {
		held, reset, third := p, p, p
		held.name, held.fuse = p.name+" held up", 0
		reset.name, reset.fuse, reset.reset = held.name+", reset", 0, true
		if third.name = "in the middle of " + p.name; p.fuse == 0 {
			third.name, third.again = held.name+", twice", true
		}
		all = append(all, held, reset, third)
	}
	for _, p := range []fault{{name: "sends", at: west, ways: up}, {name: "receipts", at: west, ways: down}} {
		p.name, p.again, p.reset = p.name+" held up, reset, twice", true, true
		all = append(all, p)
	}
	return all
}

// Connections end at each point of the path: with the sends held up or their
// receipts, the entries or their acknowledgements, and in the middle of frames. Half
// of that is repeated with broker deduplication on.
func TestScenario14CutPath(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		s := newScene(t, 20*time.Minute)
		s.cutPath(byMode(s, 1, 3), 1)
	})
	t.Run("deduplicated", func(t *testing.T) {
		s := newScene(t, 10*time.Minute)
		s.deduplicate()
		s.cutPath(1, byMode(s, 2, 1)).deduplicated()
	})
}

// cutPath ends the connections at each point of the path, or each second one, so
// many times.
func (s *scene) cutPath(rounds, step int) *stage {
	s.Helper()
	g := s.newStage(2, 3)
	random := g.random(1)
	d, east, west := s.throughCuts(s.mapping("path", s.east, s.west, "orders"))
	s.start(d)
	load := g.flow(1_500)
	stop := g.changing(2700*time.Millisecond, true)
	all, doubtful, found := 0, 0, 0
	for round := range rounds {
		for i, p := range faults(east, west) {
			if i%step != step-1 { // of every second one, receipts are held up more often
				continue
			}
			all++
			before := g.look(d).avoided
			g.copies(1_000, "before "+p.name)
			doubt := g.strike(p, d, random)
			g.copies(1_000, "after "+p.name)
			h := g.look(d)
			if doubt {
				doubtful++
			}
			if h.avoided > before {
				found++
			}
			g.Logf("round %d, %s: sends in doubt %v, found stored %v", round, p.name, doubt, h.avoided-before)
		}
	}
	stop()
	g.exactly(load)
	g.Logf("%d cuts, %d with sends in doubt, %d recoveries found something stored", all, doubtful, found)
	g.share("sends in doubt", doubtful, all, 2)
	g.share("recoveries that found something", found, all, 5)
	g.healthy(d)
	return g
}

// strike ends the connections at one point, and reports whether sends had no receipt.
func (g *stage) strike(p fault, d *daemon.Daemon, random *rand.Rand) (doubt bool) {
	g.Helper()
	if p.fuse > 0 {
		doubt = g.inDoubt(2*time.Second, d).unreceipted > 0
		p.at.SeverAfter(p.ways[0], 1+random.IntN(p.fuse))
		g.must(rig.Poll(g.within(time.Minute, "the end "+p.name), 5*time.Millisecond, func() error {
			if p.at.Lit() {
				return errIdle
			}
			return nil
		}))
		return doubt
	}
	p.at.Stall(p.ways...)
	doubt = g.inDoubt(time.Second, d).unreceipted > 0
	g.pause(below(random, 500*time.Millisecond))
	p.at.Sever(p.reset)
	p.at.Heal()
	if p.again {
		g.pause(below(random, 1500*time.Millisecond)) // claims, scans, and the first sends
		p.at.Sever(p.reset)
	}
	return doubt
}
