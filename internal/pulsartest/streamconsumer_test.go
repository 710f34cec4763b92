package pulsartest_test

import (
	"testing"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// Facts 3, 4: Stream consumers of internal/pulsar join, leave and die, while the layout changes under
// them. Each key comes in its order, whole, and is at one consumer at a time.
func TestStreamConsumers(t *testing.T) {
	inBubble(t, pulsartest.Options{NoAutoScale: true}, func(t *testing.T, r *rig) {
		w := r.newReaders(2)
		stop := w.publish()
		a := w.join("a")
		w.settle("[0 1]")
		b := w.join("b")
		w.settle("[0]", "[1]")
		w.join("c")
		w.settle("[0/2]", "[0/2]", "[1]")
		d := w.join("d")
		w.settle("[0/2]", "[0/2]", "[1/2]", "[1/2]")
		w.leave(b)
		w.settle("[0/2]", "[0/2]", "[1]") // a, c, d
		w.kill(d)
		w.settle("[0]", "[1]") // after the grace of 60 s
		r.must(r.Split(scalableTopic, 0))
		w.settle("[1 2]", "[3]")
		r.must(r.Rebucket(scalableTopic, 3, 4))
		w.settle("[1 2]", "[4]")
		r.must(r.Merge(scalableTopic, 2, 4))
		w.settle("[5]", "[1]")
		w.join("e")
		w.settle("[5/5]", "[5/5]", "[1]")
		r.Unload(r.active()[0])
		w.settle("[5/5]", "[5/5]", "[1]")
		w.kill(a)
		w.settle("[5]", "[1]")
		if n, err := r.Prune(scalableTopic); n != 4 || err != nil {
			t.Errorf("%d pruned, %v", n, err)
		}
		w.settle("[5]", "[1]")
		stop()
		w.judge()
	})
}

// Facts 3.6, P6, P11: brokers die, one of them the controller, and come back. Whose receipt is lost is
// published again; what was acknowledged a moment before comes again.
func TestStreamConsumersAndCrashes(t *testing.T) {
	inBubble(t, pulsartest.Options{Brokers: []string{"a:6650", "b:6650"}, NoAutoScale: true}, func(t *testing.T, r *rig) {
		w := r.newReaders(2)
		stop := w.publish()
		for _, name := range []string{"a", "b", "c"} {
			w.join(name)
		}
		w.settle("[0/2]", "[0/2]", "[1]")
		for _, b := range append(r.Brokers(), r.Brokers()...) {
			b.Crash()
			w.settle("[0/2]", "[0/2]", "[1]")
			b.Restart()
			w.settle("[0/2]", "[0/2]", "[1]")
		}
		stop()
		w.judge(keyorder.Duplicate)
	})
}

// Facts 4.8: with more consumers than buckets the topic grows: 5 on 4 buckets get 8.
func TestStreamConsumersGrowTopic(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		w := r.newReaders(1)
		stop := w.publish()
		for _, name := range []string{"a", "b", "c", "d"} {
			w.join(name)
		}
		w.settle("[0/4]", "[0/4]", "[0/4]", "[0/4]")
		w.join("e")
		w.settle("[1/8]", "[1/8]", "[1/8]", "[1/8]", "[1/8]")
		stop()
		w.judge()
	})
}
