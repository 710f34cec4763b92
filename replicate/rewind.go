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
	// reopens: it stays, but its children wait for its parent, and so does what an earlier
	// crash had left in doubt.
	reopens bool
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
		if lane := &r.Lanes[i]; lane.moves() || lane.reopens {
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

// rewind sets one lane back. Its record is that of a lane which has copied all up to
// the new frontier, and has nothing in doubt anywhere: it lists no target segment, so
// that what it is given again is not looked for. What an earlier crash had left in
// doubt is copied again, too, since it would stand before what it followed.
func (u *Upkeep) rewind(ctx context.Context, lane *Rewind, g *grip) error {
	if g == nil || g.record == nil {
		return errors.New("the record is gone") // it was there when the lane was taken
	}
	if lane.moves() {
		u.tell("source segment %d: moving the subscription back to %v", lane.Segment, lane.frontier)
		if err := u.seek(ctx, lane); err != nil {
			return fmt.Errorf("source segment %d: %w", lane.Segment, err)
		}
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
	c.Leave() // the broker has, or will
	if err != nil {
		return err
	}
	if c, err = u.attach(ctx, lane); err != nil {
		return err
	}
	defer c.Leave()
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
