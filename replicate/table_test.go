package replicate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every state reacts to the loss of the source, and each before Draining to the
// order to leave, or the lane could neither stop nor heal there.
func TestTableIsComplete(t *testing.T) {
	d := newDispatch(table())
	for s := Attaching; s < Closed; s++ {
		for _, k := range []EventKind{evStop, evSourceClosed, evFailed, evLayout, evTargetMissing} {
			if k == evStop && s >= Draining {
				continue // it leaves already
			}
			if d[s][k] == nil {
				t.Errorf("state %v has no row for event %d", s, k)
			}
		}
	}
	for k := range numEvents {
		if d[Closed][k] != nil {
			t.Errorf("event %d has a row in closed", k)
		}
		known := false
		for s := range numStates {
			known = known || d[s][k] != nil
		}
		if !known && k != evNothing {
			t.Errorf("event %d has no row at all", k)
		}
	}
}

func TestTableRefusesTwice(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); got != fmt.Sprintf("two rows for event %d in state running", evTick) {
			t.Errorf("panic: %s", got)
		}
	}()
	newDispatch(append(table(), row{[]State{Running}, evTick, (*Machine).onTick, nil}))
}

// Under any schedule nothing is permitted, sent or acknowledged too early, and
// no floor hides a part above the frontier.
func TestTableUnderTheModel(t *testing.T) {
	all := faults{layouts: true, stops: true, losses: true, crashes: true, handover: true}
	first := rand.Uint64()
	watch := newWatcher(t)
	for i := range 400 {
		seed := first + uint64(i)
		w := newWorld(failWith{t, seed}, seed, shape{instances: 2, segments: 4, entries: 8})
		w.watch = watch
		w.run(all)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("400 runs from seed %d", first)
	// The model must have been everywhere, or it shows nothing.
	for s := Attaching; s < Closed; s++ {
		if watch.reached[s] == nil {
			t.Errorf("no event ever came in state %v", s)
		}
	}
	for _, u := range watch.unnamed() {
		t.Error(u)
	}
	for _, want := range []struct {
		from State
		on   EventKind
		to   State
	}{
		{Recovering, evRecordStored, Running}, {Running, evStop, Draining}, {Running, evInactive, Draining},
		{Draining, evReceipt, Settling}, {Settling, evRecordStored, Parting}, {Parting, evAcked, Closed},
		{Running, evCheckpointClaimed, Running}, {Recording, evCheckpointLost, Closed},
	} {
		if watch.reached[want.from][want.on][want.to] == 0 {
			t.Errorf("event %d never led from %v to %v", want.on, want.from, want.to)
		}
	}
}

// What the table says of where a row leads is not only sufficient: no row names
// the state it starts in, or one twice.
func TestTableNext(t *testing.T) {
	for _, r := range table() {
		sorted := slices.Sorted(slices.Values(r.next))
		if len(slices.Compact(sorted)) != len(r.next) {
			t.Errorf("event %d names a state twice: %v", r.on, r.next)
		}
		if slices.Contains(r.next, Attaching) {
			t.Errorf("event %d leads back to the start", r.on)
		}
	}
}
