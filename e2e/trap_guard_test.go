//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/rig"
)

// An operator deletes the guard under a running geobridge: it is said, and made again
// below what the records need. A crash after it finds what was stored, though the
// target's topics are loaded anew and trimmed.
func TestTrapGuardDeleted(t *testing.T) {
	s := newScene(t, 8*time.Minute)
	g := s.newStage(2, 2)
	d := s.run(s.mapping("unguarded", s.east, s.west, "orders"))
	load := g.flow(1_000)
	g.copies(2_000, "before")
	guard := "geobridge-guard." + subscription("unguarded", s.west)
	s.must(s.west.admin.Do(s.ctx, http.MethodDelete, fmt.Sprintf("scalable/%s/subscriptions/%s", g.n, guard), nil, nil))
	s.must(rig.Poll(s.within(time.Minute, "recording the guard again"), time.Second, func() error {
		subs, err := s.west.admin.Subscriptions(s.ctx, g.n)
		if err == nil && (subs[guard].Type != "STREAM" || !strings.Contains(d.Log(), "the guard is not recorded at the target any more")) {
			err = fmt.Errorf("%s is %+v", guard, subs[guard])
		}
		return err
	}))
	if n := g.inDoubt(10*time.Second, d).unreceipted; n == 0 {
		s.Error("nothing in doubt: this run proves nothing")
	}
	d.Kill()
	s.must(s.west.admin.Unload(s.ctx, s.namespace))
	s.start(d)
	g.copies(1_000, "after the crash")
	g.exactly(load)
	if n := s.metrics(d).Sum("evidence_lost_total"); n != 0 {
		s.Errorf("evidence lost %v times", n)
	}
	s.terminate(d)
}
