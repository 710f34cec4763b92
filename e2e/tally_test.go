//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/witness"
)

// tally counts how often a topic stores each message. It reads the stored entries of
// each segment as soon as the layout lists it, side by side: a Stream consumer, which
// gets a child only when it has read the parents, falls behind by hundreds of layout
// changes, or sleeps. A recorded subscription keeps each entry until it is counted, and
// no longer: with retention, nothing would be trimmed or pruned under the copy.
type tally struct {
	*scene
	of    end
	tails map[string]*witness.Tail // by segment topic; follow's alone, as
	quiet map[string]quiet         // those that have a backlog

	mu     sync.Mutex
	copies map[string]int             // of each message
	seen   map[string]map[string]bool // positions by segment topic, of those that are read
	over   map[string]bool            // segment topics that are sealed, and counted to their end
}

// quiet is for how many rounds a reader has been given nothing that is new.
type quiet struct{ seen, rounds int }

// counting is the subscription that a tally reads under.
const counting = "tally"

// tally counts what is stored from now on, until the scenario ends.
func (s *scene) tally(of end) *tally {
	s.Helper()
	s.must(of.at.admin.Subscribe(s.ctx, of.name, counting))
	c := &tally{scene: s, of: of, tails: map[string]*witness.Tail{}, quiet: map[string]quiet{},
		copies: map[string]int{}, seen: map[string]map[string]bool{}, over: map[string]bool{}}
	stop := s.every(time.Second, c.follow)
	s.Cleanup(func() {
		stop()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for topic := range c.tails {
			if err := c.leave(ctx, topic); err != nil {
				s.Logf("closing the tally: %v", err)
			}
		}
	})
	return c
}

// follow keeps a reader on each segment that has or may get something to count.
func (c *tally) follow(ctx context.Context) error {
	layout, err := c.of.at.admin.Layout(ctx, c.of.name)
	if err != nil {
		return err
	}
	var failures []error
	listed := map[string]bool{}
	for _, segment := range layout.Segments {
		topic := c.of.name.SegmentTopic(segment)
		listed[topic] = true
		failures = append(failures, c.attend(ctx, topic, segment))
	}
	for topic := range c.tails {
		if !listed[topic] { // pruned
			failures = append(failures, c.leave(ctx, topic))
		}
	}
	return errors.Join(failures...)
}

// attend opens the reader of a segment where it is missing, and closes it where
// nothing more can come.
func (c *tally) attend(ctx context.Context, topic string, segment restadmin.Segment) error {
	tail := c.tails[topic]
	switch {
	case c.isOver(topic):
		return nil
	case tail == nil:
		// No limit but the client's own: a reader that is given up half open keeps the next one out.
		tail, err := c.wit.Tail(ctx, c.of.at.service, topic, counting, func(e witness.Entry) { c.count(topic, e) })
		if err == nil {
			c.tails[topic] = tail
		}
		return err
	case tail.Err() != nil:
		return errors.Join(tail.Err(), c.leave(ctx, topic))
	}
	backlog, err := c.of.at.admin.SegmentBacklog(ctx, c.of.name, segment.ID, counting)
	switch {
	case err != nil:
		return err
	case backlog > 0 && c.isQuiet(topic):
		return c.leave(ctx, topic) // the next reader makes the acknowledgement that was lost with a connection; this one does not
	case backlog > 0 || segment.Active:
		return nil
	}
	if err := c.leave(ctx, topic); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over[topic] = true
	delete(c.seen, topic)
	return nil
}

// isQuiet reports, now and then, that nothing new has come for a while.
func (c *tally) isQuiet(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := quiet{len(c.seen[topic]), c.quiet[topic].rounds + 1}
	if q.seen != c.quiet[topic].seen {
		q.rounds = 0
	}
	c.quiet[topic] = q
	return q.rounds%20 == 19
}

func (c *tally) leave(ctx context.Context, topic string) error {
	tail := c.tails[topic]
	delete(c.tails, topic)
	return tail.Stop(ctx)
}

// count takes each entry once: some come again after a lost connection.
func (c *tally) count(topic string, e witness.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[topic] == nil {
		c.seen[topic] = map[string]bool{}
	}
	if c.seen[topic][e.Position] {
		return
	}
	c.seen[topic][e.Position] = true
	for _, m := range e.Messages {
		c.copies[m.ID]++
	}
}

// uncounted is how many stored entries are not counted. Nothing must be published meanwhile.
func (c *tally) uncounted() (n int64, err error) {
	layout, err := c.of.at.admin.Layout(c.ctx, c.of.name)
	if err != nil {
		return 0, err
	}
	for _, segment := range layout.Segments { // each by itself: the topic's own sum may lack one that is being loaded
		if c.isOver(c.of.name.SegmentTopic(segment)) {
			continue
		}
		backlog, err := c.of.at.admin.SegmentBacklog(c.ctx, c.of.name, segment.ID, counting)
		if err != nil {
			return 0, err
		}
		n += backlog
	}
	return n, c.wit.Sync(c.ctx)
}

func (c *tally) isOver(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over[topic]
}

// stored is how many copies of a message have been counted.
func (c *tally) stored(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copies[id]
}

// String is one line of counts.
func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	doubled := 0
	for _, n := range c.copies {
		if n > 1 {
			doubled++
		}
	}
	return fmt.Sprintf("%d at %s, %d of them more than once, %d segments sealed and counted", len(c.copies), c.of.at.name, doubled, len(c.over))
}
