package replicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/layoutcache"
)

// session drives one Machine: it carries out effects and turns what happens
// into events. The goroutine of run alone writes its fields; an operation reads
// what was set before it began.
type session struct {
	lane    *Lane
	log     *slog.Logger
	machine *Machine
	box     *mailbox
	// op runs one operation beside the driver; its context ends with the session.
	op  func(func(context.Context))
	ops sync.WaitGroup

	source                *pulsar.Consumer
	checkpoint            *claimed
	asking                bool // a question to the broker has no answer yet
	parks                 parks
	checkpointGen         int
	targets               map[TargetID]*handle
	scratch               []byte
	inflight, unreceipted int // as reported
	ticks                 int
	patience              patience
	wrote                 time.Time // the last record
	marked                time.Time // the last question where the subscription stands
	over                  bool
	result                Result
	layoutSeen            uint64 // the incarnation of the target that this session works with
	tally                 tally
}

// handle is the driver's side of one target segment.
type handle struct {
	topic    string
	producer *pulsar.Producer
	gen      int
	// refused makes the wait before the next claim; nil after a receipt.
	refused *backoff.ExponentialBackOff
	abort   chan struct{} // closed to give up the operation on its way; nil: none
}

// run drives the session to its end. When ctx ends it drains; when hard ends it
// gives up what is not drained yet.
func (s *session) run(ctx, hard context.Context) Result {
	opCtx, cancel := context.WithCancel(hard)
	s.op = func(f func(context.Context)) {
		s.ops.Go(func() { f(opCtx) })
	}
	defer s.finish(cancel)
	defer s.lane.env.Target.Layout.Subscribe(s.onLayout)()
	s.op(s.subscribe)

	tick := time.NewTicker(s.lane.env.CheckpointInterval)
	defer tick.Stop()
	s.op(func(op context.Context) { s.follow(op, ctx, tick.C) })

	var letters []letter
	for !s.over {
		var err error
		if letters, err = s.box.take(hard, letters); err != nil {
			return Result{Err: errNotDrained}
		}
		for i := range letters {
			if letters[i].do != nil {
				letters[i].do()
			}
			s.step(letters[i].ev)
			letters[i] = letter{}
		}
		s.report()
	}
	return s.result
}

var errNotDrained = errors.New("not drained in time; nothing is lost, what was begun is copied again")

// follow turns ticks, the order to stop, and finished parents into events.
func (s *session) follow(session, stop context.Context, tick <-chan time.Time) {
	stopping, parents, sealed := stop.Done(), s.lane.parentsDone, s.lane.sealed
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	look := time.NewTicker(watchInterval(s.lane.env.StallTimeout))
	defer look.Stop()
	for {
		select {
		case <-session.Done():
			return
		case <-stopping:
			stopping = nil
			s.box.post(Event{Kind: evStop})
		case <-parents:
			parents = nil
			s.box.post(Event{Kind: evParentsDone})
		case <-sealed:
			sealed = nil
			s.box.post(Event{Kind: evSealed})
		case <-s.lane.resume:
			s.box.put(letter{ev: Event{Kind: evResume}, do: func() { s.lane.accept.Store(s.machine.loss) }})
		case <-beat.C:
			s.box.put(letter{ev: Event{Kind: evNothing}, do: s.lane.beat})
		case <-look.C:
			s.box.put(letter{ev: Event{Kind: evNothing}, do: s.watch})
		case <-tick:
			s.box.put(letter{ev: Event{Kind: evTick, Window: s.lane.env.Budget.Window()}, do: s.onTick})
		}
	}
}

// beatInterval is how often a driver, and a mapping, shows that it goes round.
const beatInterval = 10 * time.Second

// step lets the machine take one event, and does what it asks.
func (s *session) step(ev Event) {
	for _, ef := range s.machine.Step(ev) {
		s.apply(ef)
	}
}

