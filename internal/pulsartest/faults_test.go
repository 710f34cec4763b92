package pulsartest_test

import (
	"testing"
	"testing/synctest"

	"github.com/geobridge/geobridge/internal/pulsartest"
)

// Decisions of ARCHITECTURE.md: a cursor that nobody wakes up has a backlog, delivers nothing and tells no
// end; attaching anew helps.
func TestStarvedCursor(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		c := r.subscribe(failover(segment, "a"), 10)
		p.send("a")
		r.want(&c.notes, "active true", "message 0 a")
		r.must(r.Starve(segment, "s"))
		p.send("b", "c")
		synctest.Wait()
		r.must(r.Split(scalableTopic, 0))
		r.must(c.Flow(10))
		r.want(&c.notes)
		if n := c.backlog(); n != 3 {
			t.Errorf("backlog %d", n)
		}
		r.must(c.Close(t.Context()))
		again := r.subscribe(failover(segment, "a"), 10)
		r.want(&again.notes, "active true", "message 0 a", "message 1 b", "message 2 c")
		r.must(again.ackTo(r.stored(segment)[2]))
		r.want(&again.notes, "end")
	})
}

// Decisions of ARCHITECTURE.md: a seal that stores what it refuses.
func TestUncleanSeal(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p, c := r.produce(segment, "p"), r.subscribe(failover(segment, "a"), 10)
		r.must(r.HoldAdds(segment))
		r.must(r.StoreAtSeal(segment, 2))
		p.send("a", "b", "c")
		r.want(&p.notes)
		r.must(r.Split(scalableTopic, 0))
		r.want(&p.notes, "broker closed", "error 2 PersistenceError", "error 1 PersistenceError", "error 0 TopicTerminatedError")
		r.want(&c.notes, "active true", "message 0 a", "message 1 b")
		if n := len(r.stored(segment)); n != 2 {
			t.Errorf("%d stored", n)
		}
	})
}
