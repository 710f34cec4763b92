package replicate

import (
	"context"
	"errors"
	"fmt"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/reroute"
)

// left reports whether a segment has left a topic for good: it is not in the
// layout, and the layout is younger than the segment. Ids rise with time, and no
// leaf is ever pruned, so a layout that knows a higher id knew this one; in a
// topic that was made again a lower id has a later creation time.
func left(l *reroute.Layout, id TargetID) bool {
	if s := l.Segment(id.Segment); s != nil && s.CreatedAtMs == id.CreatedAtMs {
		return false
	}
	for _, s := range l.Segments() {
		if s.ID > id.Segment || s.CreatedAtMs > id.CreatedAtMs {
			return true
		}
	}
	return false
}

// owns reports whether a lane is one of this mapping's, of whatever segment.
func (e *Env) owns(id LaneID) bool { return e.laneID(id.Segment, id.CreatedAtMs) == id }

func (l LaneID) source() TargetID { return TargetID{Segment: l.Segment, CreatedAtMs: l.CreatedAtMs} }

// over reports whether a record is that of a lane of this mapping which can never
// open again, since its segment has left the source. What it lists needs no
// evidence.
func (e *Env) over(rec Record, source *reroute.Layout) bool {
	return rec.Lane != nil && e.owns(*rec.Lane) && source != nil && left(source, rec.Lane.source())
}

// keeps reports whether this mapping's guard keeps what a record lists. Other mappings to
// the same topic have guards of their own.
func (e *Env) keeps(rec Record, source *reroute.Layout) bool {
	return rec.Lane == nil || e.owns(*rec.Lane) && !e.over(rec, source)
}

// retire drops the records of lanes that are over.
func (m *Mapping) retire(ctx context.Context) {
	snap := m.env.Source.Layout.Snapshot()
	if snap.State != layoutcache.Live {
		return
	}
	reading, cancel := context.WithTimeout(ctx, protectionInterval)
	defer cancel()
	over := map[string]Record{}
	err := m.env.Records.Each(reading, func(lane string, rec Record) {
		if m.env.over(rec, snap.Layout) {
			over[lane] = rec
		}
	})
	if err != nil {
		m.env.Log.Debug("records not looked through", "error", err)
		return
	}
	for lane, rec := range over {
		switch err := m.drop(ctx, lane, *rec.Lane); {
		case err == nil:
			m.env.Log.Info("record dropped: its segment has left the source", "segment", rec.Lane.Segment, "lane", lane)
		case errors.Is(err, pulsar.ErrProducerBusy):
			m.env.Log.Debug("record not dropped: its lane lives", "segment", rec.Lane.Segment, "lane", lane)
		case ctx.Err() == nil:
			m.env.Log.Info("record not dropped, trying again", "segment", rec.Lane.Segment, "lane", lane, "error", err)
		}
	}
}

// drop takes the checkpoint topic as the lane, looks again, and drops its record.
// A lane that lives holds the name.
func (m *Mapping) drop(ctx context.Context, lane string, id LaneID) error {
	g, err := take(ctx, m.env, lane)
	if err != nil {
		return err
	}
	defer g.release()
	if g.record == nil {
		return nil
	}
	now, err := layoutcache.Lookup(ctx, m.watcher, m.env.Source.Topic)
	if err != nil {
		return err
	}
	if now.Layout == nil || !left(now.Layout, id.source()) {
		return fmt.Errorf("source segment %d is there again", id.Segment)
	}
	return g.drop(ctx)
}
