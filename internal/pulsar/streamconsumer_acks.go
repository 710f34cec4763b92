package pulsar

import (
	"maps"
	"slices"
)

// deliver takes an entry that came. It is to be delivered under the number
// given, or, when the segment drains or the consumer is a former one, not.
func (m *streamMachine) deliver(id, opening uint64, at MessageID, messages int64) (delivery uint64, ok bool) {
	s := m.find(id, opening)
	if s == nil {
		return 0, false
	}
	s.granted -= messages
	if s.state != StreamReading {
		s.withheld = true
		return 0, false
	}
	m.delivery++
	s.held = append(s.held, heldEntry{id: at, messages: messages, delivery: m.delivery})
	s.heldCount += messages
	return m.delivery, true
}

// ack acknowledges all that is held at or before the positions: cumulatively
// where the segment has one owner, else one by one, since Key_Shared ignores a
// cumulative acknowledgement.
func (m *streamMachine) ack(p StreamPosition) {
	for _, id := range slices.Sorted(maps.Keys(p)) {
		s := m.segments[id]
		if s == nil || s.state != StreamReading && s.state != StreamDraining {
			continue
		}
		ids := s.release(p[id])
		if len(ids) == 0 {
			continue
		}
		s.unsettled++
		kind := effectAckIndividual
		if len(s.spec.Buckets) == 0 {
			// Entries come in order here, so this covers no other one. It is the
			// last one delivered, never a position from before the consumer was
			// opened: what precedes that may be a peer's.
			kind, ids = effectAckCumulative, []MessageID{slices.MaxFunc(ids, MessageID.Compare)}
		}
		m.emit(s, streamEffect{kind: kind, ids: ids})
		m.permit(s)
	}
}

// release takes what p covers off the held entries.
func (s *streamSegment) release(p SegmentPosition) []MessageID {
	var ids []MessageID
	rest := s.held[:0]
	for _, e := range s.held {
		if e.id.Compare(p.ID) > 0 || p.Delivery != 0 && e.delivery > p.Delivery {
			rest = append(rest, e)
			continue
		}
		ids = append(ids, e.id)
		s.heldCount -= e.messages
	}
	s.held = rest
	return ids
}

// receipt tells how an acknowledgement ended. Without it the broker may count
// the entries as held for ever, so the consumer is opened anew.
func (m *streamMachine) receipt(id, opening uint64, err error) {
	s := m.find(id, opening)
	if s == nil || s.state != StreamReading && s.state != StreamDraining {
		return
	}
	s.unsettled--
	if err != nil {
		s.err, s.sick = err, true
		m.close(s)
		return
	}
	s.failed = 0
	m.drained(s)
}

// permit renews the permits: together with what is held they make the window.
// Small renewals wait until the broker runs low.
func (m *streamMachine) permit(s *streamSegment) {
	if s.state != StreamReading {
		return
	}
	owed := m.window - s.heldCount - s.granted
	if owed <= 0 || owed*4 < m.window && s.granted*2 > m.window {
		return
	}
	s.granted += owed
	m.emit(s, streamEffect{kind: effectFlow, permits: uint32(owed)})
}
