package verify

import (
	"context"
	"errors"
	"slices"

	"github.com/geobridge/geobridge/replicate"
)

// narrow reads again what differs, to name its messages.
func (c *comparison) narrow(ctx context.Context) error {
	c.report.Passes++
	c.Progress.begin("narrowing")
	wanted, of := c.choose()
	follow := func(rng int) bool { return wanted[rng] }
	finder := newFinder(c.lanes, wanted, of, c.Limit, newOrder(c.lanes, c.Keys, follow))
	err := c.narrowBlocks(ctx, finder)
	if errors.Is(err, errGone) || err == nil && finder.counts.Total() == 0 {
		// One side was trimmed meanwhile: with bounds that are found anew, that is no fault.
		finder = newFinder(c.lanes, wanted, of, c.Limit, newOrder(c.lanes, c.Keys, follow))
		err = c.narrowAll(ctx, finder)
	}
	if err != nil {
		return err
	}
	c.settle(finder)
	return c.name(ctx, finder)
}

// narrowAll reads all of both sides once more: first the target, then the source, for
// one meets what the other left.
func (c *comparison) narrowAll(ctx context.Context, f *finder) error {
	p, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	err = c.read(ctx, p, &visitors{target: func(int) func(*message, place) { return f.target }})
	if err == nil {
		err = c.read(ctx, p, &visitors{source: func(int) func(*message) { return f.source }, found: f.holds})
	}
	if err == nil {
		f.finish()
	}
	return err
}

// choose takes the ranges that differ, as many as may be narrowed; of one alone
// that is too large, one entry in so many.
func (c *comparison) choose() (wanted [ranges]bool, of int64) {
	left := c.Messages
	for i := range c.report.Ranges {
		r := &c.report.Ranges[i]
		n := max(r.Source.Messages, r.Target.Messages)
		first := left == c.Messages
		switch {
		case r.Equal:
			continue
		case n <= left:
			of, r.Narrowed = 1, 1
		case first:
			of = (n + left - 1) / left
			r.Narrowed = 1 / float64(of)
		default:
			continue
		}
		wanted[r.rng] = true
		left = max(left-n, 0)
		if of > 1 {
			break
		}
	}
	return wanted, of
}

// settle takes for equal what did differ, and did not when all of it was looked at.
func (c *comparison) settle(f *finder) {
	c.report.Faults = f.counts
	if f.counts.Total() > 0 || f.of > 1 {
		return
	}
	for i := range c.report.Ranges {
		r := &c.report.Ranges[i]
		if f.wanted[r.rng] && (r.rng == keyless || r.OutOfOrder == 0 || f.order.follows(r.rng)) {
			r.Equal = true
		}
	}
}

// name makes what users read of the faults that were kept.
func (c *comparison) name(ctx context.Context, f *finder) error {
	for i := range f.faults {
		x := &f.faults[i]
		if x.kind == Altered && x.fields == nil {
			fields, err := c.fields(ctx, x)
			if err != nil {
				return err
			}
			x.fields = fields
		}
		c.report.Named = append(c.report.Named, c.fault(x))
	}
	return nil
}

func (c *comparison) fault(x *fault) Fault {
	out := Fault{Kind: x.kind, Source: c.at(x.id), Fields: x.fields}
	if x.keyed {
		key := string(x.key)
		out.Key = &key
	}
	for _, p := range x.places {
		out.Target = append(out.Target, TargetPosition{p.segment, p.pos})
	}
	if x.kind == OutOfOrder {
		out.Before = &Fault{Kind: OutOfOrder, Source: c.at(x.before.ident), Target: []TargetPosition{{x.before.at.segment, x.before.at.pos}}}
	}
	return out
}

func (c *comparison) at(id ident) SourcePosition {
	return SourcePosition{Segment: c.lanes.all[id.lane].segment.ID, Position: id.pos, Index: int(id.index)}
}

// fields fetches the target's entry again, to say what is not as at the source.
func (c *comparison) fields(ctx context.Context, x *fault) ([]string, error) {
	at := x.places[0]
	layout, err := c.Target.Layout(ctx)
	if err != nil {
		return nil, err
	}
	s := layout.Segment(at.segment)
	if s == nil {
		return []string{"not known: the segment is gone"}, nil
	}
	r, err := openReaderAt(ctx, at.pos, c.Target.Client, s.Topic(c.Target.Topic), leastWindow, false)
	if err != nil {
		return nil, err
	}
	defer r.close()
	m, ok, err := r.next(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if ok {
			m.Entry.Release()
		}
	}()
	if !ok || m.ID != at.pos {
		return []string{"not known: the entry is gone"}, nil
	}
	return c.compare(x, newOpener(c.Source.Cluster, c.seeds[0]).open(&m), m.Info.Identity), nil
}

func (c *comparison) compare(x *fault, entry content, identity []byte) []string {
	id, err := replicate.ParseIdentity(identity)
	if err != nil {
		return []string{"not known: the identity is unreadable"}
	}
	index := int(x.id.index)
	if id.Indices != nil {
		index = slices.Index(id.Indices, index)
	}
	if x.id.index == wholeEntry {
		index = 0
	}
	if index < 0 || index >= len(entry.messages) {
		return []string{"not known: the entry does not hold it any more"}
	}
	if names := differingFields(x.entry, &entry, x.shown, &entry.messages[index]); len(names) > 0 {
		return names
	}
	return []string{"the number of messages in its entry"}
}
