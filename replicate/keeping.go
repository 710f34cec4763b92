package replicate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/geobridge/geobridge/layoutcache"
)

// keepingWatch looks at what a side's namespace does to stored entries, and says
// so once for each change.
type keepingWatch struct {
	side Side
	role string // source or target
	last Keeping
	said bool
}

// check returns the policies; it is quiet about what it has said before.
func (w *keepingWatch) check(ctx context.Context, env *Env) Keeping {
	k, err := w.side.Admin.Keeping(ctx, NamespaceOf(w.side.Topic))
	if err != nil {
		env.Log.Warn("cannot see what the namespace keeps", "side", w.role, "error", err)
		return w.last
	}
	if w.said && k == w.last {
		return k
	}
	w.last, w.said = k, true
	log := env.Log.With("side", w.role, "namespace", NamespaceOf(w.side.Topic))
	if !k.Known {
		log.Info("the namespace's TTL, retention and backlog quota are unknown: the credential may not read them")
		return k
	}
	if k.TTL > 0 {
		log.Warn("the namespace has a message TTL: what it expires before it is copied is lost, and it moves the guard", "ttl", k.TTL)
	}
	if k.QuotaLimit {
		log.Warn("the namespace has a backlog quota: the subscriptions of geobridge count against it")
	}
	return k
}

// compactionInterval is how often geobridge's own topics are compacted.
const compactionInterval = 5 * time.Minute

// compact keeps geobridge's own topics short, and what they hold safe from a
// TTL: the newest entry of each key survives the holding subscription's being
// moved once a compaction has seen it (observed, broker 5.0.1).
func (m *Mapping) compact(ctx context.Context) {
	for _, own := range []struct {
		admin Admin
		topic string
	}{{m.env.Target.Admin, m.env.CheckpointTopic}, {m.env.Source.Admin, m.env.ParkingTopic}} {
		if err := own.admin.CompactTopic(ctx, own.topic); err != nil && ctx.Err() == nil {
			m.env.Log.Info("cannot compact: it grows, and a TTL of its namespace would forget it", "topic", own.topic, "error", err)
		}
	}
}

// checkProducerName refuses producer_name: original where the target
// deduplicates: after a crash it would take an application's own producer of
// that name for a duplicate.
func (m *Mapping) checkProducerName(ctx context.Context) error {
	if !m.env.Rules.OriginalProducer {
		return nil
	}
	k, err := m.env.Target.Admin.Keeping(ctx, NamespaceOf(m.env.Target.Topic))
	if err != nil {
		return err
	}
	if k.Deduplication {
		return refusal{"producer_name: original is not for a target with deduplication on: leave it at suffix"}
	}
	return nil
}

// NamespaceOf returns tenant/namespace of topic://tenant/namespace/name.
func NamespaceOf(topic string) string {
	path := strings.TrimPrefix(topic, "topic://")
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// protectionInterval is how often the protections are looked at again.
const protectionInterval = 30 * time.Second

// watchProtection records what an operator or an accident removed.
func (m *Mapping) watchProtection(ctx context.Context) {
	t := time.NewTicker(protectionInterval)
	defer t.Stop()
	source := keepingWatch{side: m.env.Source, role: "source"}
	target := keepingWatch{side: m.env.Target, role: "target"}
	compacted := time.Time{}
	for {
		if time.Since(compacted) > compactionInterval {
			m.compact(ctx)
			compacted = time.Now()
		}
		m.checkOwn(ctx)
		m.checkSource(ctx)
		source.check(ctx, m.env)
		m.checkTarget(ctx, target.check(ctx, m.env))
		m.retire(ctx)
		select {
		case <-ctx.Done():
			return
		case <-m.look:
		case <-t.C:
		}
	}
}

func (m *Mapping) checkSource(ctx context.Context) {
	env := m.env
	subs, err := env.Source.Admin.Subscriptions(ctx, env.Source.Topic)
	if err != nil {
		env.Log.Warn("cannot see whether the subscription is still recorded", "error", err)
		return
	}
	sub, there := subs[env.Subscription]
	env.metrics.lagEntries.Set(float64(sub.Backlog))
	if snap := env.Source.Layout.Snapshot(); !there && snap.State == layoutcache.Live && snap.Incarnation == m.incarnation.Load() {
		env.unsubscribed.Add(1)
		m.lost(gapUnsubscribed, fmt.Sprintf("subscription %s was deleted at the source: what was published since may be gone", env.Subscription))
	}
	if !sub.Recorded {
		env.Log.Error("the subscription is not recorded at the source any more: recording it again", "subscription", env.Subscription)
		err = env.Source.Admin.RecordSubscription(ctx, env.Source.Topic, env.Subscription)
	}
	env.metrics.setProtected(protectSource, err == nil)
}

func (m *Mapping) checkTarget(ctx context.Context, keeping Keeping) {
	env := m.env
	subs, err := env.Target.Admin.Subscriptions(ctx, env.Target.Topic)
	if err != nil {
		env.Log.Warn("cannot see what keeps the target's data", "error", err)
		return
	}
	guard := GuardName(env.Subscription)
	kept := keeping.Retention
	for name, s := range subs {
		kept = kept || s.Recorded && !strings.HasPrefix(name, "geobridge.") && !strings.HasPrefix(name, GuardName(""))
	}
	env.metrics.setProtected(protectTarget, kept)
	if !kept && !m.unkept {
		env.Log.Warn("nothing keeps what is copied: no application has a subscription on the target topic, and its namespace has no retention",
			"topic", env.Target.Topic, "cluster", env.Target.Key)
	}
	m.unkept = !kept
	if !m.policy.Guard {
		return
	}
	env.metrics.setProtected(protectGuard, subs[guard].Recorded && !m.guard.ahead.Load())
	if !subs[guard].Recorded {
		env.Log.Error("the guard is not recorded at the target any more: recording it again", "subscription", guard)
		if err := m.ensureGuard(ctx, false); err != nil {
			env.Log.Warn("cannot record the guard", "error", err)
		}
	}
}
