package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/reroute"
)

// Options says what to show, and where.
type Options struct {
	// For is how long the producer goes on; 0 is until Stop.
	For time.Duration
	// Stop is closed to end the traffic early. The verdict comes then.
	Stop <-chan struct{}
	// Seed chooses traffic, layout changes, and who reads when.
	Seed uint64
	// Rate is how much is published, in messages per second.
	Rate int
	// Serve opens the clusters on loopback ports; nil keeps all in memory.
	Serve *Ports
	// Terminal shows the live view; nil is plain lines to Out.
	Terminal Terminal
	Colour   bool
	Out      io.Writer
	Version  string

	// Of tests: what the clusters do to commands, and what happens to the stage
	// meanwhile.
	eastHook, westHook func(pulsartest.Command) pulsartest.Action
	backstage          func(context.Context, *stage)
	patience           time.Duration // default 20 s
}

// ErrInterrupted is an end without a verdict.
var ErrInterrupted = errors.New("interrupted: no verdict")

// show is a demo that runs.
type show struct {
	Options
	stage    *stage
	observer *observer
	crossing *crossing
	producer *producer
	tally    *tally
	crew     *crew
	order    *keyorder.Checker
	notes    *notes
	phase    atomic.Pointer[string]
	verdict  atomic.Pointer[Verdict] // nil until all is over

	parts sync.WaitGroup // all that ends with the stage
	fatal chan error     // holds the first end of a part that should have gone on
}

// Run shows the demo until its time is over or Stop is closed, lets everything in
// flight arrive, and judges. The end of ctx ends it at once (ErrInterrupted).
func Run(ctx context.Context, o Options) (Verdict, error) {
	if o.patience == 0 {
		o.patience = 20 * time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := newShow(ctx, o)
	if err != nil {
		return Verdict{}, err
	}
	v, err := s.run(ctx)
	cancel()
	s.stage.close()
	_ = s.producer.client.Close() // never fails
	if err == nil {
		s.parts.Wait()
	}
	return v, err
}

func newShow(ctx context.Context, o Options) (*show, error) {
	s := &show{Options: o, notes: &notes{began: time.Now()}, fatal: make(chan error, 1)}
	s.phase.Store(new(string))
	s.observer = &observer{next: o.westHook, pending: map[handle][]stored{}, cells: map[cell]share{}, known: map[uint64]reroute.Segment{}}
	var err error
	if s.stage, err = newStage(ctx, o.Serve, o.eastHook, s.observer.hook); err != nil {
		return nil, err
	}
	if err = s.cast(); err != nil {
		s.stage.close()
	}
	return s, err
}

// cast makes those who use the clusters.
func (s *show) cast() error {
	var err error
	if s.crossing, err = newCrossing(s.stage, s.Version, slog.New(s.notes)); err != nil {
		return err
	}
	s.observer.lane, s.observer.target = s.crossing.lane, s.stage.west.segment
	codec, err := newCodec(s.Seed)
	if err != nil {
		return err
	}
	client, err := s.stage.client(s.stage.east)
	if err != nil {
		return err
	}
	s.order = keyorder.New(keyorder.Options{Holding: true, Recent: 512})
	// A user's own client could not read what is encrypted.
	s.producer = newProducer(client, topic, s.Rate, newTraffic(s.Seed, s.Serve != nil), codec, s.order)
	s.tally = &tally{codec: codec, order: s.order}
	s.crew = newCrew(s.stage, s.tally, s.Seed, func(text string) { s.notes.add("reader", text) })
	return nil
}

// run plays, and ends in good order.
func (s *show) run(ctx context.Context) (Verdict, error) {
	s.stage.run(&s.parts)
	s.parts.Go(func() { s.stage.store(ctx, s.notes.changed) })
	display, endDisplay := context.WithCancel(ctx)
	defer endDisplay()
	var displayed sync.WaitGroup
	displayed.Go(func() { s.display(display) })

	shift, endShift := context.WithCancel(ctx)
	defer endShift()
	s.parts.Go(func() { reshape(shift, s.Seed, s.stage.east, s.stage.west) })
	s.parts.Go(func() { prune(shift, s.stage.east, s.stage.west) })
	if s.backstage != nil {
		s.parts.Go(func() { s.backstage(shift, s.stage) })
	}
	f := finale{
		producer: s.part(ctx, func(_ context.Context, stop <-chan struct{}) error { return s.producer.run(ctx, stop) }),
		bridge:   s.part(ctx, func(ctx context.Context, _ <-chan struct{}) error { return s.crossing.Run(ctx) }),
		readers:  s.part(ctx, func(ctx context.Context, _ <-chan struct{}) error { return s.crew.run(ctx, shift) }),
	}
	problems := s.play(ctx)
	endShift()
	problems = append(problems, s.finish(ctx, f)...)
	done := "done"
	s.phase.Store(&done)
	if ctx.Err() != nil {
		return Verdict{}, ErrInterrupted
	}
	figures := s.crossing.figures()
	v := outcome{
		order: s.order.Report(), changes: s.notes.layoutChanges(), whole: figures.whole, split: figures.split,
		problems: append(problems, s.tally.problems()...),
	}.judge()
	s.verdict.Store(&v)
	endDisplay()
	displayed.Wait()
	return v, nil
}

// play waits for the end of the traffic.
func (s *show) play(ctx context.Context) (problems []string) {
	var over <-chan time.Time
	if s.For > 0 {
		t := time.NewTimer(s.For)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
	case <-s.Stop:
	case <-over:
	case err := <-s.fatal:
		return []string{err.Error()}
	}
	return nil
}

// part is something that runs until it is told to stop.
type part struct {
	stop func()
	done chan struct{}
	err  error // once it is done
}

func (s *show) part(ctx context.Context, run func(ctx context.Context, stop <-chan struct{}) error) *part {
	ctx, cancel := context.WithCancel(ctx)
	p := &part{stop: cancel, done: make(chan struct{})}
	s.parts.Go(func() {
		defer close(p.done)
		defer cancel()
		p.err = run(ctx, ctx.Done())
		if p.err == nil && ctx.Err() == nil {
			p.err = errors.New("ended by itself")
		}
		if p.err != nil && ctx.Err() == nil {
			select {
			case s.fatal <- p.err:
			default:
			}
		}
	})
	return p
}

// end stops the part and waits for it.
func (p *part) end(ctx context.Context, name string) []string {
	p.stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil
	}
	if p.err != nil {
		return []string{fmt.Sprintf("the %s: %v", name, p.err)}
	}
	return nil
}

// setPhase tells how the end goes on.
func (s *show) setPhase(text string) {
	s.phase.Store(&text)
	s.notes.add("demo", text)
}
