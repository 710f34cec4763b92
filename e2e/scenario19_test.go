//go:build e2e

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// verify proves both sides equal after every kind of layout change on both, beside
// messages of others at the target. What a rewind has copied a second time it names.
func TestScenario19Verify(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	for _, at := range []site{s.east, s.west} {
		s.must(at.admin.KeepAll(s.ctx, s.namespace))
	}
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 1)
	d := s.run(s.mapping("proved", s.east, s.west, "orders"))
	s.running(2, d)
	total := byMode(s, 6_000, 60_000)
	p := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 50, Count: total, Rate: 500, Size: 200}, reader)
	for _, c := range s.changes(n) {
		s.apply(n, c)
	}
	s.must(p.WaitDone(s.within(3*time.Minute, "publishing")))
	s.publish(s.west, witness.Produce{Topic: n.Topic(), IDPrefix: "own", KeyPrefix: "own", Keys: 5, Count: 100, Rate: 1_000}, reader)
	s.verdict(reader)
	s.command(d, 0, "EQUAL", "verify", "proved")
	s.command(d, 0, "100 of others", "verify", "proved")
	s.terminate(d)
	s.command(d, 0, "setting the record back", "rewind", "proved", "--to", "earliest", "--yes")
	s.start(d)
	s.must(rig.Poll(s.within(time.Minute, "copying again"), 100*time.Millisecond, func() error {
		if got := s.metrics(d).Sum("messages_total"); got < float64(total) {
			return fmt.Errorf("%v messages are copied", got)
		}
		return nil
	}))
	s.command(d, 3, "duplicated", "verify", "proved", "--limit", "3")
	s.terminate(d)
}
