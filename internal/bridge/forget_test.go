package bridge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geobridge/geobridge/replicate"
)

// After forget a mapping is a new one: it starts as its configuration says, and says
// nothing of a loss. Another mapping of the same checkpoint topic knows of nothing.
func TestForget(t *testing.T) {
	for _, start := range []string{"earliest", "latest"} {
		t.Run(start, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options = ", start: " + start + ", on_gap: stop"
				r := w.run()
				w.copied(orders)
				w.publish(orders, 50)
				w.publish(bills, 20)
				w.copied(orders)
				w.copied(bills)
				r.stop()
				plan := w.forget(false)
				if plan.Done || plan.Nothing() || len(w.kept()) == 0 {
					t.Errorf("the plan: %+v, kept %v", plan, w.kept())
				}
				if f := w.forget(true); !f.Done || fmt.Sprint(f.Things) != fmt.Sprint(plan.Things) {
					t.Errorf("done %v\n%+v, planned\n%+v", f.Done, f.Things, plan.Things)
				}
				if left := w.kept(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				if f := w.forget(true); !f.Nothing() || !f.Done {
					t.Errorf("again: %+v", f)
				}
				w.publish(orders, 10)
				r = w.run()
				w.copied(orders)
				w.publish(orders, 10)
				w.publish(bills, 20)
				w.copied(orders)
				w.copied(bills)
				r.endsWell()
				if start == "latest" {
					w.want(orders, w.twice(orders, 50, 60)...)
				} else {
					w.want(orders, w.twice(orders, 50, 0)...)
				}
				w.want(bills, w.published[bills]...)
			})
		})
	}
}

func (w *world) forget(yes bool) *replicate.Forgetting {
	w.T.Helper()
	f, err := w.tryForget(yes, nil)
	w.Must(err)
	return f
}

func (w *world) tryForget(yes bool, told func(ctx context.CancelFunc, step string)) (*replicate.Forgetting, error) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	u, end := w.upkeep(func(step string) {
		if told != nil {
			told(cancel, step)
		}
	})
	defer end()
	return u.Forget(ctx, yes)
}

// kept is what both clusters hold of mapping orders.
func (w *world) kept() (all []string) {
	w.T.Helper()
	for side, sub := range map[string]string{"east": "geobridge.g.west.orders", "west": "geobridge-guard.geobridge.g.west.orders"} {
		for _, s := range w.segments(side, orders) {
			if n, err := w.Sides[side].Backlog(s.Topic(orders), sub); err == nil {
				all = append(all, fmt.Sprintf("%s on %s, segment %d, backlog %d", sub, side, s.ID, n))
			}
		}
	}
	for side, topic := range map[string]string{"west": "persistent://public/default/__geobridge.g.checkpoint", "east": "persistent://public/default/__geobridge.g.parking"} {
		last := map[string]string{}
		entries, err := w.Sides[side].Entries(topic)
		w.Must(err)
		for _, e := range entries {
			last[string(e.Info.PartitionKey)] = string(e.Payload)
		}
		for key, value := range last {
			if value != "" && (strings.HasSuffix(key, ".orders") || side == "west" && strings.HasPrefix(key, "geobridge-") && !w.billed(key)) {
				all = append(all, key+" on "+topic+": "+value)
			}
		}
	}
	slices.Sort(all)
	return all
}

// billed reports whether a key is of a lane of mapping bills.
func (w *world) billed(key string) bool {
	for _, s := range w.segments("east", bills) {
		id := replicate.LaneID{Subscription: "geobridge.g.west.bills", SourceCluster: "east", SourceTopic: bills, Segment: s.ID,
			CreatedAtMs: s.CreatedAtMs, TargetCluster: "west", TargetTopic: bills}
		if id.Name() == key {
			return true
		}
	}
	return false
}

// Nothing is changed while an instance serves the mapping, and who it is is said.
func TestForgetAttached(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.run()
		w.publish(orders, 20)
		w.copied(orders)
		for _, yes := range []bool{false, true} {
			f, err := w.tryForget(yes, nil)
			if !replicate.Refused(err) || !strings.Contains(err.Error(), "i (segments 0, 1) to geobridge.g.west.orders on east") || !strings.Contains(err.Error(), "stop every instance") {
				t.Error(err)
			}
			if f == nil || f.Done || len(f.Attached) == 0 {
				t.Errorf("%+v", f)
			}
		}
		w.publish(orders, 20)
		w.copied(orders)
		r.stop()
		w.copiedOnce(20)
		w.want(orders, w.published[orders]...)
	})
}

