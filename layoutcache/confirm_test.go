package layoutcache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestConfirm(t *testing.T) {
	for name, row := range map[string]struct {
		answer      Update
		incarnation uint64
		want        error
	}{
		"there":           {update(0, whole(0, 100)), 1, nil},
		"newer":           {update(1, sealed(whole(0, 100), 1), whole(1, 200)), 1, nil},
		"gone":            {Update{Err: ErrTopicNotFound}, 1, ErrTopicNotFound},
		"made again":      {update(0, whole(0, 300)), 1, ErrAnother},
		"another already": {update(0, whole(0, 100)), 2, ErrAnother},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, Options{})
				defer r.stop()
				open := <-r.layouts
				open.push(update(0, whole(0, 100)))
				answer := make(chan error)
				go func() { answer <- r.cache.Confirm(t.Context(), row.incarnation) }()
				(<-r.layouts).events <- row.answer
				if err := <-answer; !errors.Is(err, row.want) {
					t.Errorf("%v, want %v", err, row.want)
				}
				if looksAgain := open.isOver(); looksAgain != (row.want != nil) {
					t.Errorf("looked up again: %v", looksAgain)
				}
			})
		})
	}
}

// Who asks while a look-up is under way has the next one, with all who do: its answer
// may be older than the question.
func TestConfirmIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{})
		defer r.stop()
		(<-r.layouts).push(update(0, whole(0, 100)))
		answers := make(chan error, 4)
		ask := func(ctx context.Context) {
			go func() { answers <- r.cache.Confirm(ctx, 1) }()
			synctest.Wait()
		}
		ask(t.Context())
		first := <-r.layouts
		given, giveUp := context.WithCancel(t.Context())
		ask(t.Context())
		ask(given)
		ask(t.Context())
		select {
		case <-r.layouts:
			t.Fatal("two at a time")
		default:
		}
		giveUp()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		began := time.Now()
		first.events <- update(0, whole(0, 100))
		if err := <-answers; err != nil {
			t.Errorf("the first: %v", err)
		}
		ask(t.Context()) // in time
		second := <-r.layouts
		if waited := time.Since(began); waited != confirmGap {
			t.Errorf("the next look-up after %v", waited)
		}
		second.events <- Update{Err: ErrTopicNotFound}
		for range 3 {
			if err := <-answers; !errors.Is(err, ErrTopicNotFound) {
				t.Errorf("the others: %v", err)
			}
		}
	})
}

// Who gives up does not fail the others: one of them asks.
func TestConfirmGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{})
		defer r.stop()
		(<-r.layouts).push(update(0, whole(0, 100)))
		given, giveUp := context.WithCancel(t.Context())
		answers, first := make(chan error, 2), make(chan error, 1)
		ask := func(ctx context.Context, to chan<- error) {
			go func() { to <- r.cache.Confirm(ctx, 1) }()
			synctest.Wait()
		}
		ask(t.Context(), answers)
		under := <-r.layouts
		ask(given, first) // waits for its turn
		ask(t.Context(), answers)
		giveUp()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		under.events <- update(0, whole(0, 100))
		(<-r.layouts).events <- update(0, whole(0, 100))
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
	})
}
