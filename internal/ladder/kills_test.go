package ladder

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// killTally counts what the kills of all worlds met.
type killTally struct {
	mu                                                 sync.Mutex
	kills, flying, recoveries, found, relaid, unloaded int
}

// TestKills is kill -9 at random moments of a copy, GEOBRIDGE_KILLS of them, while
// both sides split, merge and rebucket, also between the crash and the restart,
// where the target's segments may be unloaded as well.
func TestKills(t *testing.T) {
	kills, first := uint64(100), uint64(0)
	if s := os.Getenv("GEOBRIDGE_KILLS"); s != "" {
		kills = number(t, s)
		first = uint64(time.Now().UnixNano()) >> 20
	}
	if s := os.Getenv("GEOBRIDGE_SEED"); s != "" {
		kills, first = killsPerWorld, number(t, s)
	}
	tally := &killTally{}
	t.Run("worlds", func(t *testing.T) {
		for seed := first; seed < first+(kills+killsPerWorld-1)/killsPerWorld; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { killed(t, seed, tally) })
			})
		}
	})
	t.Logf("%d kills, %d with unreceipted sends; %d of %d recoveries found something stored; target changed between crash and restart %d times, unloaded %d times",
		tally.kills, tally.flying, tally.found, tally.recoveries, tally.relaid, tally.unloaded)
	least := 3 // of so many kills one at least meets unreceipted sends: half of them do, and a little more
	if tally.kills >= 1000 {
		least = 2
	}
	if tally.kills > killsPerWorld && (least*tally.flying < tally.kills || 5*tally.found < tally.recoveries || tally.relaid == 0 || tally.unloaded == 0) {
		t.Errorf("that proves nothing: a kill in %d at least should meet unreceipted sends, and a fifth of the recoveries find something", least)
	}
}

const killsPerWorld = 10

// killed is one world, in which an instance is killed again and again.
func killed(t *testing.T, seed uint64, tally *killTally) {
	p := newPlan(seed)
	p.rung, p.joins = rung{side: west, point: "kill -9", fault: event}, false
	w := newWorld(t, p)
	defer w.close()
	rng := p.rng
	w.start("one")
	sleep(w.ctx, p.firstAt)
	for range killsPerWorld {
		for range rng.IntN(12) { // the first records of a run are written meanwhile
			w.turn()
			sleep(w.ctx, time.Duration(rng.IntN(400))*time.Millisecond)
		}
		if rng.IntN(10) > 0 {
			w.burstInFlight()
		}
		flying := w.west().injector.inFlight() > 0
		w.running()[0].kill()
		relaid, unloaded := w.between()
		w.start("one")
		tally.add(flying, relaid, unloaded)
	}
	w.quiet()
	w.settle("after the kills")
	for _, i := range w.running() {
		i.stop()
	}
	for n, i := range w.instances {
		<-i.done
		if n > 0 {
			tally.recovered(i.avoided() > 0)
		}
	}
	w.verdict(w.outcome())
}

// between is what happens between a crash and the restart.
func (w *world) between() (relaid, unloaded bool) {
	rng := w.plan.rng
	sleep(w.ctx, time.Duration(rng.IntN(2000))*time.Millisecond)
	switch rng.IntN(6) {
	case 0, 1:
		relaid = true
		w.relayout(w.west())
	case 2, 3:
		relaid, unloaded = rng.IntN(2) == 0, true
		if relaid {
			w.relayout(w.west())
		}
		w.collect() // what is loaded anew may be trimmed
		for _, seg := range w.west().layout().Segments() {
			w.west().Unload(seg.Topic(topicName))
		}
	case 4:
		w.relayout(w.east())
		w.publisher.burst(rng, 1+rng.IntN(12))
	}
	return relaid, unloaded
}

func (k *killTally) add(flying, relaid, unloaded bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kills++
	k.flying += count(flying)
	k.relaid += count(relaid)
	k.unloaded += count(unloaded)
}

func (k *killTally) recovered(found bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recoveries++
	k.found += count(found)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
