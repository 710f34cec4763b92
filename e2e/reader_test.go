//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// remedy gets a reader going that has stopped short of the end. There is one for each
// reason that has been observed with 5.0.1.
type remedy int

const (
	// For a reader that sleeps at the end of a sealed segment until that is loaded anew.
	unload remedy = iota
	// For a cumulative acknowledgement that was lost with a connection: what is delivered
	// again the client drops without acknowledging it, until there is another consumer.
	reopen
	// For a reader that waits for a child: the broker looks less and less often whether
	// the parent is drained, until the layout changes.
	relayout
	// For one that only takes its time.
	nothing
)

// remedies are tried in this order. The unload comes after what concerns the reader alone:
// it has geobridge, too, open its producers anew.
var remedies = [...]remedy{nothing, reopen, unload, reopen, relayout}

func (r remedy) String() string { return [...]string{"unload", "reopen", "relayout", "nothing"}[r] }

// rouse applies one remedy to a reader. What fails is tried again by the next one.
func (s *scene) rouse(c *witness.Consumption, with remedy) {
	s.Helper()
	e, err := s.readers[c], error(nil)
	switch with {
	case unload:
		err = e.at.admin.Unload(s.ctx, s.namespace)
	case reopen:
		ctx, cancel := context.WithTimeout(s.ctx, 90*time.Second)
		defer cancel()
		err = c.Reopen(ctx)
	case relayout:
		err = s.rebucketFirst(e)
	case nothing:
	}
	s.Logf("%s got nothing for a while, remedy: %v (%v)", c.Name(), with, err)
}

func (s *scene) rebucketFirst(e end) error {
	layout, err := e.at.admin.Layout(s.ctx, e.name)
	if err != nil {
		return err
	}
	first := byRange(layout)[0]
	return e.at.admin.Rebucket(s.ctx, e.name, first.ID, otherBuckets(first))
}

// follow waits for a reader for as long as something comes to it: behind hundreds of layout
// changes it takes its time. It rouses it by each of the remedies in turn when nothing does.
func (s *scene) follow(c *witness.Consumption, what string, wait func(context.Context) error, with ...remedy) error {
	s.Helper()
	for seen, idle := c.Distinct(), 0; ; {
		ctx, cancel := context.WithTimeoutCause(s.ctx, 15*time.Second, fmt.Errorf("%s: nothing comes any more", what))
		err := wait(ctx)
		cancel()
		if err == nil {
			return nil
		}
		switch n := c.Distinct(); {
		case n > seen:
			seen, idle = n, 0
		case idle == 2*len(remedies) || s.ctx.Err() != nil:
			return err
		default:
			s.rouse(c, with[idle%len(with)])
			idle++
		}
	}
}

// comes waits until a reader has got n different messages. Nothing is roused but the reader
// itself: geobridge must go on alone. How long that takes is not judged.
func (s *scene) comes(c *witness.Consumption, n int, what string) {
	s.Helper()
	s.must(s.follow(c, what, func(ctx context.Context) error { return c.WaitDistinct(ctx, n) }, nothing, reopen))
}

// allCome waits until a reader has got all that was published, see comes.
func (s *scene) allCome(c *witness.Consumption, what string) {
	s.Helper()
	if err := s.follow(c, what, c.WaitAll, nothing, reopen); err != nil {
		s.Error(err)
	}
}

// arrive waits until a reader has got all, when nothing of geobridge's hangs on it any more.
func (s *scene) arrive(c *witness.Consumption) {
	s.Helper()
	if err := s.follow(c, "the rest at "+s.readers[c].at.name, c.WaitAll, remedies[:]...); err != nil {
		s.Error(err)
	}
}

// readOut waits until a reader has read all that there is, doubles too.
func (s *scene) readOut(c *witness.Consumption) {
	s.Helper()
	turn := 0
	s.backlog(s.readers[c], application, 0, func() {
		s.rouse(c, remedies[turn%len(remedies)])
		turn++
	})
}

// drained waits until a subscription has no backlog.
func (s *scene) drained(e end, sub string) {
	s.Helper()
	s.backlog(e, sub, 0, nil)
}

// backlog waits until a subscription has at most so much of it, see eventually.
func (s *scene) backlog(e end, sub string, most int64, rouse func()) {
	s.Helper()
	s.eventually(fmt.Sprintf("emptying the backlog of %s on %s at %s", sub, e.name, e.at.name), func() (int64, error) {
		n, err := e.at.admin.Backlog(s.ctx, e.name, sub)
		if err == nil && n <= most { // the topic's own sum may lack a segment that is being loaded
			n, err = s.bySegment(e, sub)
		}
		return n - most, err
	}, rouse)
}

// bySegment sums the backlogs of the segments that have a cursor of the subscription.
func (s *scene) bySegment(e end, sub string) (sum int64, err error) {
	layout, err := e.at.admin.Layout(s.ctx, e.name)
	if err != nil {
		return 0, err
	}
	for _, segment := range layout.Segments {
		n, err := e.at.admin.SegmentBacklog(s.ctx, e.name, segment.ID, sub)
		if err != nil && !errors.Is(err, restadmin.ErrNoSubscription) {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// standstill is how long there may be no progress. Hundreds of generations of source
// segments take a second or two each, and more on a busy machine.
const standstill = 2 * time.Minute

// eventually waits until nothing is left, for as long as it gets less. rouse, if given, is
// called whenever that takes long.
func (s *scene) eventually(what string, left func() (int64, error), rouse func()) {
	s.Helper()
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	least, since, roused := int64(-1), time.Now(), time.Now()
	err := rig.Poll(ctx, 200*time.Millisecond, func() error {
		n, err := left()
		switch {
		case err == nil && n <= 0:
			return nil
		case err == nil:
			err = fmt.Errorf("%d are left", n)
			if least < 0 || n < least {
				least, since = n, time.Now()
			}
		}
		switch {
		case time.Since(since) > standstill:
			cancel(fmt.Errorf("%s: no progress for %v", what, standstill))
		case rouse != nil && time.Since(roused) > 15*time.Second:
			before := time.Now()
			rouse()
			roused = time.Now()
			since = since.Add(roused.Sub(before))
		}
		return err
	})
	if err != nil {
		s.Error(err)
	}
}

// persist does something until it is done, for at most a minute: a broker refuses a few
// calls while a bundle or a segment moves.
func (s *scene) persist(what string, do func() error) {
	s.Helper()
	s.must(rig.Poll(s.within(time.Minute, what), time.Second, do))
}
