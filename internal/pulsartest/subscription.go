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
	waiting   bool     // the new active one gets nothing yet
	turn      uint64   // counts elections, so that an old timer is told from a new one
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
	if typ == pulsarpb.CommandSubscribe_Failover && len(s.consumers) > 1 {
		c.tellActive(false) // P8
	}
	s.elect()
	return nil
}

func (s *subscription) add(c *consumer, typ pulsarpb.CommandSubscribe_SubType) {
	s.typ = typ
	c.sub = s
	s.consumers = append(s.consumers, c)
}

func (s *subscription) attachShared(c *consumer, typ pulsarpb.CommandSubscribe_SubType, meta *pulsarpb.KeySharedMeta) *refusal {
	var buckets []bucket
	if typ == pulsarpb.CommandSubscribe_Key_Shared {
		switch {
		case byBucket(meta):
			var refused *refusal
			if buckets, refused = boundaries(meta); refused != nil {
				return refused
			}
		case s.sharing == nil:
			return refuse(pulsarpb.ServerError_NotAllowedError, "pulsartest: Key_Shared by entry bucket only")
		}
	}
	if s.sharing == nil {
		s.sharing = newSharing(buckets)
		s.cur.rewind()
	} else if refused := s.sharing.fits(meta, buckets); refused != nil {
		return refused
	}
	s.add(c, typ)
	s.sharing.join(c)
	s.dispatch()
	return nil
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
// one whose name the consistent hash of the topic's name falls to (P7).
func (s *subscription) elect() {
	chosen := s.owner()
	if chosen == s.active {
		return
	}
	s.active = chosen
	s.cur.rewind() // P10
	s.turn++
	s.waiting = false
	if chosen == nil || s.typ != pulsarpb.CommandSubscribe_Failover {
		s.dispatch()
		return
	}
	for _, c := range s.consumers {
		c.tellActive(c == chosen) // P8: the passive ones hear it again
	}
	if d := s.topic.env.opts.FailoverDelay; d > 0 {
		s.waiting = true
		turn := s.turn
		s.topic.env.after(d, func() {
			if s.turn == turn {
				s.waiting = false
				s.dispatch()
			}
		})
		return
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
			if first == nil || h < firstHash {
				first, firstHash = c, h
			}
			if h >= target && (next == nil || h < nextHash) {
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
	if s.sharing != nil {
		s.share()
		return
	}
	s.dispatchActive()
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
			case e.marker:
				s.cur.ack(e.n)
			case !e.readable || s.cur.acked[e.n]: // facts 5: undecodable is never delivered
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
	c.peer.send(outgoing{message: messageTo(c.id, e.at), entry: e})
}

// redeliver sends again what a consumer did not acknowledge: in a shared subscription
// the entries that it names, or all; in another one everything from the first hole
// (facts 9.3).
func (s *subscription) redeliver(c *consumer, named []Position) {
	switch {
	case s.sharing != nil:
		s.sharing.takeBack(c, func(n int64) bool {
			return len(named) == 0 || slices.Contains(named, s.topic.view(n, s.compacted).at)
		})
	case s.active != c:
		return
	default:
		s.cur.rewind()
	}
	s.dispatch()
}

// drained: nothing will ever come any more, and all there was is acknowledged.
func (s *subscription) drained() bool {
	return s.topic.log.terminated && s.cur.backlog(s.topic.log) == 0
}

// tellEnd tells every consumer of the end; one who joins later hears nothing
// (P13).
func (s *subscription) tellEnd() {
	if s.drained() {
		for _, c := range s.consumers {
			c.tellEnd()
		}
	}
}

// ack acknowledges positions. Older than the mark is refused, and so is beyond
// the last entry (P27, facts 9.3). Any consumer may, the deposed too (P10).
func (s *subscription) ack(typ pulsarpb.CommandAck_AckType, at []Position) *refusal {
	if s.sharing != nil && typ == pulsarpb.CommandAck_Cumulative {
		return nil // facts 4.5: answered well, and ignored
	}
	l := s.topic.log
	for _, p := range at {
		n := l.after(p)
		if p.compare(l.last) > 0 {
			return refuse(pulsarpb.ServerError_UnknownError, "Invalid mark deleted position")
		}
		if typ == pulsarpb.CommandAck_Individual {
			if e := l.get(n - 1); e != nil && e.at == p {
				s.acked(e.n)
			}
			continue
		}
		if n < s.cur.mark {
			return refuse(pulsarpb.ServerError_UnknownError, "Mark deleting an already mark-deleted position")
		}
		s.cur.ackTo(n)
	}
	s.cur.save(s.topic.env.now(), s.topic.env.opts.AckSaveInterval)
	s.tellEnd()
	if s.sharing != nil {
		s.dispatch() // a bucket may have drained
	}
	return nil
}

func (s *subscription) acked(n int64) {
	s.cur.ack(n)
	if s.sharing != nil {
		s.sharing.release(n)
	}
}

// skipAll moves the subscription to the end. Nobody is told.
func (s *subscription) skipAll() {
	s.cur.ackTo(s.topic.log.end())
	s.cur.save(s.topic.env.now(), 0)
	if s.sharing != nil {
		clear(s.sharing.held)
		for b := range s.sharing.counts {
			clear(s.sharing.counts[b])
		}
	}
	s.tellEnd()
}

// closeAll ends all consumers from the broker's side (P12, P14).
func (s *subscription) closeAll() {
	ended := s.consumers
	s.consumers, s.active, s.sharing = nil, nil, nil
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

func (c *consumer) tellEnd() {
	if !c.ended {
		c.ended = true
		c.peer.send(command(reachedEnd(c.id)))
	}
}
