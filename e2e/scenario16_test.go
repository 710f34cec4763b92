//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/witness"
)

// All instances are off, one killed and one ended in order, for as long as the
// brokers need to delete an idle topic, while both sides split, merge, are
// unloaded, and are written to by others: nothing is missing afterwards, nothing
// twice, and geobridge's own topics are there still.
func TestScenario16AllOff(t *testing.T) {
	t.Parallel()
	s := newScene(t, 30*time.Minute)
	g := s.newStage(4, 3)
	random := g.random(1)
	a, b := g.sharers(g.mapping("off", g.east, g.west, "orders"))
	load := g.flow(300)
	g.copies(1_000, "at first")
	doubt := g.inDoubt(20*time.Second, a).unreceipted
	a.Kill()
	s.terminate(b)
	since := time.Now()
	apart := s.namespace + "-idle" // no unload: a topic that is not loaded is not deleted either
	for _, at := range []site{s.east, s.west} {
		s.must(at.admin.CreateNamespace(s.ctx, apart, at.name, 0))
		s.must(at.admin.Do(s.ctx, http.MethodPut, "persistent/"+apart+"/idle", nil, nil))
	}
	others := 0
	for turn := 0; time.Since(since) < byMode(s, 70*time.Second, 5*time.Minute) || g.exists(s.east, apart, "idle") || g.exists(s.west, apart, "idle"); turn++ {
		s.must(load.WaitReceipts(s.within(2*time.Minute, "load while all are off"), load.Receipts()+900))
		if turn < 12 {
			s.persist("a change at east", func() error { return g.change(g.east, random, true) })
			s.persist("a change at west", func() error { return g.change(g.west, random, true) })
		}
		prefix := fmt.Sprintf("other%d-", turn)
		s.publish(s.west, witness.Produce{Topic: g.n.Topic(), IDPrefix: prefix, KeyPrefix: prefix, Keys: 20, Count: 200, Rate: 400}, g.target)
		others += 200
		if turn%3 == 2 {
			s.persist("unloading west", func() error { return s.west.admin.Unload(s.ctx, s.namespace) })
			s.persist("unloading east", func() error { return s.east.admin.Unload(s.ctx, s.namespace) })
		}
	}
	for at, topic := range map[*site]string{&s.west: "checkpoint", &s.east: "parking"} {
		if !g.exists(*at, s.namespace, "__geobridge.geobridge."+topic) {
			s.Errorf("the %s topic is gone", topic)
		}
	}
	off := time.Since(since)
	s.start(a)
	s.start(b)
	g.copies(1_000, "again")
	g.exactly(load)
	g.Logf("off for %v, idle topics were deleted meanwhile, killed with %v sends in doubt; found stored %v; %d messages of others at the target",
		off.Round(time.Second), doubt, g.look(a).avoided+g.look(b).avoided, others)
	for _, at := range []site{g.east, g.west} {
		if g.changesOf(at, "split", "merge", "rebucket") == 0 {
			s.Errorf("the layout at %s did not change", at.name)
		}
	}
}

// exists reports whether a namespace lists a regular topic: asking for its stats
// would load it, and begin its idle time anew.
func (g *stage) exists(at site, namespace, topic string) bool {
	g.Helper()
	var all []string
	g.must(at.admin.Do(g.ctx, http.MethodGet, "persistent/"+namespace, nil, &all))
	return slices.Contains(all, "persistent://"+namespace+"/"+topic)
}
