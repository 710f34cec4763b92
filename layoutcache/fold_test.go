package layoutcache

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/reroute"
)

const topic = "topic://t/n/x"

// whole is an active segment over the ring.
func whole(id uint64, created int64) reroute.Segment {
	return reroute.Segment{ID: id, Range: reroute.FullRange(), CreatedAtMs: created}
}

func sealed(s reroute.Segment, children ...uint64) reroute.Segment {
	s.Sealed, s.Children = true, children
	return s
}

func update(epoch uint64, segs ...reroute.Segment) Update {
	return Update{Topic: topic, Epoch: epoch, Segments: segs}
}

func TestFold(t *testing.T) {
	notFound := Update{Err: fmt.Errorf("broker: %w", ErrTopicNotFound)}
	lost := Update{Err: errors.New("connection lost")}
	first := update(3, sealed(whole(0, 100), 1), whole(1, 200))
	withController := first
	withController.ControllerURL = "pulsar://b:6650"
	withBrokers := first
	withBrokers.Brokers = map[uint64]string{1: "pulsar://b:6650"}
	for _, tc := range []struct {
		name        string
		history     []Update
		last        Update
		changed     bool
		state       State
		epoch       uint64
		incarnation uint64
		err         error
	}{
		{name: "first layout", last: first, changed: true, state: Live, epoch: 3, incarnation: 1},
		{name: "repeat", history: []Update{first}, last: first, state: Live, epoch: 3, incarnation: 1},
		{name: "same epoch, controller elected", history: []Update{first}, last: withController, changed: true, state: Live, epoch: 3, incarnation: 1},
		{name: "same epoch, controller gone", history: []Update{withController}, last: first, changed: true, state: Live, epoch: 3, incarnation: 1},
		{name: "same epoch, brokers moved", history: []Update{first}, last: withBrokers, changed: true, state: Live, epoch: 3, incarnation: 1},
		{name: "same epoch, contents changed", history: []Update{update(3, sealed(whole(0, 100)), whole(1, 200))}, last: first,
			changed: true, state: Live, epoch: 3, incarnation: 1},
		{name: "newer epoch", history: []Update{first}, last: update(4, whole(1, 200)), changed: true, state: Live, epoch: 4, incarnation: 1},
		{name: "newer epoch, nothing left of what was known", history: []Update{first}, last: update(9, whole(7, 900)),
			changed: true, state: Live, epoch: 9, incarnation: 1},
		{name: "older epoch", history: []Update{first}, last: update(2, whole(0, 100)),
			changed: true, state: Live, epoch: 3, incarnation: 1, err: ErrStaleLayout},
		{name: "older epoch, nothing shared, older times", history: []Update{update(6, whole(4, 400))}, last: update(4, whole(3, 300)),
			changed: true, state: Live, epoch: 6, incarnation: 1, err: ErrStaleLayout},
		{name: "older epoch twice", history: []Update{first, update(2, whole(0, 100))}, last: update(2, whole(0, 100)),
			state: Live, epoch: 3, incarnation: 1, err: ErrStaleLayout},
		{name: "good layout after an older one", history: []Update{first, update(2, whole(0, 100))}, last: first,
			changed: true, state: Live, epoch: 3, incarnation: 1},
		{name: "epoch regress, created anew", history: []Update{first}, last: update(0, whole(0, 500)),
			changed: true, state: Live, epoch: 0, incarnation: 2},
		{name: "epoch regress, created anew, nothing shared", history: []Update{update(6, whole(4, 400))}, last: update(0, whole(0, 500)),
			changed: true, state: Live, epoch: 0, incarnation: 2},
		{name: "epoch regress with a newer id", history: []Update{update(6, whole(4, 400))}, last: update(5, whole(5, 1)),
			changed: true, state: Live, epoch: 5, incarnation: 2},
		{name: "same epoch, created anew", history: []Update{update(0, whole(0, 100))}, last: update(0, whole(0, 500)),
			changed: true, state: Live, epoch: 0, incarnation: 2},
		{name: "same epoch, created anew on a slow clock", history: []Update{update(0, whole(0, 100))}, last: update(0, whole(0, 50)),
			changed: true, state: Live, epoch: 0, incarnation: 2},
		{name: "same epoch, nothing shared", history: []Update{update(3, whole(4, 400))}, last: update(3, whole(3, 300)),
			changed: true, state: Live, epoch: 3, incarnation: 2},
		{name: "newer epoch, ids began again", history: []Update{update(6, whole(8, 800))}, last: update(7, whole(5, 900)),
			changed: true, state: Live, epoch: 7, incarnation: 2},
		{name: "not found at first", last: notFound, changed: true, state: Missing, err: ErrTopicNotFound},
		{name: "still not found", history: []Update{notFound}, last: notFound, state: Missing, err: ErrTopicNotFound},
		{name: "still not found, in other words", history: []Update{notFound}, last: Update{Err: ErrTopicNotFound}, state: Missing, err: ErrTopicNotFound},
		{name: "not found, after the connection was lost", history: []Update{notFound, lost}, last: notFound, changed: true, state: Missing, err: ErrTopicNotFound},
		{name: "deleted", history: []Update{first}, last: notFound, changed: true, state: Missing, incarnation: 1, err: ErrTopicNotFound},
		{name: "back, recreated", history: []Update{first, notFound}, last: update(0, whole(0, 500)),
			changed: true, state: Live, epoch: 0, incarnation: 2},
		{name: "back, recreated, nothing shared", history: []Update{first, notFound}, last: update(9, whole(7, 900)),
			changed: true, state: Live, epoch: 9, incarnation: 2},
		{name: "back, false alarm", history: []Update{first, notFound}, last: first, changed: true, state: Live, epoch: 3, incarnation: 1},
		{name: "lost before any layout", last: lost, changed: true, state: Unknown, err: lost.Err},
		{name: "lost", history: []Update{first}, last: lost, changed: true, state: Live, epoch: 3, incarnation: 1, err: lost.Err},
		{name: "lost again, same reason", history: []Update{first, lost}, last: Update{Err: errors.New("connection lost")},
			state: Live, epoch: 3, incarnation: 1, err: lost.Err},
		{name: "found again", history: []Update{first, lost}, last: first, changed: true, state: Live, epoch: 3, incarnation: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var prev *Snapshot
			for _, u := range tc.history {
				prev, _ = Fold(prev, u)
			}
			next, changed := Fold(prev, tc.last)
			if changed != tc.changed || !changed && next != prev {
				t.Errorf("changed %v, want %v", changed, tc.changed)
			}
			if next.State != tc.state || next.Incarnation != tc.incarnation {
				t.Errorf("%v, incarnation %d; want %v, %d", next.State, next.Incarnation, tc.state, tc.incarnation)
			}
			if (next.Layout != nil) != (tc.state == Live) || next.Layout != nil && next.Layout.Epoch != tc.epoch {
				t.Errorf("layout %+v, want epoch %d", next.Layout, tc.epoch)
			}
			if tc.err == nil && next.Err != nil || tc.err != nil && !errors.Is(next.Err, tc.err) && !sameError(next.Err, tc.err) {
				t.Errorf("error %v, want %v", next.Err, tc.err)
			}
		})
	}
}

