package replicate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geobridge/geobridge/reroute"
)

// rig drives one session by hand, an event at a time, and describes what the
// machine asks for.
type rig struct {
	t     *testing.T
	m     *Machine
	watch *watcher
	last  []Effect // of the last step
	asked int      // the generation of the last claim of the checkpoint
	gen   int      // of the checkpoint producer
}

var errLost = errors.New("connection lost")

// newRig is a session of a source segment over the whole ring.
func newRig(t *testing.T, edit func(*MachineConfig)) *rig {
	cfg := MachineConfig{
		Rules:       Rules{SourceCluster: "east", TargetCluster: "west", Lane: "geobridge-lane"},
		Source:      reroute.Source{Range: reroute.FullRange(), Proves: true},
		TargetTopic: "topic://public/default/t", MaxSize: 1 << 20, Window: 1 << 20, Tolerate: noPosition(), ParentsDone: true,
	}
	if edit != nil {
		edit(&cfg)
	}
	r := &rig{t: t, m: NewMachine(cfg), watch: newWatcher(t)}
	r.watch.attach(r.m)
	return r
}

func (r *rig) step(ev Event) *rig {
	r.t.Helper()
	if ev.Gen == 0 && (ev.Kind == evRecordStored || ev.Kind == evCheckpointLost) {
		ev.Gen = r.gen
	}
	r.watch.before(ev)
	r.last = slices.Clone(r.m.Step(ev))
	r.watch.after(ev, r.last)
	for _, ef := range r.last {
		if ef.Kind == efClaimCheckpoint {
			r.asked = ef.Gen
		}
	}
	return r
}

