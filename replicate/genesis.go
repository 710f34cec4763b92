package replicate

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// agreeOnGenesis writes the genesis of a new mapping at both ends, and refuses
// to run under one that says something else. It is Subscribed if the one at the
// target says already that the subscription exists.
//
// The target's comes first, with an id that nobody else has. So two deployments of
// the same names whose targets only look the same are told apart at the source:
// the id there is that of one target.
func (m *Mapping) agreeOnGenesis(ctx context.Context, subscribed bool) (mine Genesis, err error) {
	env, mine := m.env, m.genesis()
	atSource, err := findGenesis(ctx, env.Source.Client, env.ParkingTopic, mine.Key())
	if err != nil {
		return mine, fmt.Errorf("genesis on %s: %w", env.ParkingTopic, err)
	}
	atTarget, err := findGenesis(ctx, env.Target.Client, env.CheckpointTopic, mine.Key())
	if err != nil {
		return mine, fmt.Errorf("genesis on %s: %w", env.CheckpointTopic, err)
	}
	if err := disagree(mine, atSource, atTarget); err != nil {
		return mine, err
	}
	if atSource.forgetting() || atTarget.forgetting() {
		return mine, refusal{whyForgetting(mine.Mapping)}
	}
	if subscribed && atSource == nil || atTarget == nil && (subscribed || atSource != nil) {
		if err := m.loseGenesis(subscribed, atSource, atTarget); err != nil {
			return mine, err
		}
	}
	if !subscribed && atTarget != nil && atTarget.Subscribed {
		if err := m.resubscribe(ctx); err != nil {
			return mine, err
		}
	}
	switch { // builds before the id wrote none: it stays so
	case atTarget != nil:
		m.genesisID = atTarget.ID
	case atSource != nil:
		m.genesisID = atSource.ID
	default:
		m.genesisID = rand.Text()
	}
	mine.ID = m.genesisID
	if atTarget == nil {
		if err := m.writeGenesis(ctx, env.Target.Client, env.CheckpointTopic, mine); err != nil {
			return mine, err
		}
	}
	if atSource == nil {
		if err := m.writeGenesis(ctx, env.Source.Client, env.ParkingTopic, mine); err != nil {
			return mine, err
		}
	}
	mine.Subscribed = atTarget != nil && atTarget.Subscribed
	return mine, nil
}

// disagree refuses geneses that are not this mapping's.
func disagree(mine Genesis, atSource, atTarget *Genesis) error {
	for _, found := range []*Genesis{atSource, atTarget} {
		if found != nil && !found.Agrees(mine) {
			return refusal{fmt.Sprintf("subscription %s belongs to mapping %q, which copies %v to %v, and this mapping copies %v to %v: give this mapping a subscription of its own",
				mine.Subscription, found.Mapping, found.Source, found.Target, mine.Source, mine.Target)}
		}
	}
	if atSource != nil && atTarget != nil && atSource.ID != atTarget.ID {
		return refusal{fmt.Sprintf("subscription %s belongs to another deployment, whose target goes by the same names (%v) and is another one: give this mapping a subscription of its own",
			mine.Subscription, mine.Target)}
	}
	return nil
}

func (g *Genesis) forgetting() bool { return g != nil && g.Forgetting }

func whyForgetting(mapping string) string {
	return fmt.Sprintf("`geobridge forget %s` was begun and has not come to its end: run it again", mapping)
}

func (m *Mapping) genesis() Genesis {
	g := m.env.genesis()
	g.ID = m.genesisID
	return g
}

func (env *Env) genesis() Genesis {
	return Genesis{
		Subscription: env.Subscription, Mapping: env.Mapping, CreatedMs: time.Now().UnixMilli(),
		Source: Ref{env.Source.Cluster, env.Source.Topic}, Target: Ref{env.Target.Cluster, env.Target.Topic},
	}
}

