package replicate

import (
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// instance is one process, with a lane for each source segment.
type instance struct {
	w      *world
	id     int
	lanes  []lane // by source segment
	down   bool   // killed, and not started again yet
	paused bool   // SIGSTOP: what the brokers do for it goes on
	until  int    // the step before which it is not started, or goes on, again
}

// lane is what of a lane outlives a session in one process.
type lane struct {
	h        *holder
	finished bool
	epoch    uint64
}

// holder is one session of a lane: the machine, and what its driver has.
type holder struct {
	in    *instance
	seg   *segment
	m     *Machine
	watch *watcher
	dead  bool // killed with its machine: no broker knows
	over  bool // closed

	// the source
	attached, asking, told bool
	permits                int
	inbox                  []Event

	targets    map[TargetID]*clientEnd
	checkpoint *line
	pushed     *reroute.Layout

	here  []func()  // the driver's own operations, in no order
	there []request // on their way; a broker answers them even to those who pause
}

type request struct {
	do  func()
	ack bool
}

func (h *holder) mute() bool      { return h.dead || h.in.paused }
func (h *holder) local(f func())  { h.here = append(h.here, f) }
func (h *holder) remote(f func()) { h.there = append(h.there, request{do: f}) }
func (h *holder) lane() *lane     { return &h.in.lanes[h.seg.id] }
func (h *holder) deposed() bool   { return h.in.w.records[h.seg.lane].Epoch > h.lane().epoch }

// start opens a session.
func (in *instance) start(s *segment) {
	w := in.w
	h := &holder{in: in, seg: s, targets: map[TargetID]*clientEnd{}, pushed: w.layout}
	h.told = w.parentsDone(s)
	if !h.told {
		w.counts[waited]++
	}
	h.m = NewMachine(MachineConfig{
		Rules:       Rules{SourceCluster: "east", TargetCluster: "west", Lane: s.lane},
		Source:      reroute.Source{Range: s.rng, Proves: true},
		TargetTopic: "topic://public/default/t", MaxSize: 1 << 20, Window: 1 << 20, Tolerate: noPosition(),
		ParentsDone: h.told, Sealed: s.sealed && w.rng.IntN(2) == 0,
	})
	if w.watch != nil {
		h.watch = w.watch.another(w.t, h.m)
	}
	w.sabotage(h)
	w.counts[sessions]++
	w.holders = append(w.holders, h)
	in.lanes[s.id].h = h
	h.do(Event{Kind: evLayout, Layout: w.layout})
	h.remote(func() { w.attach(h) })
}

// do lets the machine take an event and carries its effects out.
func (h *holder) do(ev Event) {
	if h.over {
		return
	}
	if h.watch != nil {
		h.watch.before(ev)
	}
	effects := slices.Clone(h.m.Step(ev))
	h.in.w.tell(h, ev, effects)
	if h.watch != nil {
		h.watch.after(ev, effects)
	}
	for _, ef := range effects {
		h.effect(ef, ev.Kind)
	}
	if w := h.in.w; w.without == earlyAcks && h.m.state == Running && h.m.entries.frontier != noPosition() {
		w.ack(h, h.m.entries.frontier)
	}
}

func (h *holder) effect(ef Effect, why EventKind) {
	w := h.in.w
	switch ef.Kind {
	case efClaimCheckpoint:
		if w.without == earlyPermits {
			h.permits += firstPermits
		}
		op := &operation{}
		h.local(func() { h.claim(w.checkpoint, ef.Gen, op) })
	case efWriteRecord:
		if rec := w.tamper(h, ef.Record, why); rec != nil {
			h.write(*rec)
		}
	case efFlow:
		h.permits += ef.N
	case efAck:
		h.there = append(h.there, request{ack: true, do: func() { w.ack(h, ef.Pos) }})
	case efProbe:
		h.ask()
	case efClaim:
		h.claimTarget(ef)
	case efScan:
		h.scan(ef)
	case efSend:
		h.send(ef)
	case efRelease:
		if t := h.targets[ef.Target]; t != nil {
			t.abandon()
			delete(h.targets, ef.Target)
			h.close(t.line)
		}
	case efPresent:
		w.counts[foundStored] += ef.N
	case efLook:
		if w.without == earlyPermits { // what is overlooked then is what counts
			h.local(func() { h.do(Event{Kind: evLooked, Hole: ef.Hole}) })
			return
		}
		w.t.Fatalf("false alarm: looks for what is missing in %v, and nothing is", ef.Hole)
	case efEvidenceLost:
		w.counts[lostEvidence]++
	case efRerouted:
		w.counts[reroutes] += ef.N
	case efClose:
		h.finish(ef.Result)
	}
}

// finish ends a session: its producers are closed, and its consumer.
func (h *holder) finish(res Result) {
	w, s := h.in.w, h.seg
	h.over, h.here = true, nil
	if res.Deposed {
		w.counts[depositions]++
	}
	for _, l := range w.lines {
		if l.h == h {
			w.counts[inDoubt] += len(l.wire)
			h.close(l)
		}
	}
	for _, r := range h.there {
		if r.ack && w.rng.IntN(2) == 0 {
			r.do() // it was on its way
		}
	}
	h.there = nil
	w.detach(h)
	w.holders = slices.DeleteFunc(w.holders, func(o *holder) bool { return o == h })
	h.in.lanes[s.id].h, h.in.lanes[s.id].finished = nil, res.Finished
}

// kill is kill -9, or, if the machine went with it, silence.
func (in *instance) kill() {
	w := in.w
	silent := w.rng.IntN(3) == 0
	w.note("instance %d is killed, silently: %v", in.id, silent)
	for _, h := range slices.Clone(w.holders) {
		if h.in != in || h.dead {
			continue
		}
		h.dead, h.here, h.there, h.inbox = true, nil, nil, nil
		if !silent {
			w.bury(h)
		}
	}
	in.lanes, in.down, in.paused = make([]lane, len(w.segments)), true, false
	w.nap(in)
}

// bury: the brokers learn that a holder is dead.
func (w *world) bury(h *holder) {
	for _, l := range w.lines {
		if l.h == h {
			w.cut(l)
			l.owed = nil
		}
	}
	w.detach(h)
	w.holders = slices.DeleteFunc(w.holders, func(o *holder) bool { return o == h })
}

// nap is how long an instance is away: often for some steps, now and then for long.
func (w *world) nap(in *instance) {
	in.until = w.steps + w.rng.IntN(10)
	if w.rng.IntN(3) == 0 {
		in.until += w.rng.IntN(400)
	}
}
