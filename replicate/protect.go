package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/reroute"
)

// What can be protected: the labels of the metric protected.
const (
	protectSource     = "source"     // the subscription is recorded at the source
	protectTarget     = "target"     // somebody keeps what the target is given
	protectCheckpoint = "checkpoint" // the checkpoint topic has its holding subscription
	protectParking    = "parking"    // the parking topic has its
	protectGuard      = "guard"      // the guard subscription is recorded at the target
)

func protections() []string {
	return []string{protectSource, protectTarget, protectCheckpoint, protectParking, protectGuard}
}

// refusal is a state that no retry changes: another deployment owns the names,
// or what the record says was there is gone.
type refusal struct{ msg string }

func (r refusal) Error() string { return r.msg }

// ensureOwnTopic makes one of geobridge's own regular topics durable before its
// first entry: an idle topic without a subscription is deleted after a while.
// Without the right to create topics, a producer lets the broker create it.
func ensureOwnTopic(ctx context.Context, side Side, topic string) error {
	if err := side.Admin.EnsureRegularTopic(ctx, topic); err != nil {
		w, werr := openWriter(ctx, side.Client, topic, "")
		if werr != nil {
			return fmt.Errorf("create %s: %w", topic, errors.Join(err, werr))
		}
		w.close()
	}
	return attachOnce(ctx, side.Client, topic, HoldSubscription, "geobridge", pulsar.PositionEarliest)
}

// attachOnce creates a durable subscription, or finds it there.
func attachOnce(ctx context.Context, client *pulsar.Client, topic, subscription, name string, at pulsar.InitialPosition) error {
	c, err := subscribeDurable(ctx, client, topic, subscription, name, at, deaf{})
	if err != nil {
		return fmt.Errorf("subscription %s on %s: %w", subscription, topic, err)
	}
	c.Leave() // the subscription is there either way
	return nil
}

// deaf is for consumers that are given no permits.
type deaf struct{}

func (deaf) Message(m pulsar.Message) { m.Entry.Release() }
func (deaf) ActiveChanged(bool)       {}
func (deaf) EndOfTopic()              {}
func (deaf) Closed(error)             {}

// Policy is how a mapping starts.
type Policy struct {
	Latest bool // start: latest
	Guard  bool
}

// prepare protects a mapping before its first entry is copied: geobridge's own
// topics, the genesis at both ends, the guard, and the subscription at the
// source. Each step can be run again after a crash at any point.
func (m *Mapping) prepare(ctx context.Context) error {
	env := m.env
	if err := m.checkProducerName(ctx); err != nil {
		return err
	}
	if err := ensureOwnTopic(ctx, env.Target, env.CheckpointTopic); err != nil {
		return err
	}
	env.Records.Open()
	env.metrics.setProtected(protectCheckpoint, true)
	if err := ensureOwnTopic(ctx, env.Source, env.ParkingTopic); err != nil {
		return err
	}
	env.metrics.setProtected(protectParking, true)
	subs, err := env.Source.Admin.Subscriptions(ctx, env.Source.Topic)
	if err != nil {
		return fmt.Errorf("subscriptions of %s: %w", env.Source.Topic, err)
	}
	sub, exists := subs[env.Subscription]
	g, err := m.agreeOnGenesis(ctx, exists)
	if err != nil {
		return err
	}
	if err := m.prunedBefore(ctx); err != nil {
		return err
	}
	if m.policy.Guard {
		if err := m.ensureGuard(ctx, !g.Subscribed); err != nil {
			return err
		}
	}
	if err := m.ensureSubscription(ctx, sub.Recorded); err != nil || g.Subscribed {
		return err
	}
	// The genesis again, with the word that the subscription exists from now on.
	g.Subscribed = true
	return m.writeGenesis(ctx, env.Target.Client, env.CheckpointTopic, g)
}

