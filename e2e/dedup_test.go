//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
)

// deduplicate switches broker deduplication on in the scene's namespace on both sides,
// and waits until new topics have it: the policy is news to a broker a little later.
func (s *scene) deduplicate() {
	s.Helper()
	for _, at := range []site{s.east, s.west} {
		s.must(at.admin.Do(s.ctx, http.MethodPost, "namespaces/"+s.namespace+"/deduplication", true, nil))
		next := 0
		s.must(rig.Poll(s.within(time.Minute, "deduplication at "+at.name), 200*time.Millisecond, func() error {
			next++
			return s.deduplicates(at, s.create(at, fmt.Sprintf("probe-%d", next), 1, 0))
		}))
	}
}

// deduplicates sends an entry twice to each active segment: the second has to be
// answered with a receipt that names no position.
func (s *scene) deduplicates(at site, n restadmin.Name) error {
	s.Helper()
	layout, err := at.admin.Layout(s.ctx, n)
	s.must(err)
	for _, segment := range layout.Active() {
		f := s.forge(at, n, segment)
		f.publish(single("probe", 1))
		f.next--
		f.publish(single("probe", 1))
		if !f.last.Missing() {
			return fmt.Errorf("segment %d of %s at %s stored a duplicate at %v", segment.ID, n, at.name, f.last)
		}
	}
	return nil
}

// deduplicated fails the scenario if a side of the stage stores duplicates at its end:
// the layouts have changed since the beginning.
func (g *stage) deduplicated() {
	g.Helper()
	for _, at := range []site{g.east, g.west} {
		if err := g.deduplicates(at, g.n); err != nil {
			g.Error(err)
		}
	}
}
