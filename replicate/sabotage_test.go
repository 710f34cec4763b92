package replicate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// knockout names a protection that is taken away. What the model says then shows
// that the protection is needed, and that the model would notice.
type knockout int

const (
	none knockout = iota

	// Of the brokers, or of how they are used:
	sharedNames     // several hold the producer name on a target at the same time
	unfenced        // and on the checkpoint topic
	noBarrier       // what a dead holder had sent lands above a claim
	noRecordBarrier // so do its records
	noScan          // nothing is found
	partNumbers     // what is found is known by its place in an entry, not by its messages
	heedlessGuard   // the guard does not stop at the floors
	deafOwner       // nobody hears that a segment is somebody else's
	eagerChild      // children do not wait for their parents

	// Of the machine:
	earlyEpoch    // an epoch is taken for ours before its record has its receipt
	blindToEpoch  // whoever takes the checkpoint again does not look who had it
	earlyPermits  // permits are given before the record of the epoch is stored
	undeclared    // parts go out before a record lists the target
	unproven      // a scan is acted upon without a proof
	unprovenAlarm // so is evidence that is missing
	receiptFloors // floors are the last receipted position
	alwaysClean   // the last record always says clean
	noRewrite     // the record that was lost is not written again
	earlyAcks     // the source is acknowledged before the record is stored
)

// sabotage takes away what is the machine's, by wrapping its handlers.
func (w *world) sabotage(h *holder) {
	wrap := func(on EventKind, around func(m *Machine, ev Event, do handler)) {
		for s := range numStates {
			if do := h.m.dispatch[s][on]; do != nil {
				h.m.dispatch[s][on] = func(m *Machine, ev Event) { around(m, ev, do) }
			}
		}
	}
	if w.without == none {
		return
	}
	own := *h.m.dispatch
	h.m.dispatch = &own
	switch w.without {
	case earlyEpoch:
		wrap(evCheckpointClaimed, func(m *Machine, ev Event, do handler) {
			m.opened = true
			do(m, ev)
		})
	case blindToEpoch:
		wrap(evCheckpointClaimed, func(m *Machine, ev Event, do handler) {
			if m.opened && ev.Record != nil {
				ev.Record.Epoch = m.record.Epoch
			}
			do(m, ev)
		})
	case undeclared:
		wrap(evClaimed, func(m *Machine, ev Event, do handler) {
			do(m, ev)
			m.hasten(ev.Target)
		})
	case unproven, unprovenAlarm:
		for _, on := range []EventKind{evScanned, evGone} {
			wrap(on, func(m *Machine, ev Event, do handler) {
				do(m, ev)
				for len(m.proofs) > 0 {
					then := m.proofs[0].then
					m.proofs = m.proofs[1:]
					then()
				}
				if w.without == unproven {
					m.hasten(ev.Target)
				}
			})
		}
	}
}

// hasten sends without the receipt that is waited for.
func (m *Machine) hasten(id TargetID) {
	if t := m.targets[id]; t != nil && t.state == targetDeclaring && !t.terminated {
		t.state = targetOpen
		m.flush(t)
	}
}

// tamper is sabotage of what the machine writes; nil: it is not written.
func (w *world) tamper(h *holder, rec Record, why EventKind) *Record {
	rec = rec.clone()
	switch {
	case w.without == receiptFloors:
		for i := range rec.Floors {
			if t := h.m.targets[rec.Floors[i].TargetID]; t != nil {
				rec.Floors[i].Pos = t.high
			}
		}
	case w.without == alwaysClean && h.m.state == Settling:
		rec.Clean = true
	case w.without == noRewrite && why == evCheckpointClaimed && h.m.opened:
		return nil
	}
	return &rec
}

// complaint is what the model says of a schedule.
type complaint string

// accuser makes a panic of it.
type accuser struct{ testing.TB }

func (accuser) Fatalf(format string, args ...any) { panic(complaint(fmt.Sprintf(format, args...))) }

// complains plays one schedule without a protection.
func complains(t testing.TB, seed uint64, sh shape, f faults, without knockout) (said string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case complaint:
			said = string(r)
		default:
			panic(r)
		}
	}()
	w := newWorld(accuser{t}, seed, sh)
	w.without = without
	w.run(f)
	if without == unproven { // that it raises false alarms, too, is shown by itself
		w.counts[lostEvidence] = 0
	}
	w.check(true)
	return ""
}

// TestModelNoticesSabotage takes one protection away at a time. Each time the model
// must say so, within some schedules; and it says what would have happened.
func TestModelNoticesSabotage(t *testing.T) {
	const (
		twice, lost, order = "arrived twice", " arrived", "came after"
		alarm, stuck       = "false alarm", "stuck"
	)
	pair, short, family := shape{2, 1, 30}, shape{2, 1, 20}, shape{2, 4, 10}
	deaths := faults{layouts: true, losses: true, crashes: true, stops: true, handover: true, pauses: true, prunes: true}
	flaps := faults{losses: true, crashes: true, pauses: true, handover: true}
	sleeps := faults{losses: true, crashes: true, pauses: true, stops: true}
	for _, row := range []struct {
		name    string
		without knockout
		shape   shape
		faults  faults
		may     []string
	}{
		{"a name is shared", sharedNames, pair, deaths, []string{twice, order}},
		{"the checkpoint is not fenced", unfenced, pair, deaths, []string{twice, lost, order, alarm}},
		{"no barrier", noBarrier, pair, deaths, []string{twice, order}},
		{"no barrier on the checkpoint", noRecordBarrier, pair, flaps, []string{twice, alarm}},
		{"no scan", noScan, pair, deaths, []string{twice, order}},
		{"part numbers", partNumbers, pair, deaths, []string{lost, order}},
		{"a heedless guard", heedlessGuard, pair, deaths, []string{twice, alarm}},
		{"a deaf owner", deafOwner, pair, faults{handover: true, losses: true}, []string{stuck}},
		{"an eager child", eagerChild, family, faults{}, []string{order}},
		{"an early epoch", earlyEpoch, short, flaps, []string{twice, alarm}},
		{"blind to the epoch", blindToEpoch, pair, deaths, []string{twice, alarm, order}},
		{"early permits", earlyPermits, pair, deaths, []string{lost, order, stuck}},
		{"parts before the record", undeclared, pair, deaths, []string{twice, order}},
		{"no proof", unproven, short, sleeps, []string{twice, order}},
		{"an alarm without a proof", unprovenAlarm, pair, deaths, []string{alarm}},
		{"floors at receipts", receiptFloors, pair, deaths, []string{twice, order}},
		{"always clean", alwaysClean, pair, deaths, []string{twice, order}},
		{"no record again", noRewrite, short, faults{losses: true}, []string{stuck}},
		{"early acknowledgements", earlyAcks, pair, deaths, []string{alarm}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(sabotageRuns) {
				said := complains(t, seed, row.shape, row.faults, row.without)
				if said == "" {
					continue
				}
				if !slices.ContainsFunc(row.may, func(s string) bool { return strings.Contains(said, s) }) {
					t.Fatalf("seed %d: the model says %q; one of %q was to be expected", seed, said, row.may)
				}
				t.Logf("schedule %d: %s", seed+1, strings.SplitN(said, ";", 2)[0])
				return
			}
			t.Errorf("the model sees nothing wrong in %d schedules", sabotageRuns)
		})
	}
}

// sabotageRuns is how many schedules the model has to notice a sabotage.
const sabotageRuns = 30_000
