package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// firstPass is what the first reading leaves for narrowing: where each block is,
// and where each segment began, which tells whether it was trimmed since.
type firstPass struct {
	bounds         *bounds
	source, target []blocks
	targets        []*reroute.Segment
	sourceBegan    []replicate.Position
	targetBegan    map[uint64]replicate.Position

	mu   sync.Mutex
	late map[block]bool // of which the order is not kept
}

func (f *firstPass) keep(p *pass, sources []sourceDigest, targets []targetDigest) {
	f.bounds, f.targets, f.targetBegan = p.bounds, p.layout.Segments(), map[uint64]replicate.Position{}
	for i := range sources {
		f.source = append(f.source, sources[i].blocks)
		f.sourceBegan = append(f.sourceBegan, p.began[i])
	}
	for i := range targets {
		f.target = append(f.target, targets[i].blocks)
		f.targetBegan[f.targets[i].ID] = p.targets[i].began
	}
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

// same reports whether nothing was trimmed since.
func (f *firstPass) same(ctx context.Context, l *lanes, p *pass) (bool, error) {
	for i := range l.all {
		if l.all[i].first != f.sourceBegan[i] {
			return false, nil
		}
	}
	found := 0
	for i, s := range p.layout.Segments() {
		began, known := f.targetBegan[s.ID]
		if !known {
			continue
		}
		found++
		first, _, err := p.target[i].peek(ctx)
		if err != nil {
			return false, err
		}
		if first != began {
			return false, nil
		}
	}
	return found == len(f.targets), nil
}

// narrowBlocks reads no more than the stretches that hold blocks which differ.
func (c *comparison) narrowBlocks(ctx context.Context, p *pass, f *finder) error {
	f.blocks = differing(c.first.source, c.first.target)
	maps.Copy(f.blocks, c.first.late)
	ranks := generations(p.layout)
	order := make([]int, len(c.first.targets)) // parents first, since the order of keys is checked
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ranks[c.first.targets[a].ID], ranks[c.first.targets[b].ID]) })
	for _, i := range order {
		s := c.first.targets[i]
		t := targetSegment{cluster: c.Source.Cluster, lanes: c.lanes, segment: s.ID, digest: newDigester(c.Source.Cluster, c.seeds), visit: f.target}
		if err := c.stretch(ctx, c.Target, s, &c.first.target[i], f.blocks, func(m *pulsar.Message) error { t.take(m); return nil }); err != nil {
			return err
		}
	}
	for i := range c.lanes.all {
		s := sourceSegment{rules: &c.rules, lanes: c.lanes, lane: int32(i), bounds: c.first.bounds,
			digest: newDigester(c.Source.Cluster, c.seeds), visit: f.source, found: f.holds}
		segment := c.lanes.all[i].segment
		if err := c.stretch(ctx, c.Source, segment, &c.first.source[i], f.blocks, func(m *pulsar.Message) error { return s.take(ctx, m) }); err != nil {
			return err
		}
	}
	f.finish()
	return nil
}

// stretch reads a segment from the first to the last entry that holds any of some blocks.
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
	for r.seen.Compare(to) < 0 {
		m, ok, err := r.next(ctx)
		if err != nil {
			return fmt.Errorf("%s, segment %d: %w", side.Key, s.ID, err)
		}
		if !ok {
			return nil
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
