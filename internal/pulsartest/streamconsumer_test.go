package pulsartest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

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

// step does one thing that happens to readers, at random.
func (w *readers) step(random *rand.Rand) string {
	w.t.Helper()
	layout, err := w.Cluster.Layout(scalableTopic)
	w.must(err)
	active := layout.Active()
	i := random.IntN(len(active))
	one := w.all[random.IntN(len(w.all))]
	switch random.IntN(10) {
	case 0, 1, 2:
		if len(w.all) < 6 {
			return "join " + w.join(fmt.Sprint("r", w.joined)).name
		}
	case 3:
		if len(w.all) > 1 {
			w.leave(one)
			return "leave " + one.name
		}
	case 4:
		if len(w.all) > 1 {
			w.kill(one)
			return "kill " + one.name
		}
	case 5:
		if len(active) < 4 {
			w.must(w.Split(scalableTopic, active[i].ID))
			return fmt.Sprint("split ", active[i].ID)
		}
	case 6:
		if i > 0 {
			w.must(w.Merge(scalableTopic, active[i-1].ID, active[i].ID))
			return fmt.Sprint("merge ", active[i-1].ID, " ", active[i].ID)
		}
	case 7:
		n := 1 + random.IntN(4)
		w.must(w.Rebucket(scalableTopic, active[i].ID, n))
		return fmt.Sprint("rebucket ", active[i].ID, " to ", n)
	case 8:
		w.Unload(active[i].Topic(scalableTopic))
		return fmt.Sprint("unload ", active[i].ID)
	case 9:
		b := w.Brokers()[random.IntN(2)]
		w.void(b, layout.Segments)
		b.Crash()
		time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond) // of fake time
		b.Restart()
		return "crash " + b.Addr()
	}
	n, err := w.Prune(scalableTopic)
	w.must(err)
	return fmt.Sprint("prune ", n)
}

// void says that nobody's hold on the segments of a broker counts any more: another reader may hear of
// its end first.
func (w *readers) void(b *pulsartest.Broker, segments []pulsartest.Segment) {
	for _, s := range segments {
		for _, c := range w.all {
			if w.Owner(s.Topic(scalableTopic)) == b {
				w.order.Reopened(c.name, fmt.Sprint(s.ID))
			}
		}
	}
}

// Whatever happens, in whatever order: each key comes whole, in its order, to one consumer at a time.
func TestStreamConsumersAtRandom(t *testing.T) {
	inBubble(t, pulsartest.Options{Brokers: []string{"a:6650", "b:6650"}, AckSaveInterval: -1}, func(t *testing.T, r *rig) {
		w := r.newReaders(2)
		random := rand.New(rand.NewPCG(w.seed, 0))
		stop := w.publish()
		w.join("first")
		for range 30 {
			t.Log(w.step(random))
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond) // of fake time
		}
		stop()
		w.judge(keyorder.Duplicate) // of lost receipts
	})
}
