//go:build e2e

package e2e_test

import (
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/witness"
)

// Both ways: each message arrives once on the other side and never comes back.
func TestScenario06TwoWay(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	atEast, atWest := s.consume(s.east, n, 2), s.consume(s.west, n, 2)
	d := s.run(s.mapping("there", s.east, s.west, "orders"), s.mapping("back", s.west, s.east, "orders"))
	each := byMode(s, 5_000, 200_000)
	fromEast := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "e", KeyPrefix: "e", Keys: 50, Count: each, Rate: 2_000,
		Compression: "LZ4"}, atEast, atWest)
	fromWest := s.produce(s.west, witness.Produce{Topic: n.Topic(), IDPrefix: "w", KeyPrefix: "w", Keys: 50, Count: each, Rate: 2_000,
		Compression: "ZSTD"}, atEast, atWest)
	s.must(fromEast.WaitDone(s.within(2*time.Minute, "publishing at east")))
	s.must(fromWest.WaitDone(s.within(2*time.Minute, "publishing at west")))
	for _, reader := range []*witness.Consumption{atEast, atWest} {
		// Empty backlogs on both sides: what came from the other side has been
		// read again and passed over, so nothing can come after that.
		s.verdict(reader)
		if got := reader.Distinct(); got != 2*each {
			s.Errorf("%d messages, want %d", got, 2*each)
		}
	}
	if got := atEast.ReplicatedFrom(); got["-"] != each || got[s.west.name] != each {
		s.Errorf("at east the messages come from %v", got)
	}
	if got := atWest.ReplicatedFrom(); got["-"] != each || got[s.east.name] != each {
		s.Errorf("at west the messages come from %v", got)
	}
	m := s.metrics(d)
	for _, mapping := range []string{"mapping=there", "mapping=back"} {
		if got := m.Sum("messages_total", mapping); got != float64(each) {
			s.Errorf("%s: messages_total is %v, want %d", mapping, got, each)
		}
		if m.Sum("entries_total", mapping, "outcome=skipped", "reason=replicated_from") == 0 {
			s.Errorf("%s: no entry was skipped by replicated_from", mapping)
		}
	}
}
