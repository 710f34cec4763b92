package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// Side is one end of a mapping.
type Side struct {
	Key     string // of the cluster, as the configuration names it
	Cluster string // as Pulsar names it
	Topic   string // topic://tenant/namespace/name
	Client  *pulsar.Client
	// Layout asks for the topic's layout as it is now.
	Layout func(context.Context) (*reroute.Layout, error)
}

// Mapping is what is compared.
type Mapping struct {
	Name, Subscription            string
	Source, Target                Side
	CheckpointTopic, ParkingTopic string
	ForwardReplicated             bool
}

// Options bound the work. The zero value has the defaults.
type Options struct {
	Limit int // faults that are named; default 20, negative none
	// Untrimmed says that the target was never trimmed: what it lacks before a
	// lane's first message is lost then, and not left out.
	Untrimmed bool
	Keys      int64 // that are followed at a time; default 2 million
	Messages  int64 // that are narrowed; default 4 million
	Progress  *Progress
}

const (
	defaultLimit    = 20
	defaultKeys     = 2 << 20
	defaultMessages = 4 << 20
	// sideWindow is what the readers of a side may hold together, in bytes.
	sideWindow  = 64 << 20
	mostWindow  = 4 << 20
	leastWindow = 256 << 10
	// fresh is how often a comparison starts over because what it read was deleted.
	fresh = 3
)

// Run compares both sides. An error means that they could not be asked; what is
// found is in the report.
func Run(ctx context.Context, m Mapping, o Options) (*Report, error) {
	if o.Limit == 0 {
		o.Limit = defaultLimit
	}
	if o.Keys <= 0 {
		o.Keys = defaultKeys
	}
	if o.Messages <= 0 {
		o.Messages = defaultMessages
	}
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	began := time.Now()
	for try := 1; ; try++ {
		c := &comparison{Mapping: m, Options: o, seeds: newSeeds(), rules: replicate.Rules{
			SourceCluster: m.Source.Cluster, TargetCluster: m.Target.Cluster, ForwardReplicated: m.ForwardReplicated,
		}}
		report, err := c.run(ctx)
		if err == nil {
			report.took(time.Since(began))
			return report, nil
		}
		if !errors.Is(err, errGone) || try == fresh || ctx.Err() != nil {
			return nil, err
		}
	}
}

// comparison is one try.
type comparison struct {
	Mapping
	Options
	rules replicate.Rules
	seeds seeds
	lanes *lanes

	report         Report
	source, target digests
	late           [keyless]int64
	first          firstPass
}

func (c *comparison) run(ctx context.Context) (*Report, error) {
	c.report = Report{Mapping: c.Name, Passes: 1, Ranges: []Range{}, Named: []Fault{},
		From: replicate.Ref{Cluster: c.Source.Key, Topic: c.Source.Topic}, To: replicate.Ref{Cluster: c.Target.Key, Topic: c.Target.Topic}}
	layout, err := c.Source.Layout(ctx)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", c.Source.Key, err)
	}
	c.lanes = newLanes(layout, func(s *reroute.Segment) replicate.LaneID {
		return replicate.LaneID{
			Subscription: c.Subscription, SourceCluster: c.Source.Cluster, SourceTopic: c.Source.Topic,
			Segment: s.ID, CreatedAtMs: s.CreatedAtMs, TargetCluster: c.Target.Cluster, TargetTopic: c.Target.Topic,
		}
	})
	if err := c.digest(ctx); err != nil {
		return nil, err
	}
	c.rangesOf()
	if differing := c.report.differing(); len(differing) > 0 {
		if err := c.narrow(ctx); err != nil {
			return nil, err
		}
	}
	c.conclude()
	return &c.report, nil
}

// digest reads both sides once.
func (c *comparison) digest(ctx context.Context) error {
	c.Progress.begin("comparing")
	p, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	sources, targets := make([]sourceDigest, len(p.source)), make([]targetDigest, len(p.target))
	for i := range sources {
		sources[i].blocks = newBlocks()
	}
	err = c.read(ctx, p, &visitors{
		source: func(i int) func(*message) { return sources[i].add },
		left:   func(i int) func(*message) { return sources[i].leave },
		begin:  func(i int) { targets[i].begin(c.lanes, p, i, targets) },
		target: func(i int) func(*message, place) {
			return func(m *message, at place) { targets[i].add(m, at.pos) }
		},
	})
	if err != nil {
		return err
	}
	for i := range sources {
		c.source.merge(&sources[i].digests)
	}
	c.report.Source, c.report.Target = p.counts()
	var doubts doubts
	for i := range targets {
		early := targets[i].finish()
		c.report.Target.Early += early
		c.report.Target.Compared -= early
		c.target.merge(&targets[i].digests)
		doubts.merge(&targets[i].rising.doubts)
	}
	c.first.keep(p, sources, targets)
	return c.orders(ctx, &doubts)
}

// orders looks into doubts: it reads the stretches of the target that hold them,
// once more for the ranges that an order lets go of.
func (c *comparison) orders(ctx context.Context, doubts *doubts) error {
	if !doubts.any() {
		return nil
	}
	in := held(c.first.target, doubts)
	follow := func(rng int) bool { return doubts.ranges[rng] }
	for {
		c.report.Passes++
		c.Progress.begin("checking the order of keys")
		order := newOrder(c.lanes, c.Keys, follow)
		err := c.targetStretches(ctx, in, func(m *message, at place) {
			if before, ok := order.see(m, at); !ok {
				c.first.out(blockOf(m.ident), blockOf(before.ident))
			}
		})
		if err != nil {
			return err
		}
		pending := false
		for i := range c.late {
			if order.follows(i) {
				c.late[i] = order.shards[i].late
			}
			pending = pending || order.pending(i)
		}
		if !pending {
			return nil
		}
		follow = order.pending
	}
}

func (c *comparison) rangesOf() {
	for i := range ranges {
		var late int64
		if i < keyless {
			late = c.late[i]
		}
		if c.source[i] == (cell{}) && c.target[i] == (cell{}) {
			continue
		}
		c.report.Ranges = append(c.report.Ranges, Range{
			Range: rangeName(i), Source: newSum(c.source[i]), Target: newSum(c.target[i]), OutOfOrder: late,
			Equal: c.source[i] == c.target[i] && late == 0, rng: i,
		})
	}
}

func (c *comparison) conclude() {
	r := &c.report
	switch {
	case len(r.differing()) > 0:
		r.Result = Differs
	case r.Source.Compared == 0:
		r.Result, r.Reason = NothingCompared, c.whyNothing()
	default:
		r.Result = Equal
	}
}

// whyNothing names what of the source was not compared.
func (c *comparison) whyNothing() string {
	s := &c.report.Source
	switch {
	case len(c.report.Unrecorded) == len(c.lanes.all):
		return fmt.Sprintf("no lane of this mapping has a record on %s at %s: nothing tells what is copied", c.CheckpointTopic, c.Target.Key)
	case s.Trimmed > 0:
		return "the target holds nothing of the mapping, or nothing as old as what is copied"
	case s.Parked > 0:
		return "all that the source holds was parked"
	case s.NotForwarded > 0:
		return "all that the source holds is not for the target"
	case s.InFlight > 0:
		return "the source holds nothing but what is in flight"
	}
	return "the source holds nothing"
}