// findGenesis returns the genesis under the key, nil if there is none. It is
// Subscribed, or Forgetting, if any that was written says so. An empty entry undoes
// all before it.
func findGenesis(ctx context.Context, client *pulsar.Client, topic, key string) (*Genesis, error) {
	var found *Genesis
	var bad error
	err := scan(ctx, client, topic, func(k string, value []byte) bool {
		switch {
		case k != key:
			return true
		case len(value) == 0:
			found = nil
			return true
		}
		g, err := DecodeGenesis(value)
		if err != nil {
			bad = err
			return false
		}
		if found == nil {
			found = &g
		}
		found.Subscribed = found.Subscribed || g.Subscribed
		found.Forgetting = found.Forgetting || g.Forgetting
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// writeGenesis writes the genesis unless there is one.
func (m *Mapping) writeGenesis(ctx context.Context, client *pulsar.Client, topic string, g Genesis) error {
	return holdGenesis(ctx, client, topic, g.Key(), func(w *writer, there *Genesis) error {
		switch {
		case there != nil && (!there.Agrees(g) || there.ID != g.ID):
			return fmt.Errorf("somebody else wrote a genesis for %s to %s at the same time", g.Subscription, topic)
		case there != nil && (there.Subscribed || !g.Subscribed):
			return nil
		}
		if err := w.append(ctx, g.Key(), g.Encode()); err != nil {
			return fmt.Errorf("write the genesis to %s: %w", topic, err)
		}
		return nil
	})
}

// holdGenesis does something while nobody else writes the genesis of that key, with what
// is there. The producer's name is the key's, and a barrier comes first, so that of
// several who write at once only one does: compaction would keep the last one.
func holdGenesis(ctx context.Context, client *pulsar.Client, topic, key string, do func(w *writer, there *Genesis) error) error {
	w, _, err := claimWriter(ctx, client, topic, hashed([]byte(key)))
	if err != nil {
		return fmt.Errorf("write the genesis to %s: %w", topic, err)
	}
	defer w.close()
	there, err := findGenesis(ctx, client, topic, key)
	if err != nil {
		return fmt.Errorf("genesis on %s: %w", topic, err)
	}
	return do(w, there)
}

// loseGenesis is for a subscription that exists while a record of how it began does
// not: one of geobridge's own topics was deleted, or the subscription is another
// deployment's. nil: go on, and write it again.
func (m *Mapping) loseGenesis(subscribed bool, atSource, atTarget *Genesis) error {
	env := m.env
	if atTarget != nil { // and it agrees
		m.note(fmt.Sprintf("the parking topic %s on %s was deleted, with all that was parked there", env.ParkingTopic, env.Source.Cluster))
		return nil
	}
	where := fmt.Sprintf("%s (%s)", env.CheckpointTopic, env.Target.Cluster)
	if atSource == nil {
		where += " and " + fmt.Sprintf("%s (%s)", env.ParkingTopic, env.Source.Cluster)
	}
	what := "exists"
	if !subscribed {
		what = "was begun"
	}
	text := fmt.Sprintf("evidence lost: subscription %s %s at the source, but the record of how it began is missing on %s", env.Subscription, what, where)
	if env.StopEvidence && !m.accepts() {
		return held{text + ": give this mapping a new subscription, or delete the old one if nothing needs it; if it is this mapping's, and the topic was deleted" +
			evidenceRemedy}
	}
	env.metrics.evidenceLost.Inc()
	m.note(text)
	return nil
}

// checkOwn looks after geobridge's own topics: one that was deleted is made again. The
// genesis goes into a new checkpoint topic only if what was lost is accepted: until
// then the lanes that need it hold.
func (m *Mapping) checkOwn(ctx context.Context) {
	env, g := m.env, m.genesis()
	g.Subscribed = true
	for _, own := range []struct {
		what, topic string
		side        Side
		again       bool
	}{
		{protectCheckpoint, env.CheckpointTopic, env.Target, !env.StopEvidence || m.regenesis.Load()},
		{protectParking, env.ParkingTopic, env.Source, true},
	} {
		holds, err := own.side.Admin.Holds(ctx, own.topic, HoldSubscription)
		if err == nil && (!holds || own.what == protectCheckpoint && !env.Records.Begun(g.Key())) {
			holds, err = m.begin(ctx, own.what, own.topic, own.side, g, own.again)
		}
		if err != nil {
			env.Log.Info("cannot look after one of geobridge's own topics", "topic", own.topic, "error", err)
			continue
		}
		if own.what == protectCheckpoint && holds {
			m.regenesis.Store(false)
		}
		env.metrics.setProtected(own.what, holds)
	}
}

// begin makes one of geobridge's own topics as it has to be. It reports whether it
// is so.
func (m *Mapping) begin(ctx context.Context, what, topic string, side Side, g Genesis, again bool) (bool, error) {
	if err := ensureOwnTopic(ctx, side, topic); err != nil {
		return false, err
	}
	found, err := findGenesis(ctx, side.Client, topic, g.Key())
	if err != nil || found != nil {
		return err == nil, err
	}
	if !m.missed[what] {
		m.note(fmt.Sprintf("the %s topic %s on %s was deleted, with all that it held", what, topic, side.Cluster))
	}
	if m.missed[what] = !again; !again {
		return false, nil
	}
	return true, m.writeGenesis(ctx, side.Client, topic, g)
}
