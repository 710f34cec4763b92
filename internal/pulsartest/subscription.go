package pulsartest

import (
	"fmt"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// consumer is one attached consumer.
type consumer struct {
	peer     peer
	id       uint64
	name     string
	priority int32
	sub      *subscription
	permits  int64 // in messages; negative when overdrawn
	ended    bool  // REACHED_END_OF_TOPIC was sent
}

// subscription is a cursor and those who read through it.
type subscription struct {
	topic     *topic
	name      string
	typ       pulsarpb.CommandSubscribe_SubType // of the consumers attached
	durable   bool
	compacted bool // read_compacted
	cur       *cursor
	consumers []*consumer
	active    *consumer
	sharing   *sharing // of Shared and Key_Shared ones, while somebody is attached
	saving    bool     // a save is due
	starved   bool     // nothing is delivered until somebody attaches
	waiting   bool     // the new active one gets nothing yet
	turn      uint64   // tells an old timer from a new one
}

// attach adds a consumer, or says why not (facts 4.3). What a Key_Shared one declares
// is in meta.
func (s *subscription) attach(c *consumer, typ pulsarpb.CommandSubscribe_SubType, meta *pulsarpb.KeySharedMeta) *refusal {
	if len(s.consumers) > 0 {
		switch {
		case s.typ != typ:
			return refuse(pulsarpb.ServerError_ConsumerBusy, "Subscription is of different type")
		case typ == pulsarpb.CommandSubscribe_Exclusive:
			return refuse(pulsarpb.ServerError_ConsumerBusy, "Exclusive consumer is already connected")
		}
	}
	if isShared(typ) {
		return s.attachShared(c, typ, meta)
	}
	s.add(c, typ)
	if changed := s.elect(); !changed && typ == pulsarpb.CommandSubscribe_Failover {
		c.tellActive(false) // P8
	}
	return nil
}

func (s *subscription) add(c *consumer, typ pulsarpb.CommandSubscribe_SubType) {
	s.typ = typ
	s.starved = false
	c.sub = s
	s.consumers = append(s.consumers, c)
}

// detach removes a consumer; with the last one a subscription that is not durable
// goes.
func (s *subscription) detach(c *consumer) {
	s.consumers = slices.DeleteFunc(s.consumers, func(o *consumer) bool { return o == c })
	if len(s.consumers) == 0 && !s.durable && s.topic.subs[s.name] == s {
		delete(s.topic.subs, s.name)
	}
	switch {
	case s.sharing == nil:
		s.elect()
	case len(s.consumers) == 0:
		s.sharing = nil
	default:
		s.sharing.leave(c)
		s.dispatch()
	}
}

// elect finds the active consumer: of those with the lowest priority level, the
// one whose name the consistent hash of the topic's name falls to (P7). It tells
// whether that is another one now. In a Failover subscription it takes over some time
// later, and so does whoever is elected until then.
func (s *subscription) elect() (changed bool) {
	chosen := s.owner()
	if chosen == s.active {
		return false
	}
	s.active = chosen
	d := s.topic.env.opts.FailoverDelay
	switch {
	case chosen == nil:
		s.turn++
		s.waiting = false
		s.cur.rewind()
	case s.typ != pulsarpb.CommandSubscribe_Failover || d <= 0:
		s.takeOver()
	case !s.waiting:
		s.waiting = true
		turn := s.turn
		s.topic.env.after(d, func() {
			if s.turn == turn {
				s.waiting = false
				s.takeOver()
			}
		})
	}
	return true
}

// takeOver begins delivery to the active consumer, at the mark (P10). All are told, the
// passive ones again (P8).
func (s *subscription) takeOver() {
	s.cur.rewind()
	if s.typ == pulsarpb.CommandSubscribe_Failover {
		for _, c := range s.consumers {
			c.tellActive(c == s.active)
		}
	}
	s.dispatch()
}

// ringPoints is how often each consumer is on the ring (P7).
const ringPoints = 100

func (s *subscription) owner() *consumer {
	var first, next *consumer
	var firstHash, nextHash uint32
	level := int32(0)
	for i, c := range s.consumers {
		if i == 0 || c.priority < level {
			level = c.priority
		}
	}
	target := ringHash(s.topic.name)
	for _, c := range s.consumers {
		if c.priority != level {
			continue
		}
		for i := range ringPoints {
			h := ringHash(fmt.Sprint(c.name, i))
			if first == nil || h <= firstHash { // of two with one name, the later
				first, firstHash = c, h
			}
			if h >= target && (next == nil || h <= nextHash) {
				next, nextHash = c, h
			}
		}
	}
	if next != nil {
		return next
	}
	return first
}

func ringHash(s string) uint32 { return murmur([]byte(s)) &^ (1 << 31) }

// dispatch delivers what there are permits for.
func (s *subscription) dispatch() {
	switch {
	case s.starved:
	case s.sharing != nil:
		s.share()
	default:
		s.dispatchActive()
	}
}

// dispatchActive delivers what the active consumer has permits for. One round reads as
// many entries as there are permits, whatever they hold: the balance may go
// negative (facts 9.2). A consumer with permits passes markers by itself (P21).
func (s *subscription) dispatchActive() {
	c := s.active
	if c == nil || s.waiting {
		return
	}
	for c.permits > 0 {
		round, sent := c.permits, false
		for range round {
			e := s.topic.view(s.cur.read, s.compacted)
			if e == nil {
				break
			}
			s.cur.read = e.n + 1
			switch {
			case e.marker || !e.readable: // facts 5: never delivered
				s.cur.ack(e.n)
			case s.cur.acked[e.n]:
			default:
				s.deliver(c, e)
			}
			sent = true
		}
		if !sent {
			break
		}
	}
	if c.permits > 0 && s.drained() {
		c.tellEnd() // P24: a start at the end
	}
}

func (s *subscription) deliver(c *consumer, e *entry) {
	c.permits -= e.messages()
	m := messageTo(c.id, e.at)
	m.AckSet = s.cur.partial[e.n]
	c.peer.send(outgoing{message: m, entry: e})
}

// closeAll ends all consumers from the broker's side (P12, P14).
func (s *subscription) closeAll() {
	ended := s.consumers
	s.consumers, s.active, s.sharing = nil, nil, nil
	s.waiting = false
	s.turn++
	for _, c := range ended {
		c.peer.send(command(closeConsumer(c.id)))
		c.peer.forgetConsumer(c.id)
	}
	if !s.durable && s.topic.subs[s.name] == s {
		delete(s.topic.subs, s.name)
	}
}

func (c *consumer) tellActive(active bool) { c.peer.send(command(activeChange(c.id, active))) }
