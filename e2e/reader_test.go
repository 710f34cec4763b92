//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// arrive waits until a reader has all, for as long as something comes, and rouses it when
// nothing does: behind hundreds of layout changes it takes its time.
func (s *scene) arrive(c *witness.Consumption) {
	s.Helper()
	for seen, idle := 0, 0; ; {
		err := c.WaitAll(s.within(15*time.Second, "the rest at "+s.readers[c].at.name))
		if err == nil {
			return
		}
		if n := c.Distinct(); n > seen {
			seen, idle = n, 0
			continue
		}
		if idle == 2*remedies {
			s.Error(err)
			return
		}
		s.must(s.rouse(c, idle))
		idle++
	}
}

// readOut waits until a reader has read all that there is, doubles too.
func (s *scene) readOut(c *witness.Consumption) {
	s.Helper()
	turn := 0
	s.emptied(s.readers[c], application, 90*time.Second, func() error {
		turn++
		return s.rouse(c, turn-1)
	})
}

// The remedies of rouse, in their order.
const (
	unloads = iota
	reopens
	relayouts
	remedies
)

// rouse gets a reader going that has stopped short of the end, in turn by each remedy for
// what has been observed with 5.0.1: it sleeps at the end of a sealed segment, until that is
// loaded anew; a cumulative acknowledgement was lost with a connection, and what is
// delivered again the client drops without acknowledging it, until there is another
// consumer; it waits for a child, as the broker looks less and less often whether the parent
// is drained, until the layout changes.
func (s *scene) rouse(c *witness.Consumption, turn int) error {
	e := s.readers[c]
	switch turn % remedies {
	case unloads:
		return e.at.admin.Unload(s.ctx, s.namespace)
	case reopens:
		return c.Reopen(s.within(time.Minute, "subscribing the witness again"))
	default: // relayouts
		layout, err := e.at.admin.Layout(s.ctx, e.name)
		if err != nil {
			return err
		}
		first := byRange(layout)[0]
		return e.at.admin.Rebucket(s.ctx, e.name, first.ID, len(first.Splits)%4+2)
	}
}

// drained waits until a subscription has no backlog.
func (s *scene) drained(e end, sub string) {
	s.Helper()
	s.emptied(e, sub, time.Minute, nil)
}

// atMost waits until the backlog of a subscription is at most so much.
func (s *scene) atMost(e end, sub string, most int64) {
	s.Helper()
	s.backlog(e, sub, most, time.Minute, nil)
}

// emptied waits until a subscription has no backlog, see eventually.
func (s *scene) emptied(e end, sub string, limit time.Duration, rouse func() error) {
	s.Helper()
	s.backlog(e, sub, 0, limit, rouse)
}

func (s *scene) backlog(e end, sub string, most int64, limit time.Duration, rouse func() error) {
	s.Helper()
	s.eventually(limit, fmt.Sprintf("emptying the backlog of %s on %s at %s", sub, e.name, e.at.name), func() error {
		backlog, err := e.at.admin.Backlog(s.ctx, e.name, sub)
		if err == nil && backlog > most {
			err = fmt.Errorf("backlog %d", backlog)
		}
		return err
	}, rouse)
}

// eventually waits until a check says nil; rouse, if given, is called whenever that takes
// long.
func (s *scene) eventually(limit time.Duration, what string, check, rouse func() error) {
	s.Helper()
	next := time.Now().Add(15 * time.Second)
	err := rig.Poll(s.within(limit, what), 200*time.Millisecond, func() error {
		err := check()
		if err != nil && rouse != nil && time.Now().After(next) {
			next = time.Now().Add(15 * time.Second)
			return errors.Join(err, rouse())
		}
		return err
	})
	if err != nil {
		s.Error(err)
	}
}
