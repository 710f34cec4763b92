package pulsartest

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// The controller looks whether sealed segments are drained after the first of
// these, then after twice as long each time, up to the second (facts 3.4).
const firstPoll, lastPoll = 2 * time.Second, 15 * time.Minute

// group is the STREAM consumers of one subscription, as the controller knows them.
// Who is registered is written into the topic's metadata, the rest is the
// controller's own.
type group struct {
	core     *core
	topic    *scalable
	name     string
	sessions map[string]*session
	drained  map[uint64]bool // sealed segments that were found drained
	delay    time.Duration   // before the next poll
	turn     uint64          // tells an old poll from the present one
}

// session is one registration, which a name has one of.
type session struct {
	id   uint64 // of the consumer, on its connection
	peer peer   // nil while it is not connected
	turn uint64 // tells an old grace from the present one
}

func (s *session) attach(p peer, id uint64) {
	s.peer, s.id = p, id
	s.turn++
}

func newGroup(c *core, topic *scalable, name string) *group {
	return &group{core: c, topic: topic, name: name, sessions: map[string]*session{}, drained: map[uint64]bool{}}
}

// register adds a consumer. A name that is registered is taken over, whoever has
// it, and told its share; nobody else is, and the poll goes on as it was (facts 3.4,
// 4.4).
func (g *group) register(name string, p peer, id uint64) *pulsarpb.ScalableConsumerAssignment {
	s := g.sessions[name]
	if s != nil {
		s.attach(p, id)
		own := g.shares()[name]
		s.tell(own)
		return own
	}
	s = &session{}
	s.attach(p, id)
	g.sessions[name] = s
	own := g.rebalance()[name]
	g.rearm()
	g.core.joined(g.topic)
	return own
}

// unregister removes a consumer at once, and tells the others (facts 4.7). An id that
// another registration of the name has replaced removes nothing.
func (g *group) unregister(name string, id uint64) {
	if s := g.sessions[name]; s != nil && s.id == id {
		g.remove(name)
		if len(g.sessions) == 0 {
			g.suspend()
			delete(g.topic.groups, g.name)
		}
	}
}

func (g *group) remove(name string) {
	g.sessions[name].turn++
	delete(g.sessions, name)
	g.rebalance()
	g.core.push(g.topic.layout.Topic) // facts 2.4
}

// disconnect begins the grace of a name, even if the connection that ended is not the
// one that has it now: that is the bug of facts 4.4.
func (g *group) disconnect(name string) {
	if s := g.sessions[name]; s != nil && s.peer != nil {
		g.grace(name, s)
	}
}

func (g *group) grace(name string, s *session) {
	s.peer = nil
	s.turn++
	turn := s.turn
	g.core.after(g.core.opts.StreamGrace, func() {
		if s.turn == turn && g.sessions[name] == s {
			g.remove(name)
		}
	})
}

// suspend is the end of the controller, or of the group: nothing happens by itself
// any more.
func (g *group) suspend() {
	g.turn++
	for _, s := range g.sessions {
		s.peer = nil
		s.turn++
	}
}

// restore is a new controller's beginning: what was registered is still there, and
// each has the whole grace to come back (facts 3.6). What was drained is found out
// anew.
func (g *group) restore() {
	g.drained = map[uint64]bool{}
	for name, s := range g.sessions {
		g.grace(name, s)
	}
	g.rearm()
}

// layoutChanged gives everybody a share of the new layout.
func (g *group) layoutChanged() {
	if len(g.sessions) > 0 {
		g.rebalance()
		g.rearm()
	}
}

func (g *group) shares() map[string]*pulsarpb.ScalableConsumerAssignment {
	l := &g.topic.layout
	shares := map[string]*pulsarpb.ScalableConsumerAssignment{}
	given := divide(assignable(l, g.drained), names(g.sessions))
	for name := range g.sessions {
		shares[name] = assignmentOf(l, given[name])
	}
	return shares
}

// rebalance tells every consumer its share, changed or not (facts 4.2).
func (g *group) rebalance() map[string]*pulsarpb.ScalableConsumerAssignment {
	shares := g.shares()
	for _, name := range names(g.sessions) {
		g.sessions[name].tell(shares[name])
	}
	return shares
}

func (s *session) tell(own *pulsarpb.ScalableConsumerAssignment) {
	if s.peer == nil {
		return
	}
	m := base(pulsarpb.BaseCommand_SCALABLE_TOPIC_ASSIGNMENT_UPDATE)
	m.ScalableTopicAssignmentUpdate = &pulsarpb.CommandScalableTopicAssignmentUpdate{ConsumerId: proto.Uint64(s.id), Assignment: own}
	s.peer.send(command(m))
}

// rearm begins the polls anew.
func (g *group) rearm() {
	g.delay = firstPoll
	g.turn++
	g.schedule()
}

func (g *group) schedule() {
	turn := g.turn
	g.core.after(g.delay, func() {
		if g.turn == turn {
			g.poll()
		}
	})
	g.delay = min(2*g.delay, lastPoll)
}

// poll looks which sealed segments the group has drained since: all acknowledged,
// markers too. One that it never read is not (facts 3.3).
func (g *group) poll() {
	found := false
	g.core.eachSegment(g.topic, func(s *Segment, t *topic) {
		if sub := t.subs[g.name]; s.Sealed && !g.drained[s.ID] && sub != nil && sub.cur.backlog(t.log) == 0 {
			g.drained[s.ID] = true
			found = true
		}
	})
	if !found {
		g.schedule()
		return
	}
	g.rebalance()
	g.rearm()
}
