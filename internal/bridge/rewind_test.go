package bridge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
)

func (w *world) tryRewind(o replicate.RewindOptions, told func(ctx context.CancelFunc, step string)) (*replicate.Rewinding, error) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	u, end := w.upkeep(func(step string) {
		if told != nil {
			told(cancel, step)
		}
	})
	defer end()
	return u.Rewind(ctx, o)
}

// rewind first shows what it would do, which must be what it does.
func (w *world) rewind(to replicate.Point, segment *uint64) *replicate.Rewinding {
	w.T.Helper()
	before := w.kept()
	plan, err := w.tryRewind(replicate.RewindOptions{To: to, Segment: segment}, nil)
	w.Must(err)
	if after := w.kept(); fmt.Sprint(before) != fmt.Sprint(after) || plan.Done {
		w.T.Errorf("the plan changed something: %v, then %v", before, after)
	}
	r, err := w.tryRewind(replicate.RewindOptions{To: to, Segment: segment, Yes: true}, nil)
	w.Must(err)
	if !r.Done || r.Entries != plan.Entries || len(r.Lanes) != len(plan.Lanes) {
		w.T.Errorf("done %+v, planned %+v", r, plan)
	}
	return r
}

// loaded publishes in three parts, with changes of both layouts between them, and
// copies all of it. It returns when the second part began.
func (w *world) loaded() (second time.Time) {
	w.T.Helper()
	w.publish(orders, 30)
	w.Must(w.Sides["east"].Split(orders, 0))
	w.Must(w.Sides["west"].Split(orders, 1))
	time.Sleep(time.Second)
	second = time.Now()
	w.publish(orders, 30)
	w.Must(w.Sides["east"].Merge(orders, 1, 3))
	w.publish(orders, 30)
	w.copied(orders)
	return second
}

// loadedOnce leaves a mapping that has copied that, and is stopped.
func (w *world) loadedOnce() (second time.Time) {
	w.T.Helper()
	r := w.run()
	second = w.loaded()
	r.endsWell()
	return second
}

// Everything after the point comes once more, each key in order, behind what is
// there; nothing is lost, and nothing is taken for a gap.
func TestRewind(t *testing.T) {
	for _, tt := range []struct {
		name string
		to   func(second time.Time) replicate.Point
		from int
	}{
		{"earliest", func(time.Time) replicate.Point { return replicate.Point{} }, 0},
		{"time", func(second time.Time) replicate.Point { return replicate.Point{Time: second} }, 30},
		{"time before all", func(second time.Time) replicate.Point { return replicate.Point{Time: second.Add(-time.Hour)} }, 0},
		{"time after all", func(second time.Time) replicate.Point { return replicate.Point{Time: second.Add(time.Hour)} }, 90},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options = ", on_gap: stop"
				second := w.loadedOnce()
				w.rewind(tt.to(second), nil)
				r := w.run()
				w.publish(orders, 20)
				w.copied(orders)
				w.publish(bills, 10)
				w.copied(bills)
				r.endsWell()
				w.want(orders, w.twice(orders, 90, tt.from)...)
				w.want(bills, w.published[bills]...)
			})
		})
	}
}

// Of one segment, from one entry on; what follows it in other segments comes, too.
func TestRewindSegment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.copiedOnce(40)
		segment := w.segments("east", orders)[1]
		entries, err := w.Sides["east"].Entries(segment.Topic(orders))
		w.Must(err)
		at := pulsar.MessageID{Ledger: entries[5].At.Ledger, Entry: entries[5].At.Entry}
		if _, err := w.tryRewind(replicate.RewindOptions{To: replicate.Point{Position: &pulsar.MessageID{Ledger: at.Ledger - 1, Entry: 5}}, Segment: &segment.ID}, nil); !replicate.Refused(err) || !strings.Contains(err.Error(), "there is no entry") {
			t.Error(err)
		}
		if _, err := w.tryRewind(replicate.RewindOptions{Segment: new(uint64(99))}, nil); !replicate.Refused(err) || !strings.Contains(err.Error(), "source segment 99 is not there") {
			t.Error(err)
		}
		if plan := w.rewind(replicate.Point{Position: &at}, &segment.ID); plan.Entries != int64(len(entries)-5) {
			t.Errorf("%+v", plan)
		}
		r := w.run()
		w.copied(orders)
		r.stop()
		want := slices.Clone(w.published[orders])
		for _, e := range entries[5:] {
			want = append(want, string(e.Payload))
		}
		w.want(orders, want...)
	})
}

