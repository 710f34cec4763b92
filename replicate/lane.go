package replicate

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/reroute"
)

// Lane copies one source segment: a session after the other, until the segment
// is finished.
type Lane struct {
	env     *Env
	id      LaneID
	name    string // N(L)
	topic   string // of the segment
	segment *reroute.Segment
	log     *slog.Logger
	metrics *mappingMetrics

	parentsDone chan struct{} // closed when each parent is finished or gone
	sealed      chan struct{} // closed when the segment takes no more
	epoch       atomic.Uint64 // written last by this instance
	resume      chan struct{} // an operator accepts what the lane holds for
	accept      atomic.Bool   // so does the next session
	behind      atomic.Bool   // there is more than was copied, as far as is known
	finished    atomic.Bool   // it was read to its end, here or by another instance
	known       int64         // of env.unsubscribed: what an opening has looked for already

	shown  LaneStatus
	before error    // what ended the last session
	bad    Position // the last entry that could not be read
	tries  int      // how often in a row
}

func newLane(env *Env, seg *reroute.Segment) *Lane {
	id := env.laneID(seg.ID, seg.CreatedAtMs)
	return &Lane{
		env: env, id: id, name: id.Name(), topic: seg.Topic(env.Source.Topic), segment: seg,
		log:     env.Log.With("segment", seg.ID, "lane", id.Name()),
		metrics: env.metrics, bad: noPosition(),
		parentsDone: make(chan struct{}), sealed: make(chan struct{}), resume: make(chan struct{}, 1),
	}
}

func (e *Env) laneID(segment uint64, createdAtMs int64) LaneID {
	return LaneID{
		Subscription: e.Subscription, SourceCluster: e.Source.Cluster, SourceTopic: e.Source.Topic,
		Segment: segment, CreatedAtMs: createdAtMs,
		TargetCluster: e.Target.Cluster, TargetTopic: e.Target.Topic,
	}
}

// mayOpen asks the records, up to the barrier of the lane's own claim, whether a parent
// is unfinished again: a rewind that was under way has ended by then. One of which there
// is no record was finished: the checkpoint topic was deleted since.
func (l *Lane) mayOpen(ctx context.Context, barrier Position) (bool, error) {
	layout := l.env.Source.Layout.Snapshot().Layout
	if layout == nil {
		return true, nil
	}
	now := layout.Segment(l.segment.ID)
	if now == nil || targetID(now) != l.id.source() {
		return true, nil
	}
	for _, id := range now.Parents {
		parent := layout.Segment(id)
		if parent == nil {
			continue
		}
		rec, _, err := l.env.Records.Find(ctx, l.env.laneID(parent.ID, parent.CreatedAtMs).Name(), l.env.genesis().Key(), barrier)
		if err != nil || rec != nil && !rec.Finished {
			return false, err
		}
	}
	return true, nil
}

// rewound reports whether the lane was finished, and is not any more: it is rewound by
// who found no instance attached. This one was cut off.
func (l *Lane) rewound() bool {
	return l.finished.Load() && l.env.Records.Rewound(l.name, l.epoch.Load())
}

// healthyAfter: a session that lived this long starts the waits anew.
const healthyAfter = 10 * time.Second

// Run copies until the segment is finished, or ctx ends and what was begun is
// drained, or hard ends. It returns nil if all that was begun is complete.
func (l *Lane) Run(ctx, hard context.Context) error {
	l.env.Budget.lanes.Add(1)
	defer l.env.Budget.lanes.Add(-1)
	defer l.env.Board.Untick(l.name)
	defer l.env.Board.LaneGone(l.env.Mapping, l.name)
	defer l.metrics.left(l.name)
	wait := newBackoff()
	for {
		start := time.Now()
		res := l.session(ctx, hard)
		switch {
		case ctx.Err() != nil && !res.Clean:
			return fmt.Errorf("segment %d: %w", l.segment.ID, errNotDrained)
		case res.Finished:
			l.behind.Store(false)
			l.finished.Store(true)
			l.log.Info("source segment finished")
			return nil
		case ctx.Err() != nil:
			return nil
		}
		if res.Err == nil { // another instance's concern
			l.behind.Store(false)
		}
		l.remember(res)
		l.log.Info("lane opens again", "clean", res.Clean, "cause", cause(res))
		if time.Since(start) > healthyAfter || res.Err == nil {
			wait.Reset()
		}
		if res.Err != nil {
			l.shown.State, l.shown.Reason = ShowStalled, "opens again: "+res.Err.Error()
			l.env.Board.Lane(l.env.Mapping, l.name, l.shown)
		}
		l.beat()
		pause(ctx, wait.NextBackOff())
	}
}

