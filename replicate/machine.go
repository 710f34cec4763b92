package replicate

import (
	"errors"
	"fmt"

	"github.com/geobridge/geobridge/reroute"
)

// MachineConfig is what a session of a lane is told at its start.
type MachineConfig struct {
	Rules       Rules
	Source      reroute.Source
	TargetTopic string
	MaxSize     int  // the most that one target entry may take, in bytes
	Window      int  // bytes of source entries to hold at once
	StopPoison  bool // on_unroutable: stop
	// StopEvidence is on_lost_evidence: stop; Accept, that an operator takes what an
	// opening finds lost.
	StopEvidence, Accept bool
	StopGap              bool // on_gap: stop
	FromLatest           bool // the subscription began at the end of this segment
	Unsubscribed         bool // the subscription was deleted, and made again, since the lane opened last
	// Tolerate is an entry that was unreadable often enough to be parked.
	Tolerate Position
	// Before is what ended the session before this one, if it was trouble.
	Before error
	// ParentsDone and Sealed are what is known at the start; events report later changes.
	ParentsDone, Sealed bool
}

// Machine is one session of a lane: from attaching to the source segment until
// it is closed. It is not safe for concurrent use.
type Machine struct {
	cfg      MachineConfig
	cut      cutter
	dispatch *dispatch
	state    State
	out      []Effect

	// the source
	active, parentsDone, sealed, lost bool
	handover                          bool // draining because the segment is somebody else's now
	entries                           inflight
	flow                              flow

	// the checkpoint
	record     Record // as it will be written next
	held       bool   // the checkpoint producer is ours
	opened     bool   // a record under our epoch has its receipt
	claimGen   int    // of the present checkpoint producer
	trouble    error  // why it is not
	writing    bool
	proofs     []proof // what waits for its receipt, in order
	version    uint64  // of the last write
	written    Record  // the one on its way, or the last one stored
	dirty      bool    // record differs from written
	rewrite    bool    // write again as soon as the one on its way has its receipt
	bytesSince int     // receipted since the last write
	acked      Position
	acks       int // without answer
	parking    parking
	abandoned  bool
	present    presences // stored by earlier sessions, above the frontier
	unsure     bool      // what earlier sessions left in doubt was not looked for yet
	through    Position  // the last that was delivered, or looked into
	looking    int       // holes that are looked into
	sought     bool      // what may lie below the subscription at the opening was, and nothing holds the lane
	starved    int       // answers in a row that speak of a backlog while nothing comes
	moved      uint64    // rises with all that is progress
	told       int64     // the source's last word about its backlog
	untold     error     // why there is no newer one
	rest       int64     // what the source had last when all that it gave was copied, less what came since
	result     Result

	// the target
	layout, pending *reroute.Layout
	missing         error  // the target topic does not exist
	behind          *Floor // the record lists a segment that the layout does not know yet
	reclaimed       bool   // what the record lists is looked into, or nothing is to be found there
	targets         map[TargetID]*target
	hold            string // why the lane must not go on
	loss            bool   // it is something lost, and an operator may accept that
}

// NewMachine returns a session in state Attaching.
func NewMachine(cfg MachineConfig) *Machine {
	return &Machine{
		cfg:         cfg,
		cut:         cutter{rules: cfg.Rules, source: cfg.Source, maxSize: cfg.MaxSize},
		dispatch:    newDispatch(table()),
		parentsDone: cfg.ParentsDone,
		sealed:      cfg.Sealed,
		entries:     inflight{last: noPosition()},
		flow:        newFlow(cfg.Window),
		acked:       noPosition(),
		through:     noPosition(),
		targets:     map[TargetID]*target{},
		present:     presences{},
	}
}

// Step takes one event and returns what is to be done about it, in order. The
// result is valid until the next call.
func (m *Machine) Step(ev Event) []Effect {
	m.out = m.out[:0]
	if do := m.dispatch[m.state][ev.Kind]; do != nil {
		do(m, ev)
	}
	return m.out
}

// State returns where the session stands.
func (m *Machine) State() State { return m.state }

// Why says what the session waits for; empty: nothing.
func (m *Machine) Why() string {
	switch {
	case m.hold != "":
		return m.hold
	case m.state == Waiting:
		return "a parent segment is not finished"
	case m.state == Recording, m.state == Settling && m.held:
		return because("writes its record", m.trouble)
	case m.state == Parting:
		return "awaits its last acknowledgement"
	case m.state == Claiming, m.state > Claiming && m.state < Closed && !m.held:
		return because("takes the checkpoint topic", m.trouble)
	case m.state == Attaching:
		return because("attaches to the source segment", m.cfg.Before)
	case m.state == Standby, m.state == Closed:
		return ""
	case m.looking > 0 && m.cfg.StopGap:
		return "looks whether source data is gone"
	case m.missing != nil:
		return m.missing.Error()
	case m.layout == nil:
		return "the target's layout is not known yet"
	}
	if m.behind != nil {
		return fmt.Sprintf("waits for a layout that has target segment %d", m.behind.Segment)
	}
	for _, t := range m.targets {
		switch {
		case t.state == targetClaiming:
			return because(fmt.Sprintf("takes target segment %d", t.id.Segment), t.trouble)
		case t.state == targetScanning:
			return because(fmt.Sprintf("reads target segment %d%s", t.id.Segment, forStored), t.trouble)
		case t.state == targetEnded && len(t.queue) > 0:
			return fmt.Sprintf("target segment %d is sealed; waits for the newer layout", t.id.Segment)
		}
	}
	switch {
	case m.parking.state == parkingTaking:
		return because("takes the parking topic", m.parking.trouble)
	case m.bytesSince >= unrecordedBytes, m.writing && m.trouble != nil:
		return because("the record has no receipt", m.trouble)
	case m.state == Draining:
		return "drains"
	}
	return ""
}

// forStored is where the driver says how far a reading is.
const forStored = " for what is stored already"

func because(what string, err error) string {
	if err == nil {
		return what
	}
	return fmt.Sprintf("%s: %v", what, err)
}

func (m *Machine) emit(ef Effect) { m.out = append(m.out, ef) }

func (m *Machine) enter(s State) {
	m.state = s
	m.moved++
}

// close ends the session. What is in flight is abandoned, not complete.
func (m *Machine) close(r Result) {
	m.enter(Closed)
	m.emit(Effect{Kind: efClose, Result: r})
}

// leave ends a session that has begun nothing.
func (m *Machine) leave(Event) {
	m.result.Clean = true
	m.close(m.result)
}

func (m *Machine) onFailed(ev Event) {
	m.close(Result{Err: ev.Err, Deposed: errors.Is(ev.Err, errDeposed), Clean: m.state < Recording})
}

func (m *Machine) onHandOver(Event) {
	m.handover = true
	m.drain()
}

func (m *Machine) onStop(Event) { m.drain() }

// unreceipted counts the sends that have no receipt yet.
func (m *Machine) unreceipted() int {
	n := 0
	for _, t := range m.targets {
		n += t.sent
	}
	return n
}

// quiet reports whether everything that was read is copied, recorded and
// acknowledged.
func (m *Machine) quiet() bool {
	return m.idle() && !m.dirty && !m.writing && m.acks == 0
}

// idle reports whether everything that was read is copied.
func (m *Machine) idle() bool {
	return m.state == Running && m.hold == "" && !m.lost && len(m.entries.queue) == 0
}
