package verify

import (
	"fmt"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsartest"
)

// A real bridge copies through changes of both layouts, whatever the packing.
func TestCopyIsEqual(t *testing.T) {
	for _, split := range []string{"bucket", "message"} {
		t.Run(split, func(t *testing.T) {
			inWorld(t, 1, pulsartest.Options{Retention: true, NoAutoScale: true}, func(t *testing.T, w *world) {
				w.Must(w.Sides["east"].CreateScalable(topic, 2))
				w.Must(w.Sides["west"].CreateScalable(topic, 3))
				stop := w.bridging(split)
				w.publish("east", w.texts(500, 50))
				w.Must(w.Sides["west"].Split(topic, 1))
				w.publish("east", w.texts(500, 50))
				w.Must(w.Sides["east"].Split(topic, 0))
				w.publish("east", w.texts(500, 50))
				w.Must(w.Sides["west"].Merge(topic, 3, 4))
				w.Must(w.Sides["east"].Rebucket(topic, 1, 8))
				w.publish("east", w.texts(500, 50))
				w.copied("east")
				stop()
				r := w.verify(Options{})
				// One pass: no change of a layout makes the order of keys doubtful.
				if r.Result != Equal || r.Passes != 1 || r.Source.Compared < 1990 || r.Source.Compared != r.Target.Compared || r.Faults.Total() > 0 {
					t.Error(describe(r))
				}
				if r := w.verify(Options{Untrimmed: true}); r.Result != Equal || r.Source.Compared != 2000 {
					t.Error(describe(r))
				}
			})
		})
	}
}

// describe is what matters of a report that is not as expected.
func describe(r *Report) string {
	return fmt.Sprintf("%s (%s) in %d passes\nsource %+v\ntarget %+v\nfaults %+v\ndiffering %+v\nnamed %+v", r.Result, r.Reason, r.Passes,
		r.Source, r.Target, r.Faults, r.differing(), r.Named)
}
