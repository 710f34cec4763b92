//go:build e2e

package e2e_test

import (
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/witness"
)

// SIGTERM and restart under load: nothing lost, nothing twice.
func TestScenario05RestartUnderLoad(t *testing.T) {
	s := newScene(t, 20*time.Minute)
	s.restarts(func(d *daemon.Daemon) { s.terminate(d) })
}

// kill -9 and restart under load: the same.
func TestScenario05KillUnderLoad(t *testing.T) {
	s := newScene(t, 20*time.Minute)
	s.restarts((*daemon.Daemon).Kill)
}

// restarts ends a daemon and starts it again several times while messages
// flow: in turn while it keeps up, and while it works off what has gathered.
func (s *scene) restarts(end func(*daemon.Daemon)) {
	s.Helper()
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 3)
	d := s.run(s.mapping("restarted", s.east, s.west, "orders"))
	const rate = 3_000
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 300, Rate: rate, Compression: "ZSTD"}, reader)
	rounds := byMode(s, 6, 40)
	busy := 0
	for round := range rounds {
		before := reader.Distinct()
		if round%2 == 1 {
			s.must(load.WaitReceipts(s.within(time.Minute, "load while geobridge is away"), load.Receipts()+5*rate))
			s.start(d)
			s.comes(reader, before+rate/10, "the first copies after a restart")
		} else {
			if round > 0 {
				s.start(d)
			}
			s.comes(reader, load.Receipts()+rate, "keeping up")
		}
		for until := time.Now().Add(2 * time.Second); time.Now().Before(until); {
			if s.metrics(d).Sum("inflight_bytes") > 0 {
				busy++
				break
			}
			s.pause(10 * time.Millisecond)
		}
		end(d)
	}
	s.Logf("%d of %d ends found entries in flight", busy, rounds)
	if busy == 0 && !s.suite.standIn {
		s.Error("no end found entries in flight: this run proves nothing")
	}
	s.start(d)
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	s.verdict(reader)
}