// ensureGuard records the guard at the target. It begins at the earliest of each
// segment, and is moved to the end only while no record lists any: what records
// list is evidence, and a guard that an operator has deleted must not leave it behind.
func (m *Mapping) ensureGuard(ctx context.Context, fresh bool) error {
	t, guard := m.env.Target, GuardName(m.env.Subscription)
	subs, err := t.Admin.Subscriptions(ctx, t.Topic)
	if err != nil {
		return fmt.Errorf("subscriptions of %s: %w", t.Topic, err)
	}
	recorded := subs[guard].Recorded
	if !recorded {
		m.guard.again.Store(true)
		if err := t.Admin.RecordSubscription(ctx, t.Topic, guard); err != nil {
			return fmt.Errorf("record guard %s: %w", guard, err)
		}
	}
	switch {
	case fresh: // who recorded it may have died before it was moved
		err = m.placeFirst(ctx)
	case !recorded:
		err = m.placeGuard(ctx)
	}
	if err == nil {
		m.env.metrics.setProtected(protectGuard, true)
	}
	return err
}

// placeFirst is placeGuard for a mapping that nobody copies yet, as far as is known: nobody
// does before the genesis says that the subscription exists, and nobody writes that now.
// Another instance, which was faster, has placed the guard, and may have parts above it.
func (m *Mapping) placeFirst(ctx context.Context) error {
	env := m.env
	return holdGenesis(ctx, env.Target.Client, env.CheckpointTopic, env.genesis().Key(), func(_ *writer, there *Genesis) error {
		if there != nil && there.Subscribed {
			return nil
		}
		return m.placeGuard(ctx)
	})
}

func (m *Mapping) placeGuard(ctx context.Context) error {
	t, guard := m.env.Target, GuardName(m.env.Subscription)
	reading, cancel := context.WithTimeout(ctx, protectionInterval)
	defer cancel()
	low, _, err := m.env.floors(reading)
	if err != nil {
		return fmt.Errorf("records that need guard %s: %w", guard, err)
	}
	if len(low) > 0 {
		return nil
	}
	if err := t.Admin.SkipAll(ctx, t.Topic, guard); err != nil {
		return fmt.Errorf("move guard %s to the end: %w", guard, err)
	}
	return nil
}

// ensureSubscription records the subscription at the source. With start:
// latest it is first created at the end of every segment, and recorded after:
// the other way round it would begin at the earliest (observed, broker 5.0.1).
func (m *Mapping) ensureSubscription(ctx context.Context, recorded bool) error {
	src, sub := m.env.Source, m.env.Subscription
	if !recorded && m.policy.Latest && m.env.unsubscribed.Load() == 0 {
		if err := m.subscribeLatest(ctx); err != nil {
			return err
		}
	}
	if err := src.Admin.RecordSubscription(ctx, src.Topic, sub); err != nil {
		return fmt.Errorf("record subscription %s: %w", sub, err)
	}
	m.env.metrics.setProtected(protectSource, true)
	return nil
}

// subscribeLatest goes over the segments until the layout stands still: a child
// made in between has its cursor from its parents.
func (m *Mapping) subscribeLatest(ctx context.Context) error {
	done := map[uint64]bool{}
	for {
		snap, err := layoutcache.Lookup(ctx, m.watcher, m.env.Source.Topic)
		if err != nil {
			return err
		}
		if snap.Layout == nil {
			return fmt.Errorf("source topic %s does not exist any more", m.env.Source.Topic)
		}
		todo := slices.DeleteFunc(slices.Clone(snap.Layout.Segments()), func(s *reroute.Segment) bool { return done[s.ID] })
		if len(todo) == 0 {
			return nil
		}
		for _, s := range todo {
			topic := s.Topic(m.env.Source.Topic)
			err := attachOnce(ctx, m.env.Source.Client, topic, m.env.Subscription, m.env.Instance, pulsar.PositionLatest)
			if err != nil && !errors.Is(err, pulsar.ErrTopicNotFound) {
				return err
			}
			done[s.ID] = true
		}
	}
}