func TestFoldKeepsLastLayoutOverABrokenOne(t *testing.T) {
	good, _ := Fold(nil, update(1, whole(0, 100)))
	next, changed := Fold(good, update(2, reroute.Segment{ID: 1, Range: reroute.HashRange{Start: 1, End: 0xFFFF}}))
	if !changed || next.Layout != good.Layout || next.Err == nil || next.State != Live {
		t.Errorf("%+v, %v", next, changed)
	}
	if _, changed = Fold(next, update(2, reroute.Segment{ID: 1, Range: reroute.HashRange{Start: 1, End: 0xFFFF}})); changed {
		t.Error("the same broken layout is no news")
	}
}

func TestFoldSharesEqualLayouts(t *testing.T) {
	u := update(1, whole(0, 100))
	a, _ := Fold(nil, u)
	u.ControllerURL = "pulsar://b:6650"
	if b, changed := Fold(a, u); !changed || b.Layout != a.Layout {
		t.Error("an equal layout became another pointer")
	}
}

// history draws the layouts one topic goes through: split, rebucket and prune,
// one epoch each.
func history(t *rapid.T, clock *int64) (updates []Update) {
	*clock += 10
	segs := []reroute.Segment{whole(0, *clock)}
	updates = append(updates, update(0, segs...))
	for range rapid.IntRange(0, 8).Draw(t, "changes") {
		*clock += 10
		next := slices.Clone(segs)
		i := rapid.IntRange(0, len(next)-1).Draw(t, "segment")
		id := newest(next) + 1
		switch s := next[i]; {
		case s.Sealed:
			next = slices.Delete(next, i, i+1)
		case s.Range.Start == s.Range.End || rapid.Bool().Draw(t, "rebucket"):
			next[i] = sealed(s, id)
			next = append(next, reroute.Segment{ID: id, Range: s.Range, CreatedAtMs: *clock, Splits: []uint16{uint16(id)}})
		default:
			mid := s.Range.Start + (s.Range.End-s.Range.Start)/2
			next[i] = sealed(s, id, id+1)
			next = append(next,
				reroute.Segment{ID: id, Range: reroute.HashRange{Start: s.Range.Start, End: mid}, CreatedAtMs: *clock},
				reroute.Segment{ID: id + 1, Range: reroute.HashRange{Start: mid + 1, End: s.Range.End}, CreatedAtMs: *clock})
		}
		segs = next
		updates = append(updates, update(uint64(len(updates)), segs...))
	}
	return updates
}

