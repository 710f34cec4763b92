//go:build e2e

package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// A broker, first the source's and then the target's, is killed with -9 in the
// middle of a copy and started again: geobridge recovers by itself, and finds what
// the target had stored without saying so.
func TestScenario08BrokerKilled(t *testing.T) {
	s := newScene(t, 40*time.Minute)
	g := s.newStage(2, 3)
	d := s.run(s.mapping("broken", s.east, s.west, "orders"))
	const rate = 2_000
	load := g.flow(rate)
	doubtful, found, rounds := 0, 0, byMode(s, 1, 10)
	for range rounds {
		for _, cluster := range []*rig.Standalone{s.suite.east, s.suite.west} {
			g.copies(2*rate, "before the kill of "+cluster.Name)
			if g.inDoubt(5*time.Second, d).unreceipted > 0 {
				doubtful++
			}
			before := g.look(d).avoided
			cluster.Kill()
			s.must(cluster.Start(s.ctx))
			g.copies(2*rate, "after the restart of "+cluster.Name)
			if g.look(d).avoided > before {
				found++
			}
		}
	}
	g.exactly(load)
	g.Logf("%d kills, %d with unreceipted sends, %d recoveries found something stored, %v messages in all", 2*rounds, doubtful, found, g.look(d).avoided)
	g.share("unreceipted sends", doubtful, 2*rounds, 2)
	if !d.Process().Alive() {
		s.Error("geobridge did not survive")
	}
}

// Both clusters are started two minutes after geobridge.
func TestScenario08ClustersComeLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	t.Cleanup(cancel)
	var clusters []*rig.Standalone
	for _, name := range []string{"late-east", "late-west"} {
		cluster, err := rig.NewStandalone(shared.box, shared.spawner, name)
		if err != nil {
			t.Fatal(err)
		}
		clusters = append(clusters, cluster)
	}
	s := &scene{T: t, ctx: ctx, suite: shared, namespace: "public/late", east: standaloneSite(clusters[0]), west: standaloneSite(clusters[1]), problems: &problems{}}
	t.Cleanup(s.showLogs)
	d := s.instance("a", s.config(s.mapping("late", s.east, s.west, "orders")))
	s.launch(d)
	s.stayAlive(d, 2*time.Minute)
	status, body, err := d.Get(ctx, "/readyz")
	if err != nil || status != 503 {
		s.Errorf("/readyz without any cluster: %d %s, %v; want 503 and the reason", status, body, err)
	}
	t.Cleanup(func() {
		for _, cluster := range clusters {
			cluster.Kill()
		}
	})
	s.must(startAll(ctx, clusters...))
	s.namespaces()
	if s.wit, err = shared.witness(); err != nil {
		s.Fatal(err)
	}
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 3)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 100, Count: 5_000, Rate: 2_000}, reader)
	s.must(d.WaitReady(s.within(2*time.Minute, "getting ready once the clusters are there")))
	s.verdict(reader)
}

// stayAlive lets time pass and fails the scenario when d ends or its /healthz
// is not 200 meanwhile.
func (s *scene) stayAlive(d *daemon.Daemon, span time.Duration) {
	s.Helper()
	over := time.NewTimer(span)
	defer over.Stop()
	look := time.NewTicker(5 * time.Second)
	defer look.Stop()
	for {
		select {
		case <-over.C:
			return
		case <-d.Process().Done():
			s.Fatalf("%s ended with code %d", d.Name, d.Process().ExitCode())
		case <-look.C:
			if status, body, err := d.Get(s.ctx, "/healthz"); err != nil || status != 200 {
				s.Errorf("/healthz: %d %s, %v", status, body, err)
			}
		}
	}
}
