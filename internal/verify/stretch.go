package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/reroute"
)

// firstPass is what the first reading leaves for narrowing: where each block is.
type firstPass struct {
	bounds         *bounds
	source, target []blocks
	targets        []*reroute.Segment
	inOrder        []int // of targets: parents first

	mu   sync.Mutex
	late map[block]bool // of which the order is not kept
}

func (f *firstPass) keep(p *pass, sources []sourceDigest, targets []targetDigest) {
	f.bounds, f.targets = p.bounds, p.layout.Segments()
	for i := range sources {
		f.source = append(f.source, sources[i].blocks)
	}
	for i := range targets {
		f.target = append(f.target, targets[i].blocks)
		f.inOrder = append(f.inOrder, i)
	}
	ranks := generations(p.layout)
	slices.SortFunc(f.inOrder, func(a, b int) int { return cmp.Compare(ranks[f.targets[a].ID], ranks[f.targets[b].ID]) })
}

// out notes blocks of which the order is not kept.
func (f *firstPass) out(of ...block) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.late == nil {
		f.late = map[block]bool{}
	}
	for _, b := range of {
		f.late[b] = true
	}
}

// held are the blocks of the target that may hold what is in doubt.
func held(target []blocks, d *doubts) map[block]bool {
	out := map[block]bool{}
	for i := range target {
		for b := range target[i].all {
			if d.hold(b) {
				out[b] = true
			}
		}
	}
	return out
}

// narrowBlocks reads no more than the stretches that hold blocks which differ.
func (c *comparison) narrowBlocks(ctx context.Context, f *finder) error {
	f.blocks = differing(c.first.source, c.first.target)
	maps.Copy(f.blocks, c.first.late)
	if err := c.targetStretches(ctx, f.blocks, f.target); err != nil {
		return err
	}
	for i := range c.lanes.all {
		s := sourceSegment{rules: &c.rules, lanes: c.lanes, lane: int32(i), bounds: c.first.bounds,
			digest: newDigester(c.Source.Cluster, c.seeds), visit: f.source, found: f.holds}
		segment := c.lanes.all[i].segment
		err := c.stretch(ctx, c.Source, segment, &c.first.source[i], f.blocks, func(m *pulsar.Message) error {
			if !f.blocks[blockOf(ident{lane: s.lane, pos: m.ID})] {
				return nil
			}
			return s.take(ctx, m)
		})
		if err != nil {
			return err
		}
	}
	f.finish()
	return nil
}

// targetStretches reads what the target holds of some blocks, parents first, since
// the order of keys is checked.
func (c *comparison) targetStretches(ctx context.Context, of map[block]bool, visit func(*message, place)) error {
	for _, i := range c.first.inOrder {
		s := c.first.targets[i]
		t := targetSegment{cluster: c.Source.Cluster, lanes: c.lanes, segment: s.ID, digest: newDigester(c.Source.Cluster, c.seeds), visit: visit, only: of}
		if err := c.stretch(ctx, c.Target, s, &c.first.target[i], of, func(m *pulsar.Message) error { t.take(m); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// stretch reads a segment from the first to the last entry that holds any of some
// blocks. It is errGone if the first is not there any more.
func (c *comparison) stretch(ctx context.Context, side Side, s *reroute.Segment, b *blocks, of map[block]bool, take func(*pulsar.Message) error) error {
	from, to, any := b.span(of)
	if !any {
		return nil
	}
	r, err := openReaderAt(ctx, from, side.Client, s.Topic(side.Topic), mostWindow, false)
	if err != nil {
		return fmt.Errorf("%s, segment %d: %w", side.Key, s.ID, err)
	}
	defer r.close()
	for began := true; r.seen.Compare(to) < 0; began = false {
		m, ok, err := r.next(ctx)
		if err != nil {
			return fmt.Errorf("%s, segment %d: %w", side.Key, s.ID, err)
		}
		if ok && began && m.ID != from {
			m.Entry.Release()
		}
		if !ok || began && m.ID != from {
			return fmt.Errorf("%s, segment %d: %w", side.Key, s.ID, errGone)
		}
		c.Progress.entry(m.Entry.Size())
		err = take(&m)
		m.Entry.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
