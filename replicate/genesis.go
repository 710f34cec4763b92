package replicate

import (
	"context"
	"fmt"
)

// loseGenesis is for a subscription that exists while a record of how it began does
// not: one of geobridge's own topics was deleted, or the subscription is another
// deployment's. nil: go on, and write it again.
func (m *Mapping) loseGenesis(atSource, atTarget *Genesis) error {
	env := m.env
	if atTarget != nil { // and it agrees
		m.note(fmt.Sprintf("the parking topic %s on %s was deleted, with all that was parked there", env.ParkingTopic, env.Source.Cluster))
		return nil
	}
	where := fmt.Sprintf("%s (%s)", env.CheckpointTopic, env.Target.Cluster)
	if atSource == nil {
		where += " and " + fmt.Sprintf("%s (%s)", env.ParkingTopic, env.Source.Cluster)
	}
	text := fmt.Sprintf("evidence lost: subscription %s exists at the source, but the record of how it began is missing on %s", env.Subscription, where)
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
