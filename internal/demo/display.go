package demo

import (
	"context"
	"fmt"
	"time"
)

const (
	frameEvery = 200 * time.Millisecond
	lineEvery  = time.Second
)

// gauge makes snapshots of a show.
type gauge struct {
	*show
	published, copied, delivered meter
}

func (g *gauge) snapshot() *snapshot {
	now := time.Now()
	s := &snapshot{
		elapsed: now.Sub(g.notes.began), limit: g.For, seed: g.Seed, phase: *g.phase.Load(), addresses: g.addresses(),
		figures: g.crossing.figures(), order: g.order.Report(), changes: g.notes.layoutChanges(), readers: g.crew.count(),
		guests: int(g.tally.guests.Load()), lanes: g.crossing.laneViews(),
	}
	s.published = g.published.rate(now, int(g.producer.published.Load()))
	s.copied = g.copied.rate(now, s.figures.copied)
	s.delivered = g.delivered.rate(now, int(g.tally.delivered.Load()))
	if l, err := g.stage.east.cluster.Layout(topic); err == nil {
		s.east = l.Active()
	}
	active := map[uint64]bool{}
	if l, err := g.stage.west.cluster.Layout(topic); err == nil {
		s.west = l.Active()
		for _, seg := range s.west {
			active[seg.ID] = true
		}
	}
	s.matrix = g.observer.matrix(active)
	s.log, _ = g.notes.since(0)
	return s
}

func (s *show) addresses() *addresses {
	if s.Serve == nil {
		return nil
	}
	east, west := s.stage.east, s.stage.west
	return &addresses{"pulsar://" + east.broker, "http://" + east.admin, "pulsar://" + west.broker, "http://" + west.admin}
}

// display shows what goes on until ctx ends, and once more then.
func (s *show) display(ctx context.Context) {
	g := &gauge{show: s}
	if s.Terminal != nil {
		s.live(ctx, g)
	} else {
		s.lines(ctx, g)
	}
}

func (s *show) live(ctx context.Context, g *gauge) {
	screen := &screen{terminal: s.Terminal}
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	for over := false; ; {
		width, height := s.Terminal.Size()
		v := view{width: width, height: height - 1, colour: s.Colour} // the last line is the cursor's
		if verdict := s.verdict.Load(); over && verdict != nil {
			v.below = verdict.lines(width) // so that the frame stays when it is printed
		}
		if err := screen.draw(v.frame(g.snapshot())); err != nil {
			return // nobody sees it any more
		}
		if over {
			return
		}
		select {
		case <-ctx.Done():
			over = true
		case <-tick.C:
		}
	}
}

// lines prints each event as it happens, and the state every second.
func (s *show) lines(ctx context.Context, g *gauge) {
	fmt.Fprintln(s.Out, Title)
	fmt.Fprintf(s.Out, "0:00 seed=%d rate=%d/s\n", s.Seed, s.Rate)
	if a := s.addresses(); a != nil {
		fmt.Fprint(s.Out, a.help())
	}
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	seen, next := 0, time.Now().Add(lineEvery)
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-tick.C:
		}
		var events []event
		events, seen = s.notes.since(seen)
		for _, e := range events {
			fmt.Fprintln(s.Out, e.line())
		}
		if over || !time.Now().Before(next) {
			next = next.Add(lineEvery)
			fmt.Fprintln(s.Out, g.snapshot().line())
		}
	}
}

// help says what a user's own client can do with the clusters.
func (a *addresses) help() string {
	return fmt.Sprintf(`east: service URL %s, admin URL %s
west: service URL %s, admin URL %s
topic: %s on both; what you publish at east arrives at west
try: curl -X POST %s/admin/v2/scalable/public/default/orders/split/ID
`, a.east, a.eastAdmin, a.west, a.westAdmin, topic, a.westAdmin)
}
