package replicate

import (
	"fmt"
	"slices"
	"testing"
)

// watcher looks over a machine's shoulder: what must hold at each step, whatever
// the schedule. It is attached to one session at a time.
type watcher struct {
	t       testing.TB
	m       *Machine
	gen     int                    // of the checkpoint producer
	wire    []Record               // written, without receipt
	stored  *Record                // the last receipted one of this session
	landed  map[TargetID][]landing // by position in the source's order
	reached map[State]map[EventKind]map[State]int
	broken  bool
}

func newWatcher(t testing.TB) *watcher {
	return &watcher{t: t, reached: map[State]map[EventKind]map[State]int{}}
}

// attach starts over with a new session, and wraps every handler of it.
func (w *watcher) attach(m *Machine) {
	w.m, w.gen, w.wire, w.stored = m, 0, nil, nil
	w.landed = map[TargetID][]landing{}
	d := new(dispatch)
	for s := range numStates {
		for k := range numEvents {
			do := m.dispatch[s][k]
			if do == nil {
				continue
			}
			d[s][k] = func(m *Machine, ev Event) {
				do(m, ev)
				w.count(s, k, m.state)
			}
		}
	}
	m.dispatch = d
}

// another watches another session at the same time, and counts with w.
func (w *watcher) another(t testing.TB, m *Machine) *watcher {
	o := &watcher{t: t, reached: w.reached}
	o.attach(m)
	return o
}

// nextStates indexes where the rows of a table lead.
func nextStates(rows []row) (may [numStates][numEvents][]State) {
	for _, r := range rows {
		for _, s := range r.in {
			may[s][r.on] = r.next
		}
	}
	return may
}

// unnamed are the transitions that happened and that the table does not name.
func (w *watcher) unnamed() []string {
	may := nextStates(table())
	var out []string
	for from, events := range w.reached {
		for on, states := range events {
			for to := range states {
				if to != from && !slices.Contains(may[from][on], to) {
					out = append(out, fmt.Sprintf("event %d led from %v to %v; the table says %v", on, from, to, may[from][on]))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

func (w *watcher) count(from State, on EventKind, to State) {
	if w.reached[from] == nil {
		w.reached[from] = map[EventKind]map[State]int{}
	}
	if w.reached[from][on] == nil {
		w.reached[from][on] = map[State]int{}
	}
	w.reached[from][on][to]++
}

// before is told of an event that the machine is about to take.
func (w *watcher) before(ev Event) {
	switch ev.Kind {
	case evRecordStored:
		if len(w.wire) > 0 && ev.Gen == w.gen {
			w.stored, w.wire = &w.wire[0], w.wire[1:]
		}
	case evCheckpointLost:
		if ev.Gen == w.gen {
			w.wire = nil
		}
	case evCheckpointClaimed:
		w.gen = ev.Gen
		if ev.Record != nil && ev.Record.Finished {
			w.stored = ev.Record
		}
	}
}

// after is told of what the machine asked for.
func (w *watcher) after(ev Event, effects []Effect) {
	for i, ef := range effects {
		if ef.Kind == efReceipted {
			e := ef.Part.entry
			w.landed[ef.Target] = append(w.landed[ef.Target], landing{e.pos, ef.Pos})
		}
		if err := w.judge(ef); err != nil {
			w.errorf("after event %d in %v: %v", ev.Kind, w.m.state, err)
		}
		if ef.Kind == efClose && i != len(effects)-1 {
			w.errorf("%d effects after the close", len(effects)-1-i)
		}
	}
}

func (w *watcher) judge(ef Effect) error {
	switch ef.Kind {
	case efWriteRecord:
		w.wire = append(w.wire, ef.Record)
		if len(w.wire) > 1 {
			return fmt.Errorf("%d records on their way at once", len(w.wire))
		}
		return w.judgeFloors(ef.Record)
	case efFlow:
		if w.stored == nil {
			return fmt.Errorf("%d permits before the record of this epoch has its receipt", ef.N)
		}
	case efSend:
		if w.stored == nil || w.stored.floor(ef.Target) == nil {
			return fmt.Errorf("a part for %v, which no receipted record lists", ef.Target)
		}
	case efAck:
		if w.stored == nil || ef.Pos.Compare(w.stored.Frontier) > 0 {
			return fmt.Errorf("acknowledged up to %v, beyond the receipted record %+v", ef.Pos, w.stored)
		}
	}
	return nil
}

// judgeFloors: parts of entries above the frontier lie above the floor.
func (w *watcher) judgeFloors(rec Record) error {
	for _, f := range rec.Floors {
		for _, l := range w.landed[f.TargetID] {
			if l.source.Compare(rec.Frontier) > 0 && l.pos.Compare(f.Pos) <= 0 {
				return fmt.Errorf("a part of entry %v at %v, with the frontier at %v and a floor of %v", l.source, l.pos, rec.Frontier, f.Pos)
			}
		}
	}
	return nil
}

// errorf reports the first thing that does not hold.
func (w *watcher) errorf(format string, args ...any) {
	w.t.Helper()
	if !w.broken {
		w.broken = true
		w.t.Errorf(format, args...)
	}
}