// What a sealed segment is copied again is followed by its children, whole, so that
// each key's last word stays the last.
func TestRewindParent(t *testing.T) {
	inWorld(t, func(w *world) {
		second := w.loadedOnce()
		plan := w.rewind(replicate.Point{Time: second.Add(-time.Second - 10*time.Millisecond)}, new(uint64(0)))
		moves := map[uint64]bool{}
		for _, l := range plan.Lanes {
			moves[l.Segment] = l.Back != ""
		}
		if fmt.Sprint(moves) != "map[0:true 1:false 2:true 3:true 4:true]" {
			t.Errorf("%+v", plan.Lanes)
		}
		r := w.run()
		w.copied(orders)
		r.stop()
		w.lastWords()
	})
}

// A segment without any entry stands between a parent and what followed it: what the
// parent is copied again comes before that all the same.
func TestRewindThroughEmptySegments(t *testing.T) {
	for name, segment := range map[string]*uint64{"all": nil, "the parent": new(uint64(0))} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options = ", on_gap: stop"
				r := w.run()
				w.publish(orders, 300)
				w.Must(w.Sides["east"].Split(orders, 0))
				w.Must(w.Sides["east"].Merge(orders, 2, 3))
				w.publish(orders, 30)
				w.copied(orders)
				time.Sleep(20 * time.Second) // fake time: the sealed segments are finished
				r.stop()
				w.rewind(replicate.Point{}, segment)
				w.copiedOnce(10)
				w.lastWords()
				if segment == nil {
					w.want(orders, w.twice(orders, 330, 0)...)
				}
			})
		})
	}
}

// lastWords: of each key, the last that is stored is the last that was published.
func (w *world) lastWords() {
	w.T.Helper()
	want := byKey(w.published[orders])
	for key, all := range w.stored(orders) {
		if last := want[key][len(want[key])-1]; all[len(all)-1] != last {
			w.T.Errorf("%s ends with %v, not with %s", key, all, last)
		}
	}
}

// What a crash left in doubt is copied again with the rest, not found: it would
// stand before what it follows.
func TestRewindAfterCrash(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.run()
		w.publish(orders, 30)
		w.copied(orders)
		for _, side := range []string{"west"} {
			for _, s := range w.segments(side, orders) {
				w.Must(w.Sides[side].HoldAdds(s.Topic(orders)))
			}
		}
		w.publish(orders, 30)
		time.Sleep(100 * time.Millisecond)
		for _, s := range w.segments("west", orders) {
			_, err := w.Sides["west"].LandAdds(s.Topic(orders), 10)
			w.Must(err)
		}
		r.kill()
		for _, s := range w.segments("west", orders) {
			w.Must(w.Sides["west"].ReleaseAdds(s.Topic(orders)))
		}
		if n := len(slices.Concat(w.stored(orders)["key-1"], w.stored(orders)["key-2"])); n <= 6 {
			t.Fatalf("nothing was in doubt: %d", n)
		}
		w.rewind(replicate.Point{}, nil)
		w.copiedOnce(10)
		w.wantLast(orders, w.published[orders]...)
		for key, all := range w.stored(orders) {
			if most := 2*6 + 1; len(all) > most {
				t.Errorf("%s: %d messages, at most %d", key, len(all), most)
			}
		}
	})
}

