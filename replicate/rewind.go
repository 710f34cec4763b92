package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/reroute"
)

// Point is where a rewind goes back to: the earliest entry that the source holds,
// unless one of the others is set.
type Point struct {
	Time     time.Time // the first entry that was published then or later
	Position *Position // that entry, of one segment
}

func (p Point) String() string {
	switch {
	case p.Position != nil:
		return p.Position.String()
	case !p.Time.IsZero():
		return p.Time.UTC().Format(time.RFC3339)
	}
	return "earliest"
}

// RewindOptions says what to rewind.
type RewindOptions struct {
	To      Point
	Segment *uint64 // that one, and what came of it; nil: all
	Yes     bool    // do it
}

// Rewinding is what a rewind copies again.
type Rewinding struct {
	Mapping string `json:"mapping"`
	From    Ref    `json:"from"`
	To      Ref    `json:"to"`
	Point   string `json:"point"`
	// Done: the mapping's next start copies it again. Else it is a plan.
	Done     bool     `json:"done"`
	Attached []string `json:"attached"` // who serves the mapping, which forbids it
	Lanes    []Rewind `json:"lanes"`
	// Entries is the sum of the lanes'.
	Entries int64 `json:"entries"`
	// Gone are the segments that have left the source. They cannot be brought back.
	Gone []uint64 `json:"gone"`
}

// Rewind is one lane's part in it.
type Rewind struct {
	Segment uint64 `json:"segment"`
	Range   string `json:"range"`
	Sealed  bool   `json:"sealed"`
	// Stands is up to where the lane has copied; empty: nothing.
	Stands string `json:"stands,omitempty"`
	// Back is the last entry that is not copied again; empty: the lane stays.
	Back string `json:"back,omitempty"`
	// Entries are copied again, as the source counts them: markers are among them.
	Entries int64  `json:"entries"`
	Why     string `json:"why,omitempty"` // it stays, or goes back farther than asked for

	lane     LaneID
	segment  *reroute.Segment
	frontier Position // as it will be
	seek     Position // the entry that is delivered first
}

func (r *Rewind) moves() bool { return r.Back != "" }

// Rewind sets the lanes' frontiers back, and the subscription with them, so that
// everything after that point is copied a second time when the mapping is started
// again: also what the target still has, and behind what is there. Without Yes it
// only says what that is. The report is there whenever both clusters could be asked,
// also where the answer is no (Refused).
//
// The order of the steps: nobody is attached, and no lane can open until all are set
// back (takeAll). Of each lane first the subscription, then the record: in between,
// what is delivered again lies below the frontier, and is only acknowledged. The
// other way round the subscription would stand beyond the frontier: a gap. Children
// come before their parents, since what a parent copied again behind its children's
// newer entries would be the last word on its keys.
func (u *Upkeep) Rewind(ctx context.Context, o RewindOptions) (*Rewinding, error) {
	end, err := u.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	s, err := u.look(ctx)
	if err != nil {
		return nil, err
	}
	g := u.env.genesis()
	r := &Rewinding{Mapping: u.env.Mapping, From: g.Source, To: g.Target, Point: o.To.String(),
		Attached: append([]string{}, s.attached(u.env)...), Lanes: []Rewind{}, Gone: []uint64{}}
	if err := u.rewindable(&s, o); err != nil {
		return r, err
	}
	var grips map[LaneID]*grip
	if o.Yes {
		u.tell("taking the lanes, so that none opens")
		var release func()
		if grips, release, err = u.takeAll(ctx, &s); err != nil {
			return r, err
		}
		defer release()
		for id, g := range grips { // as they are for good
			delete(s.records, id.Name())
			if g.record != nil {
				s.records[id.Name()] = *g.record
			}
		}
		if err := u.hold(ctx, &s); err != nil {
			return r, err
		}
		if who := s.attached(u.env); len(who) > 0 {
			return r, refuseAttached(who)
		}
	}
	if err := u.plan(ctx, &s, o, r); err != nil || !o.Yes {
		return r, err
	}
	for i := range slices.Backward(r.Lanes) {
		if lane := &r.Lanes[i]; lane.moves() {
			if err := u.rewind(ctx, lane, grips[lane.lane]); err != nil {
				return r, err
			}
		}
	}
	r.Done = true
	return r, nil
}

