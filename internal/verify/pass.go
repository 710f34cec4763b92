package verify

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// pass is one reading of both sides, or of the target alone.
type pass struct {
	layout  *reroute.Layout // of the target
	bounds  *bounds
	source  []*reader // by lane
	target  []*reader // by segment, parents first
	sources []sourceSegment
	targets []targetSegment
}

// visitors are given the messages to compare, segment by segment.
type visitors struct {
	source func(lane int) func(*message)
	found  func(*message) bool
	left   func(lane int) func(*message)
	// begin, if set, is called for a target segment when its parents are read.
	begin  func(segment int)
	target func(segment int) func(*message, place)
}

func (p *pass) close() {
	for _, all := range [][]*reader{p.source, p.target} {
		for _, r := range all {
			if r != nil {
				r.close()
			}
		}
	}
}

func (p *pass) counts() (s SourceCounts, t TargetCounts) {
	for i := range p.sources {
		s.add(&p.sources[i].counts)
	}
	for i := range p.targets {
		t.add(&p.targets[i].counts)
	}
	return s, t
}

// open fixes what is read. What the source holds comes first, then how far it is
// copied, then the target: so the target holds all that is said to be copied.
func (c *comparison) open(ctx context.Context) (*pass, error) {
	source, err := c.openSource(ctx)
	if err == nil {
		err = c.progress(ctx)
	}
	if err == nil {
		var p *pass
		// What was stored and copied since the source was opened counts, too.
		for i, r := range source {
			r.through = c.lanes.all[i].frontier
		}
		if p, err = c.openTarget(ctx); err == nil {
			p.source = source
			return p, nil
		}
	}
	(&pass{source: source}).close()
	return nil, err
}

func (c *comparison) openSource(ctx context.Context) ([]*reader, error) {
	readers := make([]*reader, len(c.lanes.all))
	group, ctx := errgroup.WithContext(ctx)
	for i := range readers {
		l := &c.lanes.all[i]
		group.Go(func() error {
			r, err := openReader(ctx, c.Source.Client, l.segment.Topic(c.Source.Topic), window(len(readers)), false)
			if err == nil {
				readers[i] = r
				l.first, _, err = r.peek(ctx)
			}
			if err != nil {
				return fmt.Errorf("source %s, segment %d: %w", c.Source.Key, l.segment.ID, err)
			}
			return nil
		})
	}
	err := group.Wait()
	for _, r := range readers {
		if r != nil {
			c.Progress.total.Add(r.total)
		}
	}
	return readers, err
}

func window(readers int) int {
	return min(max(sideWindow/max(readers, 1), leastWindow), mostWindow)
}

// progress reads how far the lanes are, and what was parked.
func (c *comparison) progress(ctx context.Context) error {
	recorded := make([]bool, len(c.lanes.all))
	err := c.topic(ctx, c.Target, c.CheckpointTopic, func(m *pulsar.Message) error {
		n, ours := c.lanes.byName[string(m.Info.PartitionKey)]
		if !ours {
			return nil
		}
		record, err := replicate.DecodeRecord(m.Entry.Payload)
		if err != nil {
			return err
		}
		c.lanes.all[n].frontier, recorded[n] = record.Frontier, true
		return nil
	})
	if err != nil {
		return err
	}
	c.report.Unrecorded = nil
	for i, known := range recorded {
		if !known {
			c.report.Unrecorded = append(c.report.Unrecorded, c.lanes.all[i].segment.ID)
		}
	}
	return c.topic(ctx, c.Source, c.ParkingTopic, func(m *pulsar.Message) error {
		if id, err := replicate.ParseIdentity(m.Info.Identity); err == nil {
			c.lanes.park(id)
		}
		return nil
	})
}

// topic reads one of geobridge's own topics; one that is missing is empty.
func (c *comparison) topic(ctx context.Context, side Side, topic string, f func(*pulsar.Message) error) error {
	r, err := openReader(ctx, side.Client, topic, leastWindow, true)
	if errors.Is(err, errGone) {
		return nil
	}
	for err == nil {
		var m pulsar.Message
		var ok bool
		if m, ok, err = r.next(ctx); err != nil || !ok {
			break
		}
		if m.Err == nil {
			err = f(&m)
		}
		m.Entry.Release()
	}
	if r != nil {
		r.close()
	}
	if err != nil {
		return fmt.Errorf("%s at %s: %w", topic, side.Key, err)
	}
	return nil
}

