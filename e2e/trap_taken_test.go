//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// skip moves a subscription to the end of every segment, as a TTL would.
func (s *scene) skip(at site, n restadmin.Name, sub string) {
	s.Helper()
	s.must(at.admin.Do(s.ctx, http.MethodPost, fmt.Sprintf("scalable/%s/subscriptions/%s/skip-all", n, sub), nil, nil))
}

// counts waits for a counter.
func (s *scene) counts(d *daemon.Daemon, name string, want float64, labels ...string) {
	s.Helper()
	if err := rig.Poll(s.within(time.Minute, name), 200*time.Millisecond, func() error {
		if got := s.metrics(d).Sum(name, labels...); got != want {
			return fmt.Errorf("%s %v, want %v", name, got, want)
		}
		return nil
	}); err != nil {
		s.Error(err)
	}
}

// The source subscription is moved over data that nobody copied, while geobridge is
// away: counted for each segment, and the rest is copied. With on_gap: stop it holds.
func TestTrapSourceMoved(t *testing.T) {
	for _, policy := range []string{"continue", "stop"} {
		t.Run(policy, func(t *testing.T) {
			s := newScene(t, 10*time.Minute)
			n := s.create(s.east, "orders", 1, 2)
			s.create(s.west, "orders", 1, 2)
			reader := s.consume(s.west, n, 1)
			d := s.run(s.mapping("moved", s.east, s.west, "orders", map[string]any{"on_gap": policy}))
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old", KeyPrefix: "old", Keys: 20, Count: 500, Rate: 2_000}, reader)
			s.allCome(reader, "copying")
			s.terminate(d)
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "gone", KeyPrefix: "gone", Keys: 20, Count: 500, Rate: 2_000})
			s.skip(s.east, n, subscription("moved", s.west))
			s.start(d)
			s.counts(d, "source_gaps_total", 1, "reason=expired")
			if policy == "stop" {
				s.reason(d, "moved", `source data was gone before it was copied \(expired\): \d+ entries`)
				s.terminate(d)
				return
			}
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 20, Count: 500, Rate: 2_000}, reader)
			s.allCome(reader, "copying the rest")
			s.terminate(d)
		})
	}
}

// A reload of both clusters while geobridge is away and all is copied: no gap, and
// no evidence lost. The guard keeps the entry of the floor.
func TestTrapReloadedWhileAway(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	n := s.create(s.east, "orders", 1, 2)
	s.create(s.west, "orders", 1, 2)
	reader := s.consume(s.west, n, 1)
	d := s.run(s.mapping("reloaded", s.east, s.west, "orders"))
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old", KeyPrefix: "old", Keys: 20, Count: 500, Rate: 2_000}, reader)
	s.allCome(reader, "copying")
	s.drained(end{s.east, n}, subscription("reloaded", s.west))
	s.backlog(end{s.west, n}, "geobridge-guard."+subscription("reloaded", s.west), 1, nil)
	d.Kill()
	for range 2 {
		s.must(s.east.admin.Unload(s.ctx, s.namespace))
		s.must(s.west.admin.Unload(s.ctx, s.namespace))
		s.drained(end{s.east, n}, subscription("reloaded", s.west)) // the topics are loaded again
		s.readOut(reader)
	}
	s.start(d)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 20, Count: 500, Rate: 2_000}, reader)
	s.allCome(reader, "copying the rest")
	m := s.metrics(d)
	if gaps, lost := m.Sum("source_gaps_total"), m.Sum("evidence_lost_total"); gaps != 0 || lost != 0 {
		s.Errorf("%v gaps, evidence lost %v times", gaps, lost)
	}
	s.terminate(d)
}
