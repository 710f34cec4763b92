package replicate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/reroute"
)

// Holding is what a cluster tells about a subscription of a scalable topic, for who
// wants to remove or to move it. It is zero where there is no such topic.
type Holding struct {
	There, Recorded bool
	Segments        int              // that have a cursor of it
	Backlog         int64            // entries not acknowledged, markers included
	Backlogs        map[uint64]int64 // by segment
	// Attached says who holds it: the names of the consumers, by segment.
	Attached []string
}

// Caretaker is what Upkeep needs of a cluster's admin REST, beside Admin.
type Caretaker interface {
	Holding(ctx context.Context, topic, subscription string) (Holding, error)
	// DeleteSubscription removes the record and the cursors. With a consumer attached
	// it removes only the record, silently.
	DeleteSubscription(ctx context.Context, topic, subscription string) error
	// Exists reports whether a regular topic does.
	Exists(ctx context.Context, topic string) (bool, error)
}

// Upkeep is what an operator has done to a mapping while no instance serves it.
type Upkeep struct {
	env            *Env
	watcher        layoutcache.Watcher // of the source
	source, target Caretaker
	tell           func(format string, args ...any)
}

// NewUpkeep contacts nothing. Of env, what lanes need for copying may be missing,
// and so may the caches of layouts. tell is told of each step.
func NewUpkeep(env *Env, watcher layoutcache.Watcher, source, target Caretaker, tell func(format string, args ...any)) *Upkeep {
	env.Records = NewRecords(env.Target.Client, env.CheckpointTopic, env.Log)
	return &Upkeep{env: env, watcher: watcher, source: source, target: target, tell: tell}
}

// Refused reports whether an error is an answer: the clusters were asked, and what
// they hold does not allow it. Anything else is a cluster that could not be asked.
func Refused(err error) bool { return errors.As(err, new(refusal)) }

// remedy tells an operator how to let go of a mapping.
const remedy = "stop every instance, or take the mapping out of their configuration and restart them"

// scene is what there is of a mapping on both clusters.
type scene struct {
	layout             *reroute.Layout // of the source; nil: the topic does not exist
	subscription       Holding
	guard              Holding
	atSource, atTarget *Genesis // on the parking and on the checkpoint topic
	checkpoint         bool     // the checkpoint topic exists
	parking            bool     // so does the parking topic
	records            map[string]Record
}

// attached says who serves the mapping.
func (s *scene) attached(env *Env) (who []string) {
	for _, name := range s.subscription.Attached {
		who = append(who, fmt.Sprintf("%s to %s on %s", name, env.Subscription, env.Source.Key))
	}
	for _, name := range s.guard.Attached {
		who = append(who, fmt.Sprintf("%s to %s on %s", name, GuardName(env.Subscription), env.Target.Key))
	}
	return who
}

func refuseAttached(who []string) error {
	return refusal{"attached: " + strings.Join(who, "; ") + ": " + remedy}
}

// begin checks the names of the clusters and reads the checkpoint topic, if there is
// one, until end is called.
func (u *Upkeep) begin(ctx context.Context) (end func(), err error) {
	env := u.env
	for _, side := range []Side{env.Source, env.Target} {
		if err := nameAgrees(ctx, side); err != nil {
			return nil, err
		}
	}
	reading, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { _ = env.Records.Run(reading) }) // until end
	return func() {
		cancel()
		reader.Wait()
	}, nil
}

// look asks both clusters. It creates nothing: a topic that is not there would be
// made by whoever reads it.
func (u *Upkeep) look(ctx context.Context) (s scene, err error) {
	env := u.env
	snap, err := layoutcache.Lookup(ctx, u.watcher, env.Source.Topic)
	if err != nil {
		return s, fmt.Errorf("layout of %s on cluster %s: %w", env.Source.Topic, env.Source.Key, err)
	}
	s.layout = snap.Layout
	if err := u.hold(ctx, &s); err != nil {
		return s, err
	}
	key := env.genesis().Key()
	if s.parking, err = u.source.Exists(ctx, env.ParkingTopic); err != nil {
		return s, err
	}
	if s.parking {
		if s.atSource, err = u.genesis(ctx, env.Source.Client, env.ParkingTopic, key); err != nil {
			return s, err
		}
	}
	if s.checkpoint, err = u.target.Exists(ctx, env.CheckpointTopic); err != nil || !s.checkpoint {
		return s, err
	}
	env.Records.Open()
	if s.atTarget, err = u.genesis(ctx, env.Target.Client, env.CheckpointTopic, key); err != nil {
		return s, err
	}
	s.records = map[string]Record{}
	reading, cancel := context.WithTimeout(ctx, readingTimeout(env))
	defer cancel()
	return s, env.Records.Each(reading, func(lane string, rec Record) {
		if rec.Lane != nil && env.owns(*rec.Lane) {
			s.records[lane] = rec
		}
	})
}

