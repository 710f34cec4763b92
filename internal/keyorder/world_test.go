package keyorder_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/internal/keyorder"
)

// world is a broker that keeps its promises: the entries of a key go to one
// consumer at a time, in their order, and move when they are acknowledged, or
// when their consumer crashes.
type world struct {
	c         *keyorder.Checker
	keys      []*worldKey
	consumers []string
	next      int // of consumers' names
}

type worldKey struct {
	name    string
	log     []keyorder.Position // of message i
	segment int
	owner   string
	acked   int // messages before it
	given   int
}

func (k *worldKey) message(i int) keyorder.Message {
	return keyorder.Message{Source: "p", Key: k.name, Seq: uint64(i)}
}

func newWorld() *world {
	w := &world{c: keyorder.New(keyorder.Options{Holding: true, Recent: 8})}
	for i := range 3 {
		w.keys = append(w.keys, &worldKey{name: fmt.Sprint("k", i)})
	}
	w.join()
	return w
}

func (w *world) join() {
	name := fmt.Sprint("c", w.next)
	w.next++
	w.consumers = append(w.consumers, name)
	w.c.Joined(name)
}

func (w *world) store(k *worldKey) {
	segment := fmt.Sprint("s", k.segment)
	w.c.Published(k.message(len(k.log)))
	k.log = append(k.log, keyorder.Position{Segment: segment, Ledger: 1, Entry: int64(len(k.log))})
}

func (w *world) deliver(k *worldKey) {
	if k.given == len(k.log) || k.given-k.acked >= 8 {
		return
	}
	w.c.Delivered(k.owner, k.message(k.given), k.log[k.given])
	k.given++
}

func (w *world) step(t *rapid.T) {
	k := w.keys[rapid.IntRange(0, len(w.keys)-1).Draw(t, "key")]
	if !slices.Contains(w.consumers, k.owner) {
		k.owner = w.consumers[0]
	}
	someone := rapid.IntRange(0, len(w.consumers)-1).Draw(t, "consumer")
	switch rapid.IntRange(0, 9).Draw(t, "step") {
	case 0, 1:
		w.store(k)
	case 2, 3, 4:
		w.deliver(k)
	case 5:
		if k.given > k.acked {
			k.acked = rapid.IntRange(k.acked+1, k.given).Draw(t, "acked")
			w.c.Acked(k.owner, k.message(k.acked-1))
		}
	case 6: // the bucket moves
		if k.given == k.acked {
			k.owner = w.consumers[someone]
		}
	case 7:
		if len(w.consumers) < 4 {
			w.join()
		}
	case 8:
		w.crash(w.consumers[someone])
	case 9:
		k.segment++ // split: what follows is stored in a child
	}
}

func (w *world) crash(consumer string) {
	w.c.Crashed(consumer)
	w.consumers = slices.DeleteFunc(w.consumers, func(c string) bool { return c == consumer })
	if len(w.consumers) == 0 {
		w.join()
	}
	for _, k := range w.keys {
		if k.owner == consumer {
			k.owner, k.given = w.consumers[0], k.acked
		}
	}
}

func (w *world) finish() {
	for _, k := range w.keys {
		if !slices.Contains(w.consumers, k.owner) {
			k.owner = w.consumers[0]
		}
		for k.given < len(k.log) {
			w.c.Delivered(k.owner, k.message(k.given), k.log[k.given])
			k.given++
			k.acked = k.given
			w.c.Acked(k.owner, k.message(k.given-1))
		}
		if k.given > k.acked {
			w.c.Acked(k.owner, k.message(k.given-1))
			k.acked = k.given
		}
	}
}

func TestCheckerFindsNothingWhereNothingIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			w.step(t)
		}
		w.finish()
		if p := w.c.Report().Problems(); p != nil || w.c.Waiting() != 0 {
			t.Fatalf("waiting for %d, found %v", w.c.Waiting(), p)
		}
	})
}

// TestCheckerFindsWhatIs breaks one promise once, anywhere in such a history.
func TestCheckerFindsWhatIs(t *testing.T) {
	faults := []struct {
		kind keyorder.Kind
		do   func(*world, *worldKey)
	}{
		{keyorder.Lost, func(_ *world, k *worldKey) { k.given++; k.acked++ }},
		{keyorder.Foreign, func(w *world, k *worldKey) {
			w.c.Delivered(k.owner, keyorder.Message{Source: "x", Key: k.name}, keyorder.Position{Segment: "s", Entry: 1 << 40})
			w.c.Acked(k.owner, keyorder.Message{Source: "x", Key: k.name})
		}},
		{keyorder.Duplicate, func(w *world, k *worldKey) {
			at := k.log[k.given-1]
			at.Index = 1 // stored next to it, before what follows
			w.c.Delivered(k.owner, k.message(k.given-1), at)
			w.c.Acked(k.owner, k.message(k.given-1))
		}},
		{keyorder.OutOfOrder, func(w *world, k *worldKey) {
			w.c.Delivered(k.owner, k.message(k.given+1), k.log[k.given+1])
			w.c.Delivered(k.owner, k.message(k.given), k.log[k.given])
			w.c.Acked(k.owner, k.message(k.given+1))
			k.given += 2
			k.acked = k.given
		}},
		{keyorder.Rewound, func(w *world, k *worldKey) {
			w.c.Delivered(k.owner, k.message(k.given-1), k.log[k.given-1])
			w.c.Acked(k.owner, k.message(k.given-1))
		}},
		{keyorder.Overlap, func(w *world, k *worldKey) {
			w.deliver(k) // and is not acknowledged
			w.join()
			w.c.Delivered(w.consumers[len(w.consumers)-1], k.message(k.given), k.log[k.given])
			w.c.Acked(w.consumers[len(w.consumers)-1], k.message(k.given))
			w.c.Acked(k.owner, k.message(k.given-1))
			k.given++
			k.acked = k.given
		}},
		{keyorder.LeftHolding, func(w *world, k *worldKey) {
			w.deliver(k)
			w.c.Left(k.owner)
			k.given = k.acked
		}},
	}
	rapid.Check(t, func(t *rapid.T) {
		fault := faults[rapid.IntRange(0, len(faults)-1).Draw(t, "fault")]
		w := newWorld()
		for range rapid.IntRange(0, 100).Draw(t, "steps before") {
			w.step(t)
		}
		k := w.keys[0]
		w.finish()
		k.owner = w.consumers[0]
		for range 4 {
			w.store(k)
		}
		w.deliver(k)
		k.acked = k.given
		w.c.Acked(k.owner, k.message(k.given-1))
		fault.do(w, k)
		for range rapid.IntRange(0, 100).Draw(t, "steps after") {
			w.step(t)
		}
		w.finish()
		r := w.c.Report()
		if r.Found[fault.kind] != 1 || len(r.Found) != 1 {
			t.Fatalf("want one %s, found %v: %v", fault.kind, r.Found, r.Findings)
		}
	})
}
