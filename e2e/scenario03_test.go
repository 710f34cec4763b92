//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/witness"
)

// change is one change of a topic's layout.
type change struct {
	what string
	at   site
	do   func(restadmin.Layout) error
}

// changes lists the three kinds of change for both clusters, in turn.
func (s *scene) changes(n restadmin.Name) []change {
	var out []change
	for _, at := range []site{s.east, s.west} {
		out = append(out,
			change{"split at " + at.name, at, func(l restadmin.Layout) error { return at.admin.Split(s.ctx, n, byRange(l)[0].ID) }},
			change{"rebucket at " + at.name, at, func(l restadmin.Layout) error {
				last := byRange(l)[len(l.Active())-1]
				return at.admin.Rebucket(s.ctx, n, last.ID, len(last.Splits)%5+2) // another number than it has
			}},
			change{"merge at " + at.name, at, func(l restadmin.Layout) error {
				active := byRange(l)
				return at.admin.Merge(s.ctx, n, active[0].ID, active[1].ID)
			}})
	}
	// Source and target take turns: each kind meets the other side's.
	return []change{out[0], out[3], out[1], out[4], out[2], out[5]}
}

// byRange lists the active segments from the lowest range up.
func byRange(l restadmin.Layout) []restadmin.Segment {
	active := l.Active()
	slices.SortFunc(active, func(a, b restadmin.Segment) int { return a.Range.Start - b.Range.Start })
	return active
}

// apply makes one change.
func (s *scene) apply(n restadmin.Name, c change) {
	s.Helper()
	layout, err := c.at.admin.Layout(s.ctx, n)
	s.must(err)
	if err := c.do(layout); err != nil {
		s.Fatalf("%s: %v", c.what, err)
	}
	after, err := c.at.admin.Layout(s.ctx, n)
	s.must(err)
	s.Logf("%s: epoch %d to %d, %d active segments", c.what, layout.Epoch, after.Epoch, len(after.Active()))
}

// Split, merge and rebucket on both sides under load: nothing lost, nothing
// twice, every key in order.
func TestScenario03LayoutChangesUnderLoad(t *testing.T) {
	s := newScene(t, 20*time.Minute)
	s.must(s.west.admin.KeepAll(s.ctx, s.namespace)) // see doubledHere
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 4)
	d := s.run(s.mapping("moving", s.east, s.west, "orders"))
	const rate = 6_000
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 500, Rate: rate, Compression: "LZ4"}, reader)
	between := 4 * rate // messages between two changes
	for round := range byMode(s, 1, 6) {
		for _, c := range s.changes(n) {
			s.must(load.WaitReceipts(s.within(time.Minute, "load before "+c.what), load.Receipts()+between))
			// The copy must keep up, else the changes meet an idle bridge.
			s.comes(reader, load.Receipts()-between, fmt.Sprintf("round %d: copying before %s", round, c.what))
			s.apply(n, c)
		}
	}
	s.must(load.WaitReceipts(s.within(time.Minute, "load after the last change"), load.Receipts()+between))
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	s.verdict(reader)
	if m := s.metrics(d); !d.StandIn() {
		for _, at := range []site{s.east, s.west} {
			if got := m.Sum("layout_changes_total", "mapping=moving", "cluster="+at.name); got < 3 {
				s.Errorf("%v layout changes seen at %s, want at least 3", got, at.name)
			}
		}
		t.Logf("reroutes %v", m.Sum("reroutes_total"))
	}
}