func (s *session) apply(ef Effect) {
	switch ef.Kind {
	case efClaimCheckpoint:
		s.op(func(ctx context.Context) { s.claimCheckpoint(ctx, ef.Gen) })
	case efWriteRecord:
		if bare {
			s.box.post(Event{Kind: evRecordStored, Gen: s.checkpointGen})
			return
		}
		s.record(ef.Record)
	case efFlow:
		if err := s.source.Flow(uint32(ef.N)); err != nil {
			s.log.Debug("flow", "error", err) // its Closed follows
		}
	case efAck:
		s.source.AckCumulative(ef.Pos, func(err error) { s.box.post(Event{Kind: evAcked, Err: ackError(err)}) })
	case efProbe:
		s.ask()
	case efClaim:
		s.claimTarget(ef)
	case efScan:
		s.scanTarget(ef)
	case efPresent:
		s.count(ef.N)
		s.lane.metrics.duplicatesAvoided.Add(float64(ef.N))
	case efEvidenceLost:
		s.lane.metrics.evidenceLost.Add(float64(ef.N))
		s.lane.note(ef.Why)
	case efLook:
		s.lookInto(ef.Hole)
	case efGap:
		s.lane.metrics.gaps[ef.Reason].Add(float64(ef.N))
		s.lane.note(ef.Why)
	case efSend:
		s.send(ef)
	case efRelease:
		s.release(ef.Target)
	case efTakeParking:
		s.takeParking(ef)
	case efPark:
		s.park(ef.Gen, ef.Poison)
	case efReceipted:
		s.count(ef.Part.messages)
		s.lane.metrics.receipted(ef.Part)
		if h := s.targets[ef.Target]; h != nil {
			h.refused = nil
		}
	case efDone:
		s.complete(ef.Entry)
	case efDrop:
		ef.Entry.raw.Release()
	case efRerouted:
		s.lane.metrics.reroutes.Add(float64(ef.N))
	case efClose:
		s.over, s.result = true, ef.Result
	}
}

// finish closes what is open, in the order that lets a successor in soonest.
func (s *session) finish(cancel context.CancelFunc) {
	s.over = true
	cancel()
	s.ops.Wait()
	for _, l := range s.box.drain() { // a claim that came too late holds its name, too
		if l.do != nil {
			l.do()
		}
		if l.ev.Entry != nil {
			l.ev.Entry.raw.Release()
		}
	}
	s.ops.Wait()
	var closing sync.WaitGroup
	for _, h := range s.targets {
		closing.Go(h.producer.Leave)
	}
	closing.Go(func() { s.parks.close() })
	closing.Wait()
	if s.checkpoint != nil {
		s.checkpoint.producer.Leave()
	}
	s.source.Leave()
	s.settleGhost(false)
	s.account(0, 0)
}

// onLayout is told of the target's layouts, by the cache's goroutine.
func (s *session) onLayout(snap *layoutcache.Snapshot) {
	switch snap.State {
	case layoutcache.Live:
		s.box.put(letter{ev: Event{Kind: evLayout, Layout: snap.Layout}, do: func() { s.sameTopic(snap.Incarnation) }})
	case layoutcache.Missing:
		s.box.put(letter{ev: Event{Kind: evNothing}, do: func() {
			s.gone(fmt.Errorf("target topic %s does not exist", s.lane.env.Target.Topic))
		}})
	}
}

// sameTopic tells the machine when the target was deleted and made again.
func (s *session) sameTopic(incarnation uint64) {
	if s.layoutSeen != 0 && s.layoutSeen != incarnation {
		s.gone(fmt.Errorf("target topic %s was deleted and created again", s.lane.env.Target.Topic))
	}
	s.layoutSeen = incarnation
}

// complete counts a source entry and lets its memory go.
func (s *session) complete(e *entry) {
	s.lane.metrics.complete(e)
	if e.bad == nil {
		s.lane.metrics.copiedTo(s.lane.name, int64(e.info.PublishTime))
	}
	e.raw.Release()
}

// account brings the gauges up to date with the machine.
func (s *session) account(held, unreceipted int) {
	if d := held - s.inflight; d != 0 {
		s.inflight = held
		s.lane.metrics.inflight.Add(float64(d))
	}
	if d := unreceipted - s.unreceipted; d != 0 {
		s.unreceipted = unreceipted
		s.lane.metrics.unreceipted.Add(float64(d))
	}
}

// report publishes where the session stands.
func (s *session) report() {
	s.account(s.machine.flow.held, s.machine.unreceipted())
	if behind, known := s.machine.behindSource(); known {
		s.lane.behind.Store(behind)
	}
	s.lane.show(s.machine)
}

// idleTicks is how often, in ticks, an idle lane asks whether the source has
// anything that it was not given.
const idleTicks = 5

// onTick runs in the driver with each tick.
func (s *session) onTick() {
	s.lane.publish(s.machine)
	s.askMark(time.Now())
	if s.ticks++; s.ticks%idleTicks == 0 && s.machine.idle() {
		s.ask()
	}
}
