package bridge

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/geobridge/geobridge/replicate"
)

// An instance that starts in the middle of a forget is either refused until that has
// come to its end, and begins anew, or it is there first, and forget is refused.
func TestForgetMeetsStart(t *testing.T) {
	for step := 1; ; step++ {
		over := false
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options = ", on_gap: stop"
				w.copiedOnce(30)
				var r *running
				steps := 0
				f, err := w.tryForget(true, func(context.CancelFunc, string) {
					if steps++; steps == step {
						r = w.run()
						time.Sleep(2 * time.Second) // fake time: it goes as far as it can
					}
				})
				if over = r == nil; over {
					return
				}
				if err != nil && !replicate.Refused(err) {
					t.Errorf("%v", err)
				}
				before := 0
				if done := err == nil && f.Done; done {
					before = 30
				}
				w.publish(orders, 10)
				w.copied(orders)
				r.endsWell()
				w.want(orders, w.twice(orders, before, 0)...)
			})
		})
		if over {
			if step < 10 {
				t.Errorf("only %d steps", step-1)
			}
			return
		}
	}
}

// An instance that starts in the middle of a rewind opens no lane before its end.
func TestRewindMeetsStart(t *testing.T) {
	for step := 1; ; step++ {
		over := false
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options = ", on_gap: stop"
				w.loadedOnce()
				var r *running
				steps := 0
				got, err := w.tryRewind(replicate.RewindOptions{Yes: true}, func(context.CancelFunc, string) {
					if steps++; steps == step {
						r = w.run()
						time.Sleep(2 * time.Second) // fake time: it goes as far as it can
					}
				})
				if over = r == nil; over {
					return
				}
				if err != nil && (!replicate.Refused(err) || got.Done) {
					t.Errorf("%v", err)
				}
				w.publish(orders, 10)
				w.copied(orders)
				r.endsWell()
				if err == nil {
					w.want(orders, w.twice(orders, 90, 0)...)
				} else {
					w.want(orders, w.published[orders]...)
				}
			})
		})
		if over {
			if step < 12 {
				t.Errorf("only %d steps", step-1)
			}
			return
		}
	}
}

// An instance that was cut off from both clusters during a rewind takes part in it when it
// is back, also with the lanes that it had finished.
func TestRewindMeetsTheCutOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options = ", on_gap: stop"
		r := w.run()
		w.loaded()
		time.Sleep(20 * time.Second) // fake time: the sealed segments are finished
		r.line.kill()
		w.rewind(replicate.Point{}, nil)
		r.line.heal()
		w.publish(orders, 10)
		w.copied(orders)
		r.endsWell()
		w.want(orders, w.twice(orders, 90, 0)...)
	})
}
