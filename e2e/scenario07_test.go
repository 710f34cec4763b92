//go:build e2e

package e2e_test

import (
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/witness"
)

// geobridge is away for three minutes, longer than the broker keeps a sealed
// segment that nobody recorded an interest in, while the source splits, merges
// and is written to: nothing is lost.
func TestScenario07Away(t *testing.T) {
	t.Parallel()
	s := newScene(t, 15*time.Minute)
	s.must(s.west.admin.KeepAll(s.ctx, s.namespace)) // see doubledHere; the source keeps nothing
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 3)
	d := s.run(s.mapping("away", s.east, s.west, "orders"))
	const rate = 300
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 100, Rate: rate}, reader)
	s.comes(reader, 3*rate, "the first copies")
	s.terminate(d)

	away := byMode(s, 3*time.Minute, 10*time.Minute)
	since := time.Now()
	for _, c := range s.changes(n) {
		if c.at.name != s.east.name {
			continue
		}
		s.must(load.WaitReceipts(s.within(time.Minute, "load before "+c.what), load.Receipts()+20*rate))
		s.apply(n, c)
	}
	sealedAt := time.Now()
	// The rest of the three minutes passes as messages.
	for time.Since(since) < away {
		s.must(load.WaitReceipts(s.within(time.Minute, "load while geobridge is away"), load.Receipts()+rate))
	}
	t.Logf("away for %v, %v after the last change", time.Since(since).Round(time.Second), time.Since(sealedAt).Round(time.Second))
	s.start(d)
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	s.verdict(reader)
}
