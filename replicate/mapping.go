package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/reroute"
)

// Mapping copies one topic: it protects it, then keeps a lane for each segment
// of the source's layout.
type Mapping struct {
	env     *Env
	policy  Policy
	watcher layoutcache.Watcher // of the source cluster
	guard   *guard

	incarnation atomic.Uint64   // of the source that the lanes serve
	resume      chan struct{}   // an operator accepts what the mapping holds for
	recreated   bool            // it was found deleted and made again, and that is told
	look        chan struct{}   // the protections are looked at now
	missed      map[string]bool // own topics that were deleted, and are not begun again
	regenesis   atomic.Bool     // an operator accepts that
	holds       atomic.Bool     // until an operator accepts what was lost
	counted     bool            // what the mapping holds for is counted
	pruned      string          // a segment that was deleted too early, until that is accepted
	lookedBack  bool            // segments that were deleted while nobody ran are told of
	genesisID   string          // once it was agreed on
	unkept      bool            // nothing keeps what the target is given; it was said

	mu      sync.Mutex
	all     map[TargetID]*running      // lanes by source segment; ids alone come again
	layouts map[string]*reroute.Layout // last seen by cluster, to count changes
}

// NewMapping returns a mapping; Run does the work. Clients, caches and the view
// of the checkpoint topic are run by the caller.
func NewMapping(env *Env, policy Policy, watcher layoutcache.Watcher, metrics *Metrics) *Mapping {
	env.metrics = metrics.forMapping(env.Mapping, env.Source.Key, env.Target.Key)
	env.Log = env.Log.With("mapping", env.Mapping)
	return &Mapping{env: env, policy: policy, watcher: watcher, guard: newGuard(env), resume: make(chan struct{}, 1), all: map[TargetID]*running{}, missed: map[string]bool{}, look: make(chan struct{}, 1), layouts: map[string]*reroute.Layout{}}
}

// Run copies until ctx ends and what was begun is drained, or hard ends. It
// returns nil if everything was drained.
func (m *Mapping) Run(ctx, hard context.Context) error {
	name := m.env.Mapping
	defer m.beating()()
	m.show(ShowStarting, "connects")
	// Until there are lanes, nobody knows how much waits: the lag runs from here.
	m.env.metrics.opened(name)
	defer m.env.metrics.left(name)
	if !m.until(ctx, m.connect) || !m.until(ctx, m.topicsExist) || !m.until(ctx, m.prepare) {
		return nil // stopped before anything was begun
	}
	m.env.metrics.left(name)
	m.env.Log.Info("mapping runs")
	m.env.Board.ClearMapping(name)
	defer m.env.Source.Layout.Subscribe(m.countLayouts(m.env.Source.Key))()
	defer m.env.Target.Layout.Subscribe(m.countLayouts(m.env.Target.Key))()

	// What serves the lanes lives on while they drain.
	serve, end := context.WithCancel(hard)
	var served sync.WaitGroup
	served.Go(func() { m.watchProtection(serve) })
	if m.policy.Guard {
		served.Go(func() { m.guard.run(serve) })
	}
	err := m.lanes(ctx, hard)
	end()
	served.Wait()
	return err
}

// beating shows that the mapping goes round until it is ended: each of its waits
// is bounded, but the bound may be longer than the watchdog's.
func (m *Mapping) beating() (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		beat := time.NewTicker(beatInterval)
		defer beat.Stop()
		for {
			m.env.Board.Tick(m.env.Mapping)
			select {
			case <-beat.C:
			case <-stop:
				m.env.Board.Untick(m.env.Mapping)
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// until tries a step for ever, with the reason in the status.
func (m *Mapping) until(ctx context.Context, step func(context.Context) error) bool {
	wait, last := newBackoff(), ""
	for ctx.Err() == nil {
		err := step(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			break
		}
		m.show(waitState(err), err.Error())
		if reason := err.Error(); reason != last {
			last = reason
			switch {
			case errors.Is(err, errNotYet):
			case errors.As(err, new(refusal)):
				m.env.Log.Error("mapping refused", "reason", reason)
			default:
				m.env.Log.Warn("mapping waits", "reason", reason)
			}
		}
		pause(ctx, wait.NextBackOff())
	}
	return false
}

// errNotYet: nobody has answered yet, so there is nothing to show but a start.
var errNotYet = errors.New("not known yet")

func waitState(err error) string {
	switch {
	case errors.Is(err, errNotYet):
		return ShowStarting
	case errors.As(err, new(refusal)):
		return ShowFailed
	case errors.As(err, new(held)):
		return ShowStopped
	}
	return ShowStalled
}

func (m *Mapping) show(state, reason string) { m.env.Board.Mapping(m.env.Mapping, state, reason) }

// sendMargin is what a target entry leaves free of the broker's limit: one a
// little above it would never be answered (observed, broker 5.0.1).
const sendMargin = 2 << 10

func (m *Mapping) connect(ctx context.Context) error {
	if _, err := m.env.Source.Client.Connect(ctx); err != nil {
		return fmt.Errorf("source cluster %s: %w", m.env.Source.Key, err)
	}
	info, err := m.env.Target.Client.Connect(ctx)
	if err != nil {
		return fmt.Errorf("target cluster %s: %w", m.env.Target.Key, err)
	}
	m.env.maxSize = info.MaxMessageSize - sendMargin
	return errors.Join(nameAgrees(ctx, m.env.Source), nameAgrees(ctx, m.env.Target))
}

// nameAgrees: replicated_from and the loop rule rest on Pulsar's own names.
func nameAgrees(ctx context.Context, side Side) error {
	name, err := side.Admin.ClusterName(ctx)
	if err != nil {
		return fmt.Errorf("name of cluster %s: %w", side.Key, err)
	}
	if name != "" && name != side.Cluster {
		return refusal{fmt.Sprintf("cluster %s is configured with the cluster_name %q and calls itself %q: set its cluster_name", side.Key, side.Cluster, name)}
	}
	return nil
}

func (m *Mapping) topicsExist(context.Context) error {
	for _, side := range []Side{m.env.Source, m.env.Target} {
		switch snap := side.Layout.Snapshot(); snap.State {
		case layoutcache.Missing:
			return fmt.Errorf("topic %s does not exist on cluster %s: create it as a scalable topic", side.Topic, side.Key)
		case layoutcache.Unknown:
			if snap.Err != nil {
				return fmt.Errorf("layout of %s on cluster %s: %w", side.Topic, side.Key, snap.Err)
			}
			return fmt.Errorf("layout of %s on cluster %s: %w", side.Topic, side.Key, errNotYet)
		}
	}
	return nil
}

// countLayouts counts the changes of one side's layout.
func (m *Mapping) countLayouts(cluster string) func(*layoutcache.Snapshot) {
	return func(s *layoutcache.Snapshot) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if s.Layout == nil {
			return
		}
		if last := m.layouts[cluster]; last != nil && last != s.Layout {
			m.env.metrics.layoutChanged(cluster)
			m.env.Log.Info("layout changed", "cluster", cluster, "epoch", s.Layout.Epoch, "active", len(s.Layout.Active()))
		}
		m.layouts[cluster] = s.Layout
	}
}
