package replicate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// Letters of one writer come in its order, none is lost, whoever writes beside it.
func TestMailboxOrder(t *testing.T) {
	const writers, each = 8, 500
	box := newMailbox()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if i%2 == 0 {
					box.post(Event{Gen: w, Seq: uint64(i)})
				} else {
					box.put(letter{ev: Event{Gen: w, Seq: uint64(i)}, do: func() {}})
				}
			}
		})
	}
	var next [writers]uint64
	var letters []letter
	for got := 0; got < writers*each; got += len(letters) {
		var err error
		if letters, err = box.take(t.Context(), letters); err != nil {
			t.Fatal(err)
		}
		for i := range letters {
			ev := letters[i].ev
			if ev.Seq != next[ev.Gen] || (letters[i].do != nil) != (ev.Seq%2 == 1) {
				t.Fatalf("writer %d: letter %d, want %d", ev.Gen, ev.Seq, next[ev.Gen])
			}
			next[ev.Gen]++
		}
	}
	wg.Wait()
	if len(box.in) != 0 {
		t.Errorf("%d letters left over", len(box.in))
	}
}

// take waits while there is nothing, and a letter or the end wakes it.
func TestMailboxWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newMailbox()
		ctx, cancel := context.WithCancel(t.Context())
		var got []letter
		var err error
		taking := func() {
			go func() { got, err = box.take(ctx, got) }()
			synctest.Wait()
		}
		taking()
		if got != nil || err != nil {
			t.Fatalf("took %d letters, error %v, from an empty box", len(got), err)
		}
		box.post(Event{Kind: evTick})
		synctest.Wait()
		if len(got) != 1 || got[0].ev.Kind != evTick {
			t.Fatalf("took %v", got)
		}
		// The signal of a letter that was taken with an earlier one is still there: it must not end a wait.
		box.post(Event{Kind: evStop})
		taking()
		if len(got) != 1 || got[0].ev.Kind != evStop {
			t.Fatalf("took %v", got)
		}
		got = nil
		taking()
		if got != nil || err != nil {
			t.Fatalf("took %d letters, error %v", len(got), err)
		}
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v after the end", err)
		}
	})
}

// Letters that are there are taken even after the end.
func TestMailboxTakesAfterEnd(t *testing.T) {
	box := newMailbox()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	box.post(Event{Kind: evStop})
	if got, err := box.take(ctx, nil); err != nil || len(got) != 1 {
		t.Errorf("took %d letters, error %v", len(got), err)
	}
	if _, err := box.take(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
