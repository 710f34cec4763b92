package replicate

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/reroute"
)

// running is a lane with the means to stop it.
type running struct {
	lane *Lane
	stop context.CancelFunc
}

// lanes keeps one lane per segment of the source's layout, and tells each when
// its parents are done.
func (m *Mapping) lanes(ctx, hard context.Context) error {
	var group errgroup.Group
	news := make(chan struct{}, 1)
	defer m.env.Source.Layout.Subscribe(func(*layoutcache.Snapshot) {
		select {
		case news <- struct{}{}:
		default:
		}
	})()
	for ctx.Err() == nil {
		finished := m.env.Records.Finished()
		m.reconcile(ctx, hard, &group)
		select {
		case <-ctx.Done():
		case <-news:
		case <-finished:
		case <-time.After(beatInterval):
		}
	}
	return group.Wait()
}

// reconcile starts the lanes of new segments, stops those of segments that are
// gone, and opens children whose parents are done.
func (m *Mapping) reconcile(ctx, hard context.Context, group *errgroup.Group) {
	snap := m.env.Source.Layout.Snapshot()
	if snap.State == layoutcache.Missing {
		m.show(ShowStalled, fmt.Sprintf("source topic %s does not exist on cluster %s", m.env.Source.Topic, m.env.Source.Key))
	}
	if snap.Layout == nil {
		return
	}
	again := m.recordAgain(ctx, snap.Incarnation)
	m.leave(snap.Layout) // also while the mapping holds: a topic that was made again has segments of the same names
	if !again {
		return
	}
	m.env.Board.ClearMapping(m.env.Mapping)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.holdsPruned(); err != nil {
		m.show(ShowStopped, err.Error())
		return
	}
	for _, s := range snap.Layout.Segments() {
		r := m.all[targetID(s)]
		if r == nil || r.lane.rewound() {
			r = m.start(ctx, hard, s, group)
			m.all[targetID(s)] = r
		}
		if s.Sealed && !isClosed(r.lane.sealed) {
			close(r.lane.sealed)
		}
		if !isClosed(r.lane.parentsDone) && m.parentsDone(snap.Layout, s) {
			close(r.lane.parentsDone)
		}
	}
}

// leave ends the lanes of segments that are not in a layout.
func (m *Mapping) leave(layout *reroute.Layout) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range m.all {
		if s := layout.Segment(id.Segment); s == nil || s.CreatedAtMs != id.CreatedAtMs {
			r.stop()
			delete(m.all, id)
			m.ended(r.lane, layout)
		}
	}
}

// recordAgain records the subscription on a source topic that was deleted and
// created again, before any lane attaches to it; false: not yet.
func (m *Mapping) recordAgain(ctx context.Context, incarnation uint64) bool {
	if incarnation == m.incarnation.Load() {
		return true
	}
	if m.incarnation.Load() != 0 {
		if !m.acceptRecreated() {
			return false
		}
		if err := m.env.Source.Admin.RecordSubscription(ctx, m.env.Source.Topic, m.env.Subscription); err != nil {
			m.show(ShowStalled, fmt.Sprintf("the source topic was created again, and the subscription cannot be recorded: %v", err))
			return false
		}
		m.env.Log.Warn("the source topic was created again: the subscription is recorded on it")
		m.recreated = false
	}
	m.incarnation.Store(incarnation)
	return true
}

func (m *Mapping) start(ctx, hard context.Context, s *reroute.Segment, group *errgroup.Group) *running {
	laneCtx, stop := context.WithCancel(ctx)
	r := &running{lane: newLane(m.env, s), stop: stop}
	group.Go(func() error {
		defer stop()
		err := r.lane.Run(laneCtx, hard)
		if ctx.Err() == nil {
			return nil // the segment went, and what was not drained with it
		}
		return err
	})
	return r
}

// parentsDone: each parent was read to its end and all of it is complete, by
// whichever instance, or it is gone from the layout. A record that went with the
// checkpoint topic does not come again where the lane was finished here.
func (m *Mapping) parentsDone(l *reroute.Layout, s *reroute.Segment) bool {
	for _, id := range s.Parents {
		parent := l.Segment(id)
		if parent == nil {
			continue
		}
		rec, ok := m.env.Records.Record(m.env.laneID(parent.ID, parent.CreatedAtMs).Name())
		if here := m.all[targetID(parent)]; !ok && here != nil && here.lane.finished.Load() {
			continue
		}
		if !ok || !rec.Finished {
			return false
		}
	}
	return true
}