// rewindable refuses what cannot be rewound.
func (u *Upkeep) rewindable(s *scene, o RewindOptions) error {
	if err := u.ours(s); err != nil {
		return err
	}
	switch {
	case s.atTarget == nil:
		return refusal{"the mapping has never run: there is nothing to rewind"}
	case s.atTarget.forgetting() || s.atSource.forgetting():
		return refusal{whyForgetting(u.env.Mapping)}
	case s.layout == nil:
		return refusal{fmt.Sprintf("source topic %s does not exist on cluster %s", u.env.Source.Topic, u.env.Source.Key)}
	case !s.subscription.There:
		return refusal{fmt.Sprintf("subscription %s is gone from %s: a start makes it again, and copies what was not copied yet; forget the mapping to copy all of it again", u.env.Subscription, u.env.Source.Key)}
	case o.Segment != nil && s.layout.Segment(*o.Segment) == nil:
		return refusal{fmt.Sprintf("source segment %d is not there (any more): what it held cannot be brought back", *o.Segment)}
	case len(s.attached(u.env)) > 0:
		return refuseAttached(s.attached(u.env))
	}
	return nil
}

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
		moved[seg.ID] = lane.moves()
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
	defer closeConsumer(c)
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

// rewind sets one lane back. Its record is that of a lane which has copied all up to
// the new frontier, and has nothing in doubt anywhere: it lists no target segment, so
// that what it is given again is not looked for. What an earlier crash had left in
// doubt is copied again, too, since it would stand before what it followed.
func (u *Upkeep) rewind(ctx context.Context, lane *Rewind, g *grip) error {
	if g == nil || g.record == nil {
		return errors.New("the record is gone") // it was there when the lane was taken
	}
	u.tell("source segment %d: moving the subscription back to %v", lane.Segment, lane.frontier)
	if err := u.seek(ctx, lane); err != nil {
		return fmt.Errorf("source segment %d: %w", lane.Segment, err)
	}
	u.tell("source segment %d: setting the record back to %v", lane.Segment, lane.frontier)
	rec := Record{Epoch: g.record.Epoch + 1, Frontier: lane.frontier, Clean: true, Lane: &lane.lane}
	// What the lane has seen was there: if it is not when it should come again, that is a gap.
	seen := g.record.Frontier
	if p := g.record.Seen; p != nil && p.Compare(seen) > 0 {
		seen = *p
	}
	rec.Seen = &seen
	if err := g.write(ctx, rec.Encode()); err != nil {
		return fmt.Errorf("record of source segment %d: %w", lane.Segment, err)
	}
	return nil
}

// seek moves the source's subscription, and sees that it stands there.
func (u *Upkeep) seek(ctx context.Context, lane *Rewind) error {
	c, err := u.attach(ctx, lane)
	if err != nil {
		return err
	}
	err = c.Seek(ctx, lane.seek)
	closeConsumer(c) // the broker has, or will
	if err != nil {
		return err
	}
	if c, err = u.attach(ctx, lane); err != nil {
		return err
	}
	defer closeConsumer(c)
	mark, err := markOf(ctx, c)
	switch {
	case errors.Is(err, errNoMark): // it must be believed
		return nil
	case err == nil && mark.Compare(lane.frontier) > 0:
		return fmt.Errorf("the subscription was moved to %v, and stands at %v", lane.frontier, mark)
	}
	return err
}

func (u *Upkeep) attach(ctx context.Context, lane *Rewind) (*pulsar.Consumer, error) {
	return u.env.Source.Client.Subscribe(ctx, pulsar.SubscribeOptions{
		Topic: lane.segment.Topic(u.env.Source.Topic), Subscription: u.env.Subscription, ConsumerName: "geobridge-rewind",
		Type: pulsar.Failover, Durable: true, Position: pulsar.PositionEarliest,
	}, deaf{})
}