// genesis reads a topic that exists. A reading that starved has nudged the topic: the
// next one comes to the end.
func (u *Upkeep) genesis(ctx context.Context, client *pulsar.Client, topic, key string) (*Genesis, error) {
	u.tell("reading %s", topic)
	g, err := findGenesis(ctx, client, topic, key)
	if errors.Is(err, errStarved) {
		g, err = findGenesis(ctx, client, topic, key)
	}
	if err != nil {
		return nil, fmt.Errorf("genesis on %s: %w", topic, err)
	}
	return g, nil
}

// readingTimeout bounds the reading of the checkpoint topic, whose reader is
// replaced after two silent operation timeouts.
func readingTimeout(env *Env) (t time.Duration) { return 6 * env.Target.Client.OperationTimeout() }

// hold asks who holds the two subscriptions.
func (u *Upkeep) hold(ctx context.Context, s *scene) (err error) {
	env := u.env
	if s.subscription, err = u.source.Holding(ctx, env.Source.Topic, env.Subscription); err != nil {
		return fmt.Errorf("subscription %s on cluster %s: %w", env.Subscription, env.Source.Key, err)
	}
	guard := GuardName(env.Subscription)
	if s.guard, err = u.target.Holding(ctx, env.Target.Topic, guard); err != nil {
		return fmt.Errorf("subscription %s on cluster %s: %w", guard, env.Target.Key, err)
	}
	return nil
}

// ours refuses to touch what another deployment made, or may have made: only a
// genesis tells whose the names are.
func (u *Upkeep) ours(s *scene) error {
	mine := u.env.genesis()
	if err := disagree(mine, s.atSource, s.atTarget); err != nil {
		return err
	}
	begun := s.atSource != nil || s.subscription.There || s.guard.There
	if s.atTarget == nil && begun && !s.atSource.forgetting() {
		return refusal{fmt.Sprintf("the record of how this mapping began is missing on %s (%s), so nothing tells whether subscription %s is this mapping's: if it is, start the mapping, say `geobridge resume %s --accept-gap`, stop it, and say this again",
			u.env.CheckpointTopic, u.env.Target.Key, mine.Subscription, mine.Mapping)}
	}
	return nil
}

// takeAll takes the checkpoint topic as every lane that the mapping has, or may
// have, so that none of them can open. release lets go of them.
func (u *Upkeep) takeAll(ctx context.Context, s *scene) (grips map[LaneID]*grip, release func(), err error) {
	grips = map[LaneID]*grip{}
	release = func() {
		var closing sync.WaitGroup
		for _, g := range grips {
			closing.Go(g.release)
		}
		closing.Wait()
	}
	if !s.checkpoint {
		return grips, release, nil
	}
	for _, id := range u.lanes(s) {
		reading, cancel := context.WithTimeout(ctx, readingTimeout(u.env))
		g, err := take(reading, u.env, id.Name())
		cancel()
		if errors.Is(err, pulsar.ErrProducerBusy) {
			err = refusal{fmt.Sprintf("the lane of source segment %d lives: its producer %s is attached to %s on %s: %s",
				id.Segment, id.Name(), u.env.CheckpointTopic, u.env.Target.Key, remedy)}
		}
		if err != nil {
			release()
			return nil, nil, err
		}
		grips[id] = g
	}
	return grips, release, nil
}

// lanes are those of the layout, and those that have a record.
func (u *Upkeep) lanes(s *scene) (all []LaneID) {
	for _, rec := range s.records {
		all = append(all, *rec.Lane)
	}
	if s.layout != nil {
		for _, seg := range s.layout.Segments() {
			if id := u.env.laneID(seg.ID, seg.CreatedAtMs); !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	slices.SortFunc(all, func(a, b LaneID) int {
		return cmp.Or(cmp.Compare(a.CreatedAtMs, b.CreatedAtMs), cmp.Compare(a.Segment, b.Segment))
	})
	return all
}