// A lane that lives holds its name, even when nothing else can be seen of it.
func TestForgetLivingLane(t *testing.T) {
	inWorld(t, func(w *world) {
		w.copiedOnce(20)
		before := fmt.Sprint(w.kept())
		seg := w.segments("east", orders)[1]
		lane := replicate.LaneID{Subscription: "geobridge.g.west.orders", SourceCluster: "east", SourceTopic: orders, Segment: seg.ID,
			CreatedAtMs: seg.CreatedAtMs, TargetCluster: "west", TargetTopic: orders}.Name()
		holder := w.hold("west", "persistent://public/default/__geobridge.g.checkpoint", lane)
		_, err := w.tryForget(true, nil)
		if !replicate.Refused(err) || !strings.Contains(err.Error(), "the lane of source segment 1 lives") {
			t.Error(err)
		}
		if after := fmt.Sprint(w.kept()); after != before {
			t.Errorf("before %s\nafter %s", before, after)
		}
		w.Must(holder.Close(context.Background()))
		w.forget(true)
	})
}

// What is parked stays, and is counted by entry.
func TestForgetKeepsParked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.copiedOnce(5)
		for _, p := range []struct{ entry, piece, mapping, body string }{
			{"3:1", "0", "orders", "a"}, {"3:1", "1", "orders", "b"}, {"3:2", "0", "orders", "c"}, {"3:3", "0", "orders", "d"}, {"3:3", "0", "orders", ""}, {"4:1", "0", "bills", "e"},
		} {
			w.send("persistent://public/default/__geobridge.g.parking", "parked/1;east;geobridge-x;"+p.entry+";*;1;/"+p.piece, p.body, "mapping", p.mapping)
		}
		if f := w.forget(true); f.Parked != 2 {
			t.Errorf("parked %d", f.Parked)
		}
		if f := w.forget(false); f.Parked != 2 || !f.Nothing() {
			t.Errorf("after: %+v", f)
		}
	})
}

// A crash between any two steps leaves something that no start takes for another
// state, and that a second forget brings to its end.
func TestForgetCrashes(t *testing.T) {
	for crash := 1; ; crash++ {
		over := false
		t.Run(fmt.Sprint(crash), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options = ", on_gap: stop"
				r := w.run()
				w.publish(orders, 30)
				w.publish(bills, 10)
				w.copied(orders)
				w.copied(bills)
				r.stop()
				steps, marked := 0, false
				_, err := w.tryForget(true, func(cancel context.CancelFunc, step string) {
					if steps++; steps == crash {
						cancel()
						return
					}
					marked = marked || steps < crash && strings.HasPrefix(step, "marking")
				})
				if over = err == nil; over {
					return
				}
				r = w.run()
				if marked {
					r.shows("`geobridge forget orders` was begun and has not come to its end: run it again")
				} else {
					w.publish(orders, 1)
					w.copied(orders)
				}
				r.stop()
				before := len(w.published[orders])
				w.forget(true)
				if left := w.kept(); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				r = w.run()
				w.publish(orders, 10)
				w.publish(bills, 10)
				w.copied(orders)
				w.copied(bills)
				r.endsWell()
				w.want(orders, w.twice(orders, before, 0)...)
				w.want(bills, w.published[bills]...)
			})
		})
		if over {
			if crash < 8 {
				t.Errorf("only %d steps", crash-1)
			}
			return
		}
	}
}

// What another deployment made is not touched, nor what nobody can tell.
func TestForgetOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.copiedOnce(5)
		cfg := w.config()
		cfg.Mappings[0].To.Topic = "topic://public/default/other"
		u, end, err := NewUpkeep(cfg, cfg.Mappings[0], w.upkeepOptions(nil))
		w.Must(err)
		defer end()
		before := len(w.kept())
		if _, err := u.Forget(context.Background(), true); !replicate.Refused(err) || !strings.Contains(err.Error(), `belongs to mapping "orders", which copies topic://public/default/orders on east to topic://public/default/orders on west`) {
			t.Error(err)
		}
		w.Must(w.Sides["west"].DeleteRegular("persistent://public/default/__geobridge.g.checkpoint"))
		if _, err := w.tryForget(true, nil); !replicate.Refused(err) || !strings.Contains(err.Error(), "the record of how this mapping began is missing on persistent://public/default/__geobridge.g.checkpoint (west)") {
			t.Error(err)
		}
		r := w.run()
		r.shows("the record of how it began is missing")
		w.Must(r.bridge.Resume("orders"))
		w.publish(orders, 5)
		w.copied(orders)
		r.stop()
		if f := w.forget(true); f.Nothing() || !f.Done || before == 0 {
			t.Errorf("%+v", f)
		}
		if f := w.forget(true); !f.Nothing() {
			t.Errorf("%+v", f)
		}
	})
}
