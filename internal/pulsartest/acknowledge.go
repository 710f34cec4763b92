package pulsartest

import (
	"fmt"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

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

// ackedID is one message id of an acknowledgement. A set names the messages of a batch that are
// not acknowledged yet, bit by bit.
type ackedID struct {
	at  Position
	set []int64
}

// ack acknowledges positions. Older than the mark is refused, and so is beyond
// the last entry (P27, facts 9.3). Any consumer may, the deposed too (P10).
func (s *subscription) ack(typ pulsarpb.CommandAck_AckType, ids []ackedID) *refusal {
	if s.sharing != nil && typ == pulsarpb.CommandAck_Cumulative {
		return nil // facts 4.5: answered well, and ignored
	}
	l := s.topic.log
	for _, id := range ids {
		n := l.after(id.at)
		if id.at.compare(l.last) > 0 {
			return refuse(pulsarpb.ServerError_UnknownError, "Invalid mark deleted position")
		}
		e := l.get(n - 1)
		if e != nil && e.at != id.at {
			e = nil // trimmed
		}
		rest := e != nil && s.cur.ackPart(e.n, id.set)
		switch {
		case typ == pulsarpb.CommandAck_Individual:
			if e != nil && !rest {
				s.acked(e.n)
			}
			continue
		case n < s.cur.mark || id.at.compare(l.before(s.cur.mark)) < 0:
			return refuse(pulsarpb.ServerError_UnknownError, fmt.Sprintf(
				"Mark deleting an already mark-deleted position. Current mark-delete: %v -- attempted mark delete: %v", l.before(s.cur.mark), id.at))
		case rest:
			n--
		}
		s.cur.ackTo(n)
	}
	s.save()
	s.tellEnd()
	if s.sharing != nil {
		s.dispatch() // a bucket may have drained
	}
	return nil
}

// save writes down how far the subscription is, now or when it is time to.
func (s *subscription) save() {
	env := s.topic.env
	every := env.opts.AckSaveInterval
	if s.cur.save(env.now(), every) || s.saving {
		return
	}
	s.saving = true
	env.after(every-env.now().Sub(s.cur.savedAt), func() {
		s.saving = false
		s.cur.save(env.now(), 0)
	})
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

func (c *consumer) tellEnd() {
	if !c.ended {
		c.ended = true
		c.peer.send(command(reachedEnd(c.id)))
	}
}
