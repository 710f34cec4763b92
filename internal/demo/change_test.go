package demo

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/internal/pulsartest"
)

// TestChanges tells of a real layout, step by step and over several steps at once.
func TestChanges(t *testing.T) {
	c := pulsartest.New(pulsartest.Options{})
	defer c.Close()
	layout := func() pulsartest.Layout {
		l, err := c.Layout(topic)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := c.CreateScalable(topic, 2); err != nil {
		t.Fatal(err)
	}
	first := layout()
	var all []string
	for _, tt := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, ""},
		{func() error { return c.Split(topic, 0) }, "splits 0 0000-7fff into 2 0000-3fff and 3 4000-7fff"},
		{func() error { return c.Merge(topic, 3, 1) }, "merges 3 and 1 into 4 4000-ffff"},
		{func() error { return c.Rebucket(topic, 2, 8) }, "rebuckets 2 0000-3fff to 8 buckets, as 5"},
		{func() error { return c.Rebucket(topic, 5, 1) }, "rebuckets 5 0000-3fff to 1 bucket, as 6"},
		{func() error { _, err := c.Prune(topic); return err }, "prunes drained 0, 1, 2, 3, 5"},
	} {
		before := layout()
		if err := tt.do(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ch := range changes(before, layout()) {
			got = append(got, ch.text)
			all = append(all, ch.text)
			if ch.pruned != strings.HasPrefix(ch.text, "prunes") {
				t.Errorf("%q is pruned: %v", ch.text, ch.pruned)
			}
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("got %q, want %q", text, tt.want)
		}
	}
	var once []string
	for _, ch := range changes(first, layout()) {
		once = append(once, ch.text)
	}
	// A layout does not name parents that are pruned.
	want := []string{"makes 4 4000-ffff", "makes 6 0000-3fff", "prunes drained 0, 1"}
	if diff := cmp.Diff(want, once); diff != "" {
		t.Errorf("over all steps at once (-want +got):\n%s\nstep by step: %q", diff, all)
	}
}

// TestStepsKeepBounds: whatever is chosen is possible, and stays within the bounds.
func TestStepsKeepBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bounds{2, rapid.IntRange(3, 5).Draw(t, "most"), 12, []int{1, 2, 4}}
		c := pulsartest.New(pulsartest.Options{})
		defer c.Close()
		if err := c.CreateScalable(topic, rapid.IntRange(2, 3).Draw(t, "segments")); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		kinds := map[string]int{}
		for range 60 {
			l, err := c.Layout(topic)
			if err != nil {
				t.Fatal(err)
			}
			active, buckets := l.Active(), 0
			for _, s := range active {
				buckets += len(s.Splits) + 1
			}
			if len(active) < b.least || len(active) > b.most || buckets > b.buckets {
				t.Fatalf("%d segments, %d buckets", len(active), buckets)
			}
			s, ok := choose(rng, b.steps(active))
			if !ok {
				t.Fatalf("no step from %v", active)
			}
			kinds[s.kind]++
			if err := s.apply(c, topic); err != nil {
				t.Fatalf("%+v: %v", s, err)
			}
		}
		if len(kinds) != 3 {
			t.Fatalf("only %v", kinds)
		}
	})
}

func TestNotesKeepTheLatest(t *testing.T) {
	n := &notes{began: time.Now()}
	for range 3 * keptEvents {
		n.add("a", "b")
	}
	n.changed(&side{name: "east"}, []change{{text: "splits"}, {text: "prunes", pruned: true}})
	if n.layoutChanges() != 1 {
		t.Errorf("%d layout changes", n.layoutChanges())
	}
	fresh, total := n.since(3 * keptEvents)
	if total != 3*keptEvents+2 || len(fresh) != 2 || fresh[0].text != "splits" || fresh[0].who != "east" {
		t.Errorf("%d in all, fresh: %v", total, fresh)
	}
	if all, _ := n.since(0); len(all) < keptEvents || len(all) > 2*keptEvents {
		t.Errorf("%d kept", len(all))
	}
}
