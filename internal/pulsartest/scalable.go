package pulsartest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Errors of what is asked of a Cluster directly.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
)

// scalable is one scalable topic: its layout, and which subscriptions are
// recorded. The segments' logs are topics of their own.
type scalable struct {
	layout     Layout
	nextID     uint64
	records    map[string]bool
	controller *Broker           // nil before one was elected: pushes name it (facts 2.3)
	asked      []*Broker         // those that were ever asked to be it
	groups     map[string]*group // of STREAM consumers, by subscription
	autoScale  bool
	rebucketed time.Time // the last time
}

func notFound(what, name string) error { return fmt.Errorf("%s %s: %w", what, name, ErrNotFound) }

func (c *core) scalable(name string) (*scalable, error) {
	if s := c.scalables[name]; s != nil {
		return s, nil
	}
	return nil, notFound("scalable topic", name)
}

// create makes a scalable topic. A namespace that is not there is no obstacle
// (facts 2.1).
func (c *core) create(name string, segments int) error {
	if c.scalables[name] != nil {
		return fmt.Errorf("scalable topic %s: %w", name, ErrExists)
	}
	if !strings.HasPrefix(name, "topic://") || strings.Count(name, "/") != 4 || segments < 1 || segments > 64 {
		return fmt.Errorf("scalable topic %q with %d segments: malformed", name, segments)
	}
	s := &scalable{
		layout: Layout{Topic: name, Segments: initialSegments(segments, c.now())},
		nextID: uint64(segments), records: map[string]bool{}, groups: map[string]*group{}, autoScale: !c.opts.NoAutoScale,
	}
	c.scalables[name] = s
	for i := range s.layout.Segments {
		c.segmentTopic(s.layout.Segments[i].Topic(name))
	}
	c.push(name) // facts 2.6: watches that are still open see the new incarnation
	c.announce(name, true)
	return nil
}

// segmentTopic makes the topic of a new segment; an orphan of that name is taken over as
// it is, with all that it holds and all who hold it, and sealed if it is (5.0.1, observed).
func (c *core) segmentTopic(name string) *topic {
	if t := c.topics[name]; t != nil {
		return t
	}
	return c.addTopic(name)
}

// change seals the parents of a plan and opens its children, each with a cursor at
// its beginning for every subscription that its parents have (facts 3.2, P13).
// The new layout is pushed after the seal (facts 6), once more for nothing (facts
// 2.4).
func (c *core) change(s *scalable, p plan) {
	subs := map[string]bool{}
	for _, id := range p.parents {
		if t := c.topics[s.layout.find(id).Topic(s.layout.Topic)]; t != nil {
			t.seal()
			for name, sub := range t.subs {
				subs[name] = subs[name] || sub.durable
			}
		}
	}
	first := s.nextID
	s.nextID += uint64(len(p.children))
	s.layout.apply(p, first, c.now())
	for i := range p.children {
		t := c.segmentTopic(s.layout.find(first + uint64(i)).Topic(s.layout.Topic))
		for name, durable := range subs {
			if durable {
				t.subscription(name, 0)
			}
		}
	}
	if len(p.parents) == 1 && len(p.children) == 1 {
		s.rebucketed = c.now()
	}
	c.push(s.layout.Topic)
	s.layoutChanged()
	c.push(s.layout.Topic)
}

// layoutChanged tells the STREAM consumers.
func (s *scalable) layoutChanged() {
	for _, name := range names(s.groups) {
		s.groups[name].layoutChanged()
	}
}

// record writes a subscription into the topic's metadata, and makes the cursors
// that are missing on active segments, at earliest (facts 3.5, P16).
func (c *core) record(s *scalable, sub string) {
	s.records[sub] = true
	c.eachSegment(s, func(seg *Segment, t *topic) {
		if !seg.Sealed {
			t.subscription(sub, t.log.start)
		}
	})
}

// skipAll moves a subscription to the end of every segment; nobody is told (P16).
func (c *core) skipAll(s *scalable, sub string) {
	c.eachSegment(s, func(_ *Segment, t *topic) {
		if cursor := t.subs[sub]; cursor != nil {
			cursor.skipAll()
		}
	})
}

// forget removes the record, silently; a cursor goes only where nobody is
// attached (P17).
func (c *core) forget(s *scalable, sub string) {
	delete(s.records, sub)
	c.eachSegment(s, func(_ *Segment, t *topic) {
		if cursor := t.subs[sub]; cursor != nil && len(cursor.consumers) == 0 {
			delete(t.subs, sub)
		}
	})
}

// prune deletes the sealed segments that every subscription has drained which is
// recorded, or registered as STREAM: with their data, whoever else reads them (facts 0.1,
// 3.5, P14). It returns how many went. A broker takes those without parents, every 60 s
// (5.0.1, its code); here all of its rounds are one.
func (c *core) prune(s *scalable) (n int) {
	for {
		gone := c.pruneRoots(s)
		if gone == 0 {
			return n
		}
		n += gone
		c.push(s.layout.Topic)
		s.layoutChanged()
	}
}

// pruneRoots is one round. What has a parent stays: it would not be known any more what
// its children have to wait for.
func (c *core) pruneRoots(s *scalable) int {
	var gone []uint64
	c.eachSegment(s, func(seg *Segment, t *topic) {
		if seg.Sealed && len(seg.Parents) == 0 && !c.opts.Retention && s.drainedByAll(t) {
			gone = append(gone, seg.ID)
			t.closeAll()
			delete(c.topics, t.name)
		}
	})
	for _, id := range gone {
		s.layout.remove(id)
	}
	return len(gone)
}

// drainedByAll tells whether a segment has nothing left for anybody whose progress counts. One who
// never read it has not drained it.
func (s *scalable) drainedByAll(t *topic) bool {
	for name := range s.protected() {
		if sub := t.subs[name]; sub == nil || sub.cur.backlog(t.log) > 0 {
			return false
		}
	}
	return true
}

// protected are the subscriptions that keep data: a registration does as long as it
// lives.
func (s *scalable) protected() map[string]bool {
	all := maps.Clone(s.records)
	for name, g := range s.groups {
		if len(g.sessions) > 0 {
			all[name] = true
		}
	}
	return all
}

// remove deletes a scalable topic. Without force, segments that are in use stay
// as orphans, and answer well (facts 2.5). Layout watches are not told: a push
// without a controller is all that comes. The namespace watch is.
func (c *core) remove(s *scalable, force bool) {
	s.controller = nil
	for _, g := range s.groups {
		g.suspend() // facts 2.5: they hear nothing
	}
	c.push(s.layout.Topic)
	c.eachSegment(s, func(_ *Segment, t *topic) {
		if force || !t.attached() {
			t.closeAll()
			delete(c.topics, t.name)
		}
	})
	delete(c.scalables, s.layout.Topic)
	c.announce(s.layout.Topic, false)
}

func (c *core) eachSegment(s *scalable, f func(*Segment, *topic)) {
	for i := range s.layout.Segments {
		seg := &s.layout.Segments[i]
		if t := c.topics[seg.Topic(s.layout.Topic)]; t != nil {
			f(seg, t)
		}
	}
}
