package replicate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/reroute"
)

// plan finds where each lane goes back to, parents before their children.
func (u *Upkeep) plan(ctx context.Context, s *scene, o RewindOptions, r *Rewinding) error {
	moved := map[uint64]bool{}
	segments := byGeneration(s.layout)
	for _, seg := range segments {
		lane := Rewind{Segment: seg.ID, Range: seg.Range.String(), Sealed: seg.Sealed,
			lane: u.env.laneID(seg.ID, seg.CreatedAtMs), segment: seg}
		follows := slices.ContainsFunc(seg.Parents, func(id uint64) bool { return moved[id] })
		to := o.To
		rec, known := s.records[lane.lane.Name()]
		switch {
		case !known || rec.Frontier == noPosition():
			lane.Why = "it has copied nothing yet"
		case follows: // a key's later entries must come behind its earlier ones
			to = Point{}
			fallthrough
		case o.Segment == nil || *o.Segment == seg.ID:
			lane.Stands = rec.Frontier.String()
			u.tell("source segment %d: looking for the place", seg.ID)
			if err := u.place(ctx, s, &lane, rec.Frontier, to); err != nil {
				return fmt.Errorf("source segment %d: %w", seg.ID, err)
			}
			if lane.moves() && follows && o.To != (Point{}) {
				lane.Why = "to its beginning, since a parent is copied again"
			}
		default:
			lane.Stands, lane.Why = rec.Frontier.String(), "not asked for"
		}
		if follows && !lane.moves() && (rec.Finished || known && !rec.Clean) {
			lane.reopens, lane.frontier, lane.Why = true, rec.Frontier, lane.Why+", and waits for its parent once more"
		}
		moved[seg.ID] = lane.moves() || lane.reopens
		r.Entries += lane.Entries
		r.Lanes = append(r.Lanes, lane)
	}
	for id := range slices.MaxFunc(segments, func(a, b *reroute.Segment) int { return int(int64(a.ID) - int64(b.ID)) }).ID {
		if s.layout.Segment(id) == nil {
			r.Gone = append(r.Gone, id)
		}
	}
	return nil
}

// byGeneration sorts the segments so that children come after their parents.
func byGeneration(l *reroute.Layout) (all []*reroute.Segment) {
	seen := map[uint64]bool{}
	var add func(s *reroute.Segment)
	add = func(s *reroute.Segment) {
		if s == nil || seen[s.ID] {
			return
		}
		seen[s.ID] = true
		for _, id := range s.Parents {
			add(l.Segment(id))
		}
		all = append(all, s)
	}
	for _, s := range l.Segments() {
		add(s)
	}
	return all
}

// place finds where a lane goes back to, and how much it copies again.
func (u *Upkeep) place(ctx context.Context, s *scene, lane *Rewind, stands Position, to Point) error {
	topic := lane.segment.Topic(u.env.Source.Topic)
	client := u.env.Source.Client
	begins, err := beginning(ctx, client, topic)
	if notFound(err) {
		lane.Why = "it has left the source"
		return nil
	}
	if err != nil {
		return err
	}
	lane.frontier, lane.seek = begins, pulsar.Earliest()
	if to != (Point{}) {
		first, found, err := u.first(ctx, lane.Segment, topic, stands, to)
		if err != nil {
			return err
		}
		if !found {
			lane.Why = "it has copied nothing from there on"
			return nil
		}
		lane.frontier, lane.seek = below(first), first
	}
	if lane.frontier.Compare(stands) >= 0 {
		lane.Why = "nothing of what it has copied is left at the source"
		return nil
	}
	lane.Back = lane.frontier.String()
	c, err := subscribeReader(ctx, client, topic, "look", lane.seek, false, deaf{})
	if err != nil {
		return err
	}
	defer c.Leave()
	stats, err := c.Stats(ctx)
	lane.Entries = max(stats.Backlog-s.subscription.Backlogs[lane.Segment], 0)
	return err
}

// first reads a segment up to where the lane stands for the first entry at or after
// a point. Publish times need not rise, so nothing but reading finds it.
func (u *Upkeep) first(ctx context.Context, segment uint64, topic string, stands Position, to Point) (first Position, found bool, err error) {
	start := pulsar.Earliest()
	if to.Position != nil {
		if start = *to.Position; start.Compare(stands) > 0 {
			return start, false, nil // beyond the end a reader begins at the earliest
		}
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	sc := newScanner(stands, func(m pulsar.Message) {
		late := m.Err == nil && int64(m.Info.PublishTime) >= to.Time.UnixMilli()
		if !found && m.ID.Compare(stands) <= 0 && (to.Position != nil || late) {
			first, found = m.ID, true
			stop()
		}
	})
	go u.watch(reading, segment, sc)
	err = sc.read(reading, u.env.Source.Client, topic, "look", start)
	switch {
	case found && to.Position != nil && first != *to.Position:
		return first, false, refusal{fmt.Sprintf("there is no entry %v: what a reader is given from there on begins with %v", *to.Position, first)}
	case found:
		return first, true, nil
	}
	return first, false, err
}

// watch tells how far a long reading is.
func (u *Upkeep) watch(ctx context.Context, segment uint64, sc *scanner) {
	const every = 10 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			u.tell("source segment %d: read up to %v", segment, sc.last())
		}
	}
}
