//go:build e2e

package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
)

// Three instances share four source segments. Every few seconds one of them comes,
// leaves, is killed, or is stopped for a moment, while both layouts change. Then
// all are restarted one by one.
func TestScenario15InstancesComeAndGo(t *testing.T) {
	s := newScene(t, 25*time.Minute)
	g := s.newStage(4, 3)
	random := g.random(1)
	config := s.config(s.mapping("team", s.east, s.west, "orders"))
	var team []*daemon.Daemon
	for _, name := range []string{"i0", "i1", "i2"} {
		team = append(team, s.instance(name, config))
		s.start(team[len(team)-1])
	}
	load := g.flow(1_500)
	stop := g.changing(2600*time.Millisecond, false)
	done := map[string]int{}
	all := []string{"added", "removed", "killed", "killed in doubt"}
	until := time.Now().Add(byMode(s, 45*time.Second, 3*time.Minute))
	for time.Now().Before(until) || !hasAll(done, all) && time.Now().Before(until.Add(3*time.Minute)) {
		g.pause(time.Second + below(random, 2*time.Second))
		d, up := team[random.IntN(3)], 0
		for _, other := range team {
			if other.Process().Alive() {
				up++
			}
		}
		action := random.IntN(4)
		switch {
		case !d.Process().Alive():
			g.launch(d)
			done["added"]++
		case up == 1: // somebody copies always
		case action == 0:
			code, err := d.Terminate(40 * time.Second)
			g.must(err)
			done["removed"]++
			if code != 0 {
				g.Errorf("%s ended with code %d after SIGTERM, want 0 (drained)", d.Name, code)
			}
		case action == 1:
			g.must(d.Process().Pause())
			g.pause(time.Second + below(random, 3*time.Second))
			g.must(d.Process().Resume())
			done["stopped for a moment"]++
		default:
			if g.inDoubt(time.Second, d).unreceipted > 0 {
				done["killed in doubt"]++
			}
			d.Kill()
			done["killed"]++
		}
	}
	for _, d := range team {
		if !d.Process().Alive() {
			g.launch(d)
		}
	}
	for _, d := range team { // a rolling restart
		g.must(d.WaitReady(g.within(time.Minute, "getting ready")))
		g.copies(1_500, "before a restart")
		s.terminate(d)
		s.start(d)
	}
	g.copies(1_500, "after the restarts")
	stop()
	g.exactly(load)
	found := 0.0
	for _, d := range team {
		found += g.look(d).avoided
	}
	g.Logf("%v, then a rolling restart; the last runs found %v messages stored", done, found)
	if !hasAll(done, all) {
		g.Errorf("%v, want each of %v: this run proves less than it should", done, all)
	}
}

// hasAll reports whether each of these has been counted.
func hasAll(counts map[string]int, all []string) bool {
	return !slices.ContainsFunc(all, func(what string) bool { return counts[what] == 0 })
}
