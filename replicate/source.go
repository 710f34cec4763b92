package replicate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// subscribe attaches to the source segment, with the subscription recorded
// before; only the broker's election decides who reads.
func (s *session) subscribe(ctx context.Context) {
	env := s.lane.env
	sealed := s.lane.segment.Sealed || isClosed(s.lane.sealed)
	consumer, err := subscribeSegment(ctx, env.Source.Client, s.lane.topic, sealed, env.Subscription, env.Instance, sourceEvents{s})
	if err != nil {
		s.box.post(Event{Kind: evFailed, Err: fmt.Errorf("subscribe to %s: %w", s.lane.topic, err)})
		return
	}
	s.box.put(letter{ev: Event{Kind: evSubscribed}, do: func() { s.source = consumer }})
}

// sourceEvents listens to the source consumer, from its connection's read loop.
type sourceEvents struct{ s *session }

func (e sourceEvents) Message(m pulsar.Message) {
	e.s.lane.metrics.readBytes.Add(float64(m.Entry.Size()))
	if m.Err != nil { // how many messages the broker counted, if that can be read
		m.Info, _ = frame.Scan(m.Entry.Metadata)
	}
	e.s.box.post(Event{Kind: evEntry, Entry: &entry{pos: m.ID, raw: m.Entry, info: m.Info, bad: m.Err}})
}

func (e sourceEvents) ActiveChanged(active bool) {
	kind := evInactive
	if active {
		kind = evActive
	}
	e.s.box.post(Event{Kind: kind})
}

// EndOfTopic is a hint that sometimes is missing: the backlog is what counts.
func (e sourceEvents) EndOfTopic() {}

func (e sourceEvents) Closed(err error) {
	if err == nil {
		err = pulsar.ErrClosed
	}
	e.s.box.post(Event{Kind: evSourceClosed, Err: err})
}

// ask asks the source what it still has for the lane, unless the last question
// has no answer yet.
func (s *session) ask() {
	if s.asking {
		return
	}
	s.asking = true
	sealed, early, ours, now := s.machine.sealed, !s.machine.quiet(), s.machine.state > Standby, time.Now()
	s.op(func(ctx context.Context) {
		stats, err := s.source.Stats(ctx)
		l := letter{ev: Event{Kind: evBacklog, N: stats.Backlog, Sealed: sealed, Early: early}, do: func() { s.asking = false }}
		if err != nil {
			l.ev.Err = err
		} else if stats.Backlog == 0 && ours {
			s.lane.metrics.copiedTo(s.lane.name, now.UnixMilli())
		}
		s.box.put(l)
	})
}

// ackError takes the refusal of an old position for what it is: acknowledged
// already (the broker's own words, 5.0.1).
func ackError(err error) error {
	var refused *pulsar.ServerError
	if errors.As(err, &refused) && strings.Contains(refused.Message, "already mark-delete") {
		return nil
	}
	return err
}