func newest(segs []reroute.Segment) (id uint64) {
	for _, s := range segs {
		id = max(id, s.ID)
	}
	return id
}

// Whatever comes late, twice or not at all: the snapshot is the newest layout
// delivered of the topic that exists, and a repeat of it is no change.
func TestFoldProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var snap *Snapshot
		var clock int64
		var last Update // newest delivered so far
		for range rapid.IntRange(1, 4).Draw(t, "incarnations") {
			updates := history(t, &clock)
			var incarnation uint64
			for n := range rapid.IntRange(1, 10).Draw(t, "deliveries") {
				u := updates[rapid.IntRange(0, len(updates)-1).Draw(t, "update")]
				before := snap
				snap, _ = Fold(snap, u)
				if n == 0 {
					if before != nil && decidable(last, u) && snap.Incarnation != before.Incarnation+1 {
						t.Fatalf("epoch %d of another topic after epoch %d went unnoticed", u.Epoch, last.Epoch)
					}
					incarnation, last = snap.Incarnation, u
				}
				if u.Epoch >= last.Epoch {
					last = u
				}
				if snap.Incarnation != incarnation {
					t.Fatalf("incarnation %d became %d by epoch %d", incarnation, snap.Incarnation, u.Epoch)
				}
				want, _ := reroute.NewLayout(topic, last.Epoch, last.Segments)
				if snap.State != Live || !equalLayouts(snap.Layout, want) {
					t.Fatalf("after epoch %d: %s", u.Epoch, cmp.Diff(want.Segments(), snap.Layout.Segments()))
				}
				if u.Epoch == last.Epoch && snap.Err != nil {
					t.Fatalf("newest layout left %v", snap.Err)
				}
				if again, changed := Fold(snap, u); changed || again != snap {
					t.Fatal("a repeat is a change")
				}
			}
		}
	})
}

// decidable is false where the contents cannot tell two topics apart: a later
// epoch, later ids, and nothing in common. Only a deletion seen in between can.
func decidable(last, u Update) bool {
	for _, a := range last.Segments {
		for _, b := range u.Segments {
			if a.ID == b.ID {
				return true
			}
		}
	}
	return u.Epoch <= last.Epoch || newest(u.Segments) < newest(last.Segments)
}

func TestFoldTopics(t *testing.T) {
	set := func(known bool, names ...string) TopicSet {
		s := TopicSet{Names: map[string]struct{}{}, Known: known}
		for _, n := range names {
			s.Names[n] = struct{}{}
		}
		return s
	}
	for _, tc := range []struct {
		name    string
		prev    TopicSet
		ev      TopicsEvent
		want    TopicSet
		news    TopicsEvent
		changed bool
	}{
		{"first snapshot", TopicSet{}, TopicsEvent{Snapshot: true, Topics: []string{"b", "a"}},
			set(true, "a", "b"), TopicsEvent{Snapshot: true, Topics: []string{"a", "b"}}, true},
		{"first snapshot, empty", TopicSet{}, TopicsEvent{Snapshot: true}, set(true), TopicsEvent{Snapshot: true}, true},
		{"same snapshot", set(true, "a"), TopicsEvent{Snapshot: true, Topics: []string{"a"}}, set(true, "a"), TopicsEvent{}, false},
		{"snapshot after a reconnect", set(true, "a", "b"), TopicsEvent{Snapshot: true, Topics: []string{"b", "c"}},
			set(true, "b", "c"), TopicsEvent{Added: []string{"c"}, Removed: []string{"a"}}, true},
		{"came and went", set(true, "a"), TopicsEvent{Added: []string{"b"}, Removed: []string{"a"}},
			set(true, "b"), TopicsEvent{Added: []string{"b"}, Removed: []string{"a"}}, true},
		{"recreated", set(true, "a"), TopicsEvent{Added: []string{"a"}, Removed: []string{"a"}},
			set(true, "a"), TopicsEvent{Added: []string{"a"}, Removed: []string{"a"}}, true},
		{"known already", set(true, "a"), TopicsEvent{Added: []string{"a"}, Removed: []string{"z"}}, set(true, "a"), TopicsEvent{}, false},
		{"difference before any snapshot", TopicSet{}, TopicsEvent{Added: []string{"a"}}, set(false, "a"), TopicsEvent{Added: []string{"a"}}, true},
	} {
		next, news, changed := FoldTopics(tc.prev, tc.ev)
		if d := cmp.Diff(tc.want, next); d != "" || changed != tc.changed {
			t.Errorf("%s: changed %v, set (-want +got):\n%s", tc.name, changed, d)
		}
		if d := cmp.Diff(tc.news, news); d != "" {
			t.Errorf("%s: news (-want +got):\n%s", tc.name, d)
		}
	}
}
