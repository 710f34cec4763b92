package ladder

import (
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/replicate"
)

// event does what is more than one command, while sends are in flight; forced,
// it does it anyway.
func (w *world) event(forced bool) {
	w.burstInFlight()
	flying := w.west().injector.inFlight() > 0
	if !flying && !forced {
		return
	}
	w.hit(flying, "%s", w.plan.rung)
	w.does(w.plan.rung.point, w.sides[w.plan.rung.side])
}

func (w *world) does(what string, s *side) {
	rng := w.plan.rng
	w.collect() // what is loaded anew may be trimmed
	inst := w.running()[0]
	wait := time.Duration(rng.IntN(5000)) * time.Millisecond
	b := s.Brokers()[rng.IntN(len(s.Brokers()))]
	switch what {
	case "crash":
		b.Crash()
		w.later(wait, b.Restart)
	case "unload":
		active := s.layout().Active()
		s.Unload(active[rng.IntN(len(active))].Topic(topicName))
	case "pause":
		b.Pause()
		s.paused.Store(true)
		if !w.real {
			wait = pick(rng, wait, 20*time.Second, 100*time.Second)
		}
		w.later(wait, func() {
			b.Resume()
			s.paused.Store(false)
		})
	case "idle topics deleted":
		inst.stop()
		for _, s := range w.sides {
			w.note("%s: idle topics deleted: %v", s.name, s.DeleteIdle())
		}
		sleep(w.ctx, wait)
		w.start("one")
	case "late adds":
		active := s.layout().Active()
		topic := active[rng.IntN(len(active))].Topic(topicName)
		w.publisher.burst(rng, 30)
		sleep(w.ctx, 50*time.Millisecond)
		s.Unload(topic)
	case "unclean seal":
		active := s.layout().Active()
		seg := active[rng.IntN(len(active))]
		w.must(s.StoreAtSeal(seg.Topic(topicName), 1+rng.IntN(5)))
		w.must(s.Split(topicName, seg.ID))
	case "starved cursor":
		active := s.layout().Active()
		seg := active[rng.IntN(len(active))]
		if s.Starve(seg.Topic(topicName), subscription) == nil { // no cursor there yet
			w.publisher.burst(rng, 20)
			w.must(s.Split(topicName, seg.ID))
		}
	case "storm":
		w.storm(s)
	case "kill -9":
		inst.kill()
		sleep(w.ctx, wait)
		w.start("one")
	case "kills in a row":
		for range 6 {
			w.burstInFlight()
			w.running()[0].kill()
			sleep(w.ctx, time.Duration(rng.IntN(3000))*time.Millisecond)
			w.start("one")
			for range rng.IntN(12) {
				w.turn()
				sleep(w.ctx, time.Duration(rng.IntN(400))*time.Millisecond)
			}
		}
	case "restart":
		inst.stop()
		sleep(w.ctx, wait)
		w.start("one")
	case "join":
		w.start("two")
	case "hand-over":
		w.start("two")
		sleep(w.ctx, 2*time.Second+wait)
		inst.stop()
	case "nothing":
	default:
		w.fatalf("no such event: %s", what)
	}
}

// nudge brings about what else happens never while something is in flight.
func (w *world) nudge() {
	s, r := w.sides[w.plan.rung.side], w.plan.rung
	switch {
	case r.side == east && r.typ == pulsarpb.BaseCommand_CLOSE_PRODUCER && r.sent:
		w.publisher.locked(w.plan.rng, 3)
		w.burstInFlight()
		s.Unload(parkingTopic)
	case r.side == east && r.typ == pulsarpb.BaseCommand_CLOSE_CONSUMER && r.sent:
		w.burstInFlight()
		s.Unload(s.layout().Active()[0].Topic(topicName))
	case r.deletesGuard():
		w.note("the guard's record is deleted")
		w.must(s.DeleteSubscription(topicName, replicate.GuardName(subscription)))
	}
}

// storm is one fault after the other on one side, for a while.
func (w *world) storm(s *side) {
	all := rungs()
	for until := time.Now().Add(40 * time.Second); time.Now().Before(until); {
		r := all[w.plan.rng.IntN(len(all))]
		if r.side == s.name && r.fault != event {
			w.note("storm: %v", r)
			s.injector.arm(r)
			for range 1 + w.plan.rng.IntN(8) {
				w.turn()
				sleep(w.ctx, 200*time.Millisecond)
			}
		}
	}
	s.injector.disarm()
}

// later does something after a while, or at the end of the faults.
func (w *world) later(d time.Duration, f func()) {
	w.parts.Go(func() {
		sleep(w.ctx, d)
		f()
	})
}
