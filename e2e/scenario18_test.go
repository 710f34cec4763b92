//go:build e2e

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/witness"
)

// command runs a command of the binary, which must end with that code and say that
// on stdout or stderr.
func (s *scene) command(d *daemon.Daemon, code int, says string, args ...string) {
	s.Helper()
	got, stdout, stderr, err := d.Command(s.within(time.Minute, args[0]), args...)
	s.must(err)
	if got != code || !strings.Contains(stdout+stderr, says) {
		s.Fatalf("%v: exit code %d, want %d and %q\n%s%s", args, got, code, says, stdout, stderr)
	}
	s.Logf("%v: %d\n%s%s", args, got, stdout, stderr)
}

// doubles fails the scenario unless exactly the messages with that prefix came
// twice, and nothing else did.
func (s *scene) doubles(reader *witness.Consumption, prefix string, n int) {
	s.Helper()
	twice := func(r order.Report) (count int) {
		for id, extra := range r.Duplicates {
			if strings.HasPrefix(id, prefix) && extra == 1 {
				count++
			}
		}
		return count
	}
	for until := time.Now().Add(time.Minute); twice(reader.Report()) < n && time.Now().Before(until); time.Sleep(100 * time.Millisecond) { // another process
	}
	s.settle(reader)
	report := reader.Report()
	s.Log(report)
	if got := twice(report); got != n || len(report.Duplicates) != n {
		s.Errorf("%d messages came twice, %d of them of %q; want %d of it, and no others", len(report.Duplicates), got, prefix, n)
	}
	if len(report.Lost) > 0 || len(report.Foreign) > 0 {
		s.Errorf("lost %v, foreign %v", report.Lost, report.Foreign)
	}
}

// After forget a mapping begins anew. It is refused while an instance serves it.
func TestScenario18Forget(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	s.must(s.east.admin.KeepAll(s.ctx, s.namespace))
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 2)
	reader := s.consume(s.west, n, 1)
	d := s.run(s.mapping("same", s.east, s.west, "orders"))
	s.running(2, d)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old", Keys: 20, Count: 500, Rate: 1_000}, reader)
	s.must(s.east.admin.Split(s.ctx, n, 0))
	s.running(3, d)
	s.command(d, 3, "stop every instance", "forget", "same", "--yes")
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old2", KeyPrefix: "old2", Keys: 20, Count: 500, Rate: 1_000}, reader)
	s.verdict(reader)
	s.terminate(d)
	s.command(d, 0, "add --yes", "forget", "same")
	s.command(d, 0, "deleting guard", "forget", "same", "--yes")
	for _, e := range []end{{s.east, n}, {s.west, n}} {
		subs, err := e.at.admin.Subscriptions(s.ctx, e.name)
		s.must(err)
		for name := range subs {
			if strings.HasPrefix(name, "geobridge") {
				s.Errorf("%s is still at %s", name, e.at.name)
			}
		}
	}
	s.command(d, 0, "nothing was there", "forget", "same", "--yes")
	s.start(d)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 20, Count: 500, Rate: 1_000}, reader)
	s.doubles(reader, "old", 1_000)
	s.terminate(d)
}

// What was published after a time is copied once more, across a split; all else is
// not.
func TestScenario18Rewind(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	s.must(s.east.admin.KeepAll(s.ctx, s.namespace))
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 2)
	reader := s.consume(s.west, n, 1)
	d := s.run(s.mapping("back", s.east, s.west, "orders"))
	s.running(2, d)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "early", Keys: 20, Count: 500, Rate: 1_000}, reader)
	g := &stage{scene: s}
	g.pause(2 * time.Second) // RFC 3339 counts seconds
	point := time.Now()
	g.pause(time.Second)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "late", KeyPrefix: "late", Keys: 20, Count: 500, Rate: 1_000}, reader)
	s.must(s.east.admin.Split(s.ctx, n, 0))
	s.running(3, d)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "late2", KeyPrefix: "late2", Keys: 20, Count: 500, Rate: 1_000}, reader)
	s.verdict(reader)
	s.command(d, 3, "stop every instance", "rewind", "back", "--to", "earliest", "--yes")
	s.terminate(d)
	to := point.UTC().Format(time.RFC3339)
	s.command(d, 0, "add --yes", "rewind", "back", "--to", to)
	s.command(d, 0, "setting the record back", "rewind", "back", "--to", to, "--yes")
	s.start(d)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 20, Count: 500, Rate: 1_000}, reader)
	s.doubles(reader, "late", 1_000)
	if m, err := d.Metrics(s.ctx); err != nil || m.Sum("source_gaps_total") != 0 {
		s.Errorf("gaps: %v, %v", m.Sum("source_gaps_total"), err)
	}
	s.terminate(d)
}
