package replicate

import (
	"context"
	"fmt"

	"github.com/geobridge/geobridge/reroute"
)

// What a mapping as a whole loses at the source.

// lost counts a loss, and says so in the log and in the status.
func (m *Mapping) lost(reason, text string) {
	m.env.metrics.gaps[reason].Inc()
	m.note(text)
}

func (m *Mapping) note(text string) {
	m.env.Log.Error(text)
	m.env.Board.Note(m.env.Mapping, text)
}

// accepts takes an operator's word, once; without it the mapping holds.
func (m *Mapping) accepts() bool {
	select {
	case <-m.resume:
		m.holds.Store(false)
		return true
	default:
		m.holds.Store(true)
		return false
	}
}

// resubscribe is for a mapping that has run before, and whose subscription is gone.
// It begins at the earliest entry that there is: what the records know as copied is
// not copied again. It is asked once more: another instance may have made it since.
func (m *Mapping) resubscribe(ctx context.Context) error {
	subs, err := m.env.Source.Admin.Subscriptions(ctx, m.env.Source.Topic)
	if err != nil {
		return fmt.Errorf("subscriptions of %s: %w", m.env.Source.Topic, err)
	}
	if _, there := subs[m.env.Subscription]; there {
		return nil
	}
	reason, text := gapUnsubscribed, fmt.Sprintf("subscription %s was there once and is gone from the source", m.env.Subscription)
	reading, cancel := context.WithTimeout(ctx, protectionInterval)
	defer cancel()
	if layout := m.env.Source.Layout.Snapshot().Layout; layout != nil {
		err := m.env.Records.Each(reading, func(_ string, rec Record) {
			if rec.Lane != nil && m.env.owns(*rec.Lane) && remade(layout, rec.Lane.source()) {
				reason, text = gapRecreated, fmt.Sprintf("source topic %s was deleted and created again", m.env.Source.Topic)
			}
		})
		if err != nil {
			return fmt.Errorf("records of %s: %w", m.env.CheckpointTopic, err)
		}
	}
	if m.env.StopGap && !m.accepts() {
		if !m.counted {
			m.counted = true
			m.lost(reason, text+": what was not copied may be lost")
		}
		return held{text + ": what was not copied may be lost" + gapRemedy}
	}
	if !m.counted {
		m.lost(reason, text+": what was not copied may be lost; all that is there is copied")
	}
	m.counted = false
	m.env.unsubscribed.Add(1)
	return nil
}

// held is a state that an operator ends.
type held struct{ msg string }

func (h held) Error() string { return h.msg }

// acceptRecreated counts what went with a source topic that was deleted, and reports
// whether the lanes may go on with the new one.
func (m *Mapping) acceptRecreated() bool {
	if !m.recreated {
		m.recreated = true
		if m.behind() {
			m.counted = true
			m.lost(gapRecreated, fmt.Sprintf("source topic %s was deleted and created again before all of it was copied", m.env.Source.Topic))
		}
	}
	if !m.counted || !m.env.StopGap || m.accepts() {
		m.counted = false
		return true
	}
	m.show(ShowStopped, "the source topic was deleted and created again before all of it was copied"+gapRemedy)
	return false
}

// behind reports whether a lane of this instance had not copied all that there was,
// as far as it knows.
func (m *Mapping) behind() bool {
	for _, r := range m.all {
		if r.lane.behind.Load() {
			return true
		}
	}
	return false
}

// ended is told that a segment has left the layout. One that was not read to its
// end was deleted too early: its subscription was not recorded, or was moved.
func (m *Mapping) ended(l *Lane, layout *reroute.Layout) {
	if !l.behind.Load() || remade(layout, l.id.source()) {
		return // told of the whole topic
	}
	m.tooEarly(l.segment.ID)
}

// tooEarly counts what went with a segment.
func (m *Mapping) tooEarly(segment uint64) {
	m.pruned = fmt.Sprintf("source segment %d was deleted before all of it was copied", segment)
	m.lost(gapTruncated, m.pruned)
}

// acceptPruned reports whether the lanes of the children may go on.
func (m *Mapping) acceptPruned() bool {
	if m.pruned != "" && m.env.StopGap && !m.accepts() {
		return false
	}
	m.pruned = ""
	return true
}

// prunedBefore looks for segments that were deleted while nobody ran. Of entries that
// a lane had been given and that were not complete it is known that they went; whether
// there were others nothing tells.
func (m *Mapping) prunedBefore(ctx context.Context) error {
	layout := m.env.Source.Layout.Snapshot().Layout
	if layout == nil || m.lookedBack {
		return m.holdsPruned()
	}
	reading, cancel := context.WithTimeout(ctx, protectionInterval)
	defer cancel()
	var early []uint64
	err := m.env.Records.Each(reading, func(_ string, rec Record) {
		if rec.Finished || !m.env.over(rec, layout) || remade(layout, rec.Lane.source()) {
			return
		}
		if rec.Seen != nil && rec.Seen.Compare(rec.Frontier) > 0 {
			early = append(early, rec.Lane.Segment)
			return
		}
		m.env.Log.Warn("a source segment was deleted while nobody copied; what was known of it is copied, and nothing tells whether there was more",
			"segment", rec.Lane.Segment, "frontier", rec.Frontier)
	})
	if err != nil {
		return fmt.Errorf("records of %s: %w", m.env.CheckpointTopic, err)
	}
	for _, segment := range early {
		m.tooEarly(segment)
	}
	m.lookedBack = true
	return m.holdsPruned()
}

func (m *Mapping) holdsPruned() error {
	if !m.acceptPruned() {
		return held{m.pruned + gapRemedy}
	}
	return nil
}

// Resume accepts what the mapping, or any of its lanes, holds for now.
func (m *Mapping) Resume() {
	send := func(c chan struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	m.regenesis.Store(true)
	if m.holds.Load() {
		send(m.resume)
	}
	send(m.look)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.all {
		send(r.lane.resume)
	}
}

// Name is that of the mapping.
func (m *Mapping) Name() string { return m.env.Mapping }