// want compares what the last step asked for, but for permits and what is only counted.
func (r *rig) want(lines ...string) *rig {
	r.t.Helper()
	var got []string
	for _, ef := range r.last {
		switch ef.Kind {
		case efFlow, efReceipted, efDone:
		default:
			got = append(got, effectText(ef))
		}
	}
	if !slices.Equal(got, lines) {
		r.t.Errorf("in %v, got\n  %s\nwant\n  %s", r.m.state, strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
	return r
}

func (r *rig) state(want State) *rig {
	r.t.Helper()
	if r.m.State() != want {
		r.t.Fatalf("state %v (%s), want %v", r.m.State(), r.m.Why(), want)
	}
	return r
}

// flows reports whether the last step gave permits.
func (r *rig) flows() bool {
	return slices.ContainsFunc(r.last, func(ef Effect) bool { return ef.Kind == efFlow })
}

func effectText(ef Effect) string {
	switch ef.Kind {
	case efClaimCheckpoint:
		return "claim checkpoint"
	case efWriteRecord:
		return "record " + recordText(ef.Record)
	case efAck:
		return fmt.Sprintf("ack %d", ef.Pos.Entry)
	case efProbe:
		return "probe"
	case efClaim:
		return fmt.Sprintf("claim %d gen %d", ef.Target.Segment, ef.Gen)
	case efScan:
		return fmt.Sprintf("scan %d gen %d from %d to %d", ef.Target.Segment, ef.Gen, ef.From.Entry, ef.Pos.Entry)
	case efPresent:
		return fmt.Sprintf("present %d", ef.N)
	case efLook:
		return fmt.Sprintf("look %d to %d", ef.Hole.after.Entry, ef.Hole.upTo.Entry)
	case efGap:
		return fmt.Sprintf("gap %s %d", ef.Reason, ef.N)
	case efEvidenceLost:
		return fmt.Sprintf("evidence lost %d", ef.Target.Segment)
	case efSend:
		which := appendIndices(nil, ef.Part.indices)
		return fmt.Sprintf("send %d gen %d seq %d: %d[%s]", ef.Target.Segment, ef.Gen, ef.Part.seq, ef.Part.entry.pos.Entry, which)
	case efRelease:
		return fmt.Sprintf("release %d", ef.Target.Segment)
	case efTakeParking:
		s := fmt.Sprintf("take parking gen %d", ef.Gen)
		if ef.From != noPosition() {
			s += fmt.Sprintf(" from %d", ef.From.Entry)
		}
		return s
	case efPark:
		return fmt.Sprintf("park %d %s", ef.Poison.entry.pos.Entry, ef.Poison.reason)
	case efDrop:
		return fmt.Sprintf("drop %d", ef.Entry.pos.Entry)
	case efRerouted:
		return fmt.Sprintf("rerouted %d", ef.N)
	case efClose:
		return "close" + resultText(ef.Result)
	}
	return fmt.Sprintf("effect %d", ef.Kind)
}

// recordText is a record in short: the floors as segment@entry, ! if fresh.
func recordText(rec Record) string {
	s := fmt.Sprintf("epoch %d frontier %d", rec.Epoch, rec.Frontier.Entry)
	if rec.Clean {
		s += " clean"
	}
	if rec.Finished {
		s += " finished"
	}
	floors := slices.Clone(rec.Floors)
	if rec.Parked != nil {
		s += fmt.Sprintf(" parked@%d", rec.Parked.Entry)
	}
	slices.SortFunc(floors, func(a, b Floor) int { return int(a.Segment) - int(b.Segment) })
	for _, f := range floors {
		s += fmt.Sprintf(" %d@%d", f.Segment, f.Pos.Entry)
		if f.Fresh {
			s += "!"
		}
	}
	return s
}

func resultText(res Result) string {
	s := ""
	for text, is := range map[string]bool{" clean": res.Clean, " finished": res.Finished, " deposed": res.Deposed} {
		if is {
			s += text
		}
	}
	words := strings.Fields(s)
	slices.Sort(words)
	s = strings.Join(append([]string{""}, words...), " ")
	if res.Bad != nil {
		s += fmt.Sprintf(" bad %d", res.Bad.Entry)
	}
	if res.Err != nil {
		s += ": " + res.Err.Error()
	}
	return s
}

// The events, in short.

func (r *rig) layout(l *reroute.Layout) *rig { return r.step(Event{Kind: evLayout, Layout: l}) }
func (r *rig) stored() *rig                  { return r.step(Event{Kind: evRecordStored}) }
func (r *rig) drained() *rig                 { return r.step(Event{Kind: evBacklog, Sealed: true}) }
func (r *rig) on(k EventKind) *rig           { return r.step(Event{Kind: k}) }
func (r *rig) fails(k EventKind) *rig        { return r.step(Event{Kind: k, Err: errLost}) }

func (r *rig) checkpoint(rec *Record) *rig {
	r.gen = r.asked
	return r.step(Event{Kind: evCheckpointClaimed, Gen: r.gen, Record: rec, Begun: true, Pos: noPosition()})
}

// segment ids of the rig's layouts were created at id+10.
func at(segment uint64) TargetID {
	return TargetID{Segment: segment, CreatedAtMs: int64(segment) + 10}
}

func placed(entry int64) Position { return Position{Ledger: 100, Entry: entry} }

func (r *rig) parkingTaken(gen int, barrier int64, found ...found) *rig {
	return r.step(Event{Kind: evParkingTaken, Gen: gen, Pos: placed(barrier), Found: found})
}

func (r *rig) claimed(segment uint64, gen int, barrier int64) *rig {
	return r.step(Event{Kind: evClaimed, Target: at(segment), Gen: gen, Pos: placed(barrier), Seq: 1})
}

func (r *rig) ended(segment uint64, gen int) *rig {
	return r.step(Event{Kind: evEnded, Target: at(segment), Gen: gen})
}

// scanned answers a scan; what is stored of entry i lies at i+1 behind at.
func (r *rig) scanned(segment uint64, gen int, all ...found) *rig {
	return r.step(Event{Kind: evScanned, Target: at(segment), Gen: gen, Found: all})
}

// stored1 is a stored copy of an entry at the source position.
func storedCopy(source, pos int64, total int, indices ...int) found {
	return found{source: Position{Ledger: 7, Entry: source}, indices: indices, total: total, at: placed(pos)}
}

func (r *rig) doubt(segment uint64, gen int) *rig {
	return r.step(Event{Kind: evDoubt, Target: at(segment), Gen: gen, Err: errLost})
}

func (r *rig) receipt(segment uint64, gen int, seq uint64, pos int64) *rig {
	return r.step(Event{Kind: evReceipt, Target: at(segment), Gen: gen, Seq: seq, Pos: placed(pos)})
}

// give delivers an entry at the position: one message, or a batch of several.
func (r *rig) give(pos int64, keys ...string) *rig {
	e := batchOf(r.t, keys, nil)
	if len(keys) == 1 {
		e = keyed1(r.t, keys[0])
	}
	return r.giveEntry(pos, e)
}

func (r *rig) giveEntry(pos int64, e *entry) *rig {
	e.pos = Position{Ledger: 7, Entry: pos}
	return r.step(Event{Kind: evEntry, Entry: e})
}

// one is a layout of segment 1; split of it makes 2 and 3, and 4 is those merged.
func one(t testing.TB) *reroute.Layout {
	return mustLayout(t, 1, reroute.Segment{ID: 1, CreatedAtMs: 11, Range: reroute.FullRange()})
}

func splitOne(t testing.TB) *reroute.Layout {
	return mustLayout(t, 2, reroute.Segment{ID: 1, CreatedAtMs: 11, Range: reroute.FullRange(), Sealed: true},
		reroute.Segment{ID: 2, CreatedAtMs: 12, Range: leftHalf}, reroute.Segment{ID: 3, CreatedAtMs: 13, Range: rightHalf})
}

func merged(t testing.TB) *reroute.Layout {
	return mustLayout(t, 3, reroute.Segment{ID: 4, CreatedAtMs: 14, Range: reroute.FullRange()},
		reroute.Segment{ID: 2, CreatedAtMs: 12, Range: leftHalf, Sealed: true}, reroute.Segment{ID: 3, CreatedAtMs: 13, Range: rightHalf, Sealed: true})
}

// left and right are keys of segments 2 and 3.
func leftKey() string  { return keys(leftHalf, reroute.FullRange(), 1)[0] }
func rightKey() string { return keys(rightHalf, reroute.FullRange(), 1)[0] }

// open brings a session of a lane that never wrote to running.
func (r *rig) open(l *reroute.Layout) *rig {
	r.t.Helper()
	return r.layout(l).on(evSubscribed).on(evActive).checkpoint(nil).stored().state(Running)
}

// openOne is open on one, with segment 1 claimed, declared and open: entry 0 is
// on its way there as sequence id 1.
func (r *rig) openOne() *rig {
	r.t.Helper()
	r.open(one(r.t)).give(0, leftKey()).want("claim 1 gen 1")
	r.claimed(1, 1, 5).stored()
	return r.want("send 1 gen 1 seq 1: 0[*]")
}