func (l *Lane) session(ctx, hard context.Context) Result {
	rules, unsubscribed := l.env.Rules, l.env.unsubscribed.Load()
	rules.Lane = l.name
	s := &session{
		lane: l, log: l.log, box: newMailbox(), targets: map[TargetID]*handle{},
		machine: NewMachine(MachineConfig{
			Rules: rules, Source: reroute.SourceOf(l.segment), TargetTopic: l.env.Target.Topic,
			MaxSize: l.env.maxSize, Window: l.env.Budget.Window(), StopPoison: l.env.StopPoison, Before: l.before,
			StopEvidence: l.env.StopEvidence, StopGap: l.env.StopGap, Accept: l.accept.Swap(false),
			FromLatest: l.env.FromLatest && len(l.segment.Parents) == 0, Unsubscribed: unsubscribed > l.known,
			Tolerate: l.tolerate(), ParentsDone: isClosed(l.parentsDone), Sealed: isClosed(l.sealed),
		}),
	}
	res := s.run(ctx, hard)
	if s.machine.sought {
		l.known = unsubscribed
	}
	return res
}

// badTries: an entry that is unreadable this often in a row is parked, not read again.
const badTries = 3

// tolerate returns the entry that was unreadable often enough.
func (l *Lane) tolerate() Position {
	if l.tries >= badTries {
		return l.bad
	}
	return noPosition()
}

func (l *Lane) remember(res Result) {
	l.before = res.Err
	if res.Deposed {
		l.metrics.depositions.Inc()
	}
	if res.Bad == nil {
		return
	}
	if *res.Bad != l.bad {
		l.bad, l.tries = *res.Bad, 0
	}
	l.tries++
}

// cause says why a session ended that is not the last one.
func cause(res Result) string {
	if res.Err != nil {
		return res.Err.Error()
	}
	return "another instance is active"
}

// note tells of a loss, for good.
func (l *Lane) note(text string) {
	l.log.Error(text)
	l.env.Board.Note(l.env.Mapping, fmt.Sprintf("segment %d: %s", l.segment.ID, text))
}

func (l *Lane) beat() { l.env.Board.Tick(l.name) }

// show publishes where the lane stands, when that has changed.
func (l *Lane) show(m *Machine) {
	if m.state == Closed {
		return // the lane's own concern
	}
	st := LaneStatus{State: showState(m), Reason: m.Why(), Segment: l.segment.ID, Range: l.segment.Range.String()}
	if st.State != l.shown.State || st.Reason != l.shown.Reason {
		level := slog.LevelInfo
		if st.Reason == "" && st.State == ShowStarting {
			level = slog.LevelDebug // the reason follows at once
		}
		l.log.Log(context.Background(), level, "lane", "state", st.State, "reason", st.Reason)
		if st.State == ShowStandby {
			l.metrics.left(l.name)
		} else if m.state > Standby {
			l.metrics.opened(l.name)
		}
		l.shown = st
		l.publish(m)
	}
}

// publish shows state and figures: on each tick and each change of state.
func (l *Lane) publish(m *Machine) {
	st := l.shown
	if far := l.metrics.readings.text(l.name); far != "" {
		st.Reason = strings.Replace(st.Reason, forStored, forStored+", "+far, 1)
	}
	if f := m.entries.frontier; f != noPosition() {
		st.Frontier = f.String()
	}
	st.Entries, st.Bytes = len(m.entries.queue), m.flow.held
	for _, t := range m.targets {
		st.Targets = append(st.Targets, t.segment.Range.String())
	}
	l.env.Board.Lane(l.env.Mapping, l.name, st)
}

func showState(m *Machine) string {
	switch {
	case m.hold != "":
		return ShowStopped
	case m.state == Standby:
		return ShowStandby
	case m.state == Waiting:
		return ShowWaiting
	case m.state < Recovering:
		return ShowStarting
	case m.state == Recovering && m.layout == nil:
		return ShowStalled
	case m.state == Recovering:
		return ShowRecovering
	case m.state == Running && m.Why() == "":
		return ShowRunning
	}
	return ShowWaiting
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