func (c *comparison) openTarget(ctx context.Context) (*pass, error) {
	layout, err := c.Target.Layout(ctx)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", c.Target.Key, err)
	}
	segments := layout.Segments()
	p := &pass{layout: layout, target: make([]*reader, len(segments))}
	var sources []*reroute.Segment
	for i := range c.lanes.all {
		sources = append(sources, c.lanes.all[i].segment)
	}
	p.bounds = newBounds(sources, segments, c.Untrimmed)
	group, ctx := errgroup.WithContext(ctx)
	for i, s := range segments {
		group.Go(func() (err error) {
			if p.target[i], err = openReader(ctx, c.Target.Client, s.Topic(c.Target.Topic), window(len(segments)), false); err != nil {
				return fmt.Errorf("target %s, segment %d: %w", c.Target.Key, s.ID, err)
			}
			c.Progress.total.Add(p.target[i].total)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// read gives all of a pass to the visitors.
func (c *comparison) read(ctx context.Context, p *pass, v *visitors) error {
	group, ctx := errgroup.WithContext(ctx)
	if v.source != nil {
		c.readSources(ctx, group, p, v)
	}
	if v.target != nil {
		c.readTargets(ctx, group, p, v)
	}
	return group.Wait()
}

func (c *comparison) readSources(ctx context.Context, group *errgroup.Group, p *pass, v *visitors) {
	p.sources = make([]sourceSegment, len(p.source))
	for i := range p.sources {
		p.sources[i] = sourceSegment{rules: &c.rules, lanes: c.lanes, lane: int32(i), bounds: p.bounds,
			digest: newDigester(c.Source.Cluster, c.seeds), visit: v.source(i), found: v.found}
		if v.left != nil {
			p.sources[i].left = v.left(i)
		}
		group.Go(func() error {
			if err := c.readSource(ctx, p.source[i], &p.sources[i]); err != nil {
				return fmt.Errorf("source %s, segment %d: %w", c.Source.Key, c.lanes.all[i].segment.ID, err)
			}
			return nil
		})
	}
}

// readTargets reads parents before their children, so that keys come in their order.
func (c *comparison) readTargets(ctx context.Context, group *errgroup.Group, p *pass, v *visitors) {
	segments := p.layout.Segments()
	p.targets = make([]targetSegment, len(segments))
	done := map[uint64]chan struct{}{}
	for _, s := range segments {
		done[s.ID] = make(chan struct{})
	}
	for i, s := range segments {
		p.targets[i] = targetSegment{cluster: c.Source.Cluster, lanes: c.lanes, index: i, segment: s.ID, bounds: p.bounds,
			digest: newDigester(c.Source.Cluster, c.seeds), visit: v.target(i), seen: map[int32]bool{}}
		group.Go(func() error {
			for _, parent := range s.Parents {
				if p.layout.Segment(parent) == nil {
					continue
				}
				select {
				case <-done[parent]:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if v.begin != nil {
				v.begin(i)
			}
			if err := c.readTarget(ctx, p.target[i], &p.targets[i]); err != nil {
				return fmt.Errorf("target %s, segment %d: %w", c.Target.Key, s.ID, err)
			}
			p.bounds.finished(i)
			close(done[s.ID])
			return nil
		})
	}
}

func (c *comparison) readTarget(ctx context.Context, r *reader, t *targetSegment) error {
	for {
		m, ok, err := r.next(ctx)
		if err != nil || !ok {
			return err
		}
		c.Progress.entry(m.Entry.Size())
		t.take(&m)
		m.Entry.Release()
	}
}

// readSource stops where nothing is said to be copied yet.
func (c *comparison) readSource(ctx context.Context, r *reader, s *sourceSegment) error {
	frontier := c.lanes.all[s.lane].frontier
	for {
		// Past the frontier, one more tells whether there is any but markers.
		m, ok, err := r.next(ctx)
		if err != nil || !ok {
			return err
		}
		if m.ID.Compare(frontier) > 0 {
			m.Entry.Release()
			s.counts.InFlight = max(r.total-r.read, 0) + 1
			return nil
		}
		c.Progress.entry(m.Entry.Size())
		err = s.take(ctx, &m)
		m.Entry.Release()
		if err != nil {
			return err
		}
	}
}