// So it is with what a child had in doubt before it had copied anything for certain.
func TestRewindAfterCrashOfAChild(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.run()
		w.publish(orders, 30)
		w.Must(w.Sides["east"].Split(orders, 0))
		time.Sleep(20 * time.Second) // fake time: the parent is finished
		for _, s := range w.segments("west", orders) {
			w.Must(w.Sides["west"].HoldAdds(s.Topic(orders)))
		}
		w.publish(orders, 30)
		for range 2 { // the barriers, and the first entries
			time.Sleep(100 * time.Millisecond)
			for _, s := range w.segments("west", orders) {
				_, err := w.Sides["west"].LandAdds(s.Topic(orders), 20)
				w.Must(err)
			}
		}
		r.kill()
		for _, s := range w.segments("west", orders) {
			w.Must(w.Sides["west"].ReleaseAdds(s.Topic(orders)))
		}
		w.rewind(replicate.Point{}, nil)
		r = w.run()
		w.copied(orders)
		r.stop()
		w.wantLast(orders, w.published[orders]...)
	})
}

// A crash between any two steps loses nothing and is no gap; each key's last word
// stays the last, and a second rewind completes it.
func TestRewindCrashes(t *testing.T) {
	for crash := 1; ; crash++ {
		over := false
		t.Run(fmt.Sprint(crash), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options = ", on_gap: stop"
				w.loadedOnce()
				steps := 0
				_, err := w.tryRewind(replicate.RewindOptions{Yes: true}, func(cancel context.CancelFunc, step string) {
					if steps++; steps == crash {
						cancel()
					}
				})
				if over = err == nil; over {
					return
				}
				w.copiedOnce(10)
				w.lastWords()
				w.rewind(replicate.Point{}, nil)
				w.copiedOnce(10)
				w.wantLast(orders, w.published[orders]...)
			})
		})
		if over {
			if crash < 12 {
				t.Errorf("only %d steps", crash-1)
			}
			return
		}
	}
}

// Nothing is changed while an instance serves the mapping, or where there is
// nothing to rewind.
func TestRewindRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		refused := func(text string) {
			t.Helper()
			if _, err := w.tryRewind(replicate.RewindOptions{Yes: true}, nil); !replicate.Refused(err) || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want %q", err, text)
			}
		}
		refused("the mapping has never run")
		r := w.run()
		w.publish(orders, 20)
		w.copied(orders)
		refused("i (segments 0, 1) to geobridge.g.west.orders on east")
		r.stop()
		w.Must(w.Sides["east"].DeleteSubscription(orders, "geobridge.g.west.orders"))
		refused("subscription geobridge.g.west.orders is gone from east")
		w.want(orders, w.published[orders]...)
	})
}

// The source has trimmed what was acknowledged, and pruned what was drained: what is
// left comes again, and what is not is said.
func TestRewindTrimmed(t *testing.T) {
	inThisWorld(t, true, func(w *world) {
		w.options = ", on_gap: stop"
		r := w.run()
		w.publish(orders, 20)
		w.copied(orders)
		w.Must(w.Sides["east"].Split(orders, 0))
		time.Sleep(10 * time.Second) // fake time: its lane hears that the sealed segment is at its end
		if n, err := w.Sides["east"].Prune(orders); n != 1 || err != nil {
			t.Fatalf("%d segments are pruned, %v", n, err)
		}
		for _, s := range w.segments("east", orders) {
			w.Sides["east"].Unload(s.Topic(orders))
		}
		clear(w.producers)
		w.publish(orders, 20)
		w.copied(orders)
		r.stop()
		if plan := w.rewind(replicate.Point{}, nil); fmt.Sprint(plan.Gone) != "[0]" || plan.Entries != 20 {
			t.Errorf("%+v", plan)
		}
		w.copiedOnce(10)
		w.want(orders, w.twice(orders, 40, 20)...)
	})
}
