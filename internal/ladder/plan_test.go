package ladder

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// plan is all that a seed decides before a run begins. What happens while it goes
// on is drawn from rng, by one goroutine.
type plan struct {
	seed uint64
	rung rung
	rng  *rand.Rand

	segments [2]int // at the start: of the source, of the target
	brokers  [2]int
	dedup    bool // the target deduplicates
	prunes   bool // at the target: else it keeps everything
	failover time.Duration
	split    string
	messages int
	firstAt  time.Duration // when publishing begins
	land     [2]time.Duration
	holdRec  bool // records wait for the storage, too
	survive  int  // percent of pending sends that outlive a broker

	skip   int           // matches with sends in flight that are let pass
	held   time.Duration // of delay
	behind int           // of reorder
	still  bool          // once it has struck, no layout changes: nothing else helps a lane along
	joins  bool          // a second instance joins, and one leaves: for what happens only at a start
}

func newPlan(seed uint64) plan {
	all := rungs()
	rng := rand.New(rand.NewPCG(seed, 23))
	p := plan{seed: seed, rung: all[seed%uint64(len(all))], rng: rng}
	p.segments = [2]int{1 + rng.IntN(3), 1 + rng.IntN(3)}
	p.brokers = [2]int{1 + rng.IntN(2), 1 + rng.IntN(2)}
	p.prunes = rng.IntN(2) == 0
	p.failover = pick(rng, -1, 100*time.Millisecond, time.Second)
	p.split = pick(rng, "bucket", "bucket", "bucket", "message")
	p.messages = 150 + rng.IntN(150)
	p.firstAt = time.Duration(rng.IntN(4000)) * time.Millisecond
	p.land = pick(rng, [2]time.Duration{time.Millisecond, 20 * time.Millisecond}, [2]time.Duration{20 * time.Millisecond, 200 * time.Millisecond}, slowest())
	p.holdRec = rng.IntN(3) == 0
	p.survive = pick(rng, 0, 50, 100)
	p.skip = pick(rng, 0, 0, 0, 1, 2, 5, 10)
	p.held = pick(rng, 50*time.Millisecond, time.Second, 8*time.Second, 90*time.Second)
	p.behind = 1 + rng.IntN(3)
	p.still = rng.IntN(2) == 0
	p.dedup = rng.IntN(6) == 0
	p.joins = p.rung.atStart() || rng.IntN(5) == 0
	if p.rung.seldom() {
		p.land = slowest()
	}
	if p.rung.atStart() {
		p.skip = min(p.skip, 1)
	}
	if p.rung.deletesGuard() {
		p.prunes = false // what is pruned before the guard is back is evidence, lost by the script itself
	}
	if p.rung.fault == event {
		p.prunes = p.prunes && !p.rung.loosesBrokers()
		p.joins = false
	}
	return p
}

// slowest is a storage behind which there is nearly always something in flight.
func slowest() [2]time.Duration {
	return [2]time.Duration{100 * time.Millisecond, 900 * time.Millisecond}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// atStart: the point is passed when an instance starts or ends, and seldom else.
func (r rung) atStart() bool {
	if r.side == west && (r.typ == pulsarpb.BaseCommand_FLOW || r.typ == pulsarpb.BaseCommand_SUBSCRIBE) {
		return true
	}
	switch r.point {
	case "CONNECT", "CONNECTED sent", "SCALABLE_TOPIC_LOOKUP", "SCALABLE_TOPIC_CLOSE", "WATCH_SCALABLE_TOPICS",
		"WATCH_SCALABLE_TOPICS_CLOSE", "WATCH_SCALABLE_TOPICS_UPDATE sent", "ACTIVE_CONSUMER_CHANGE sent", "GET configuration",
		"PUT subscription", "PUT topic", "PUT compaction", "GET namespace", "POST skip-all", "GET stats":
		return true
	}
	return false
}

// seldom: the point is passed so seldom that something has to be in flight always.
func (r rung) seldom() bool {
	switch r.typ {
	case pulsarpb.BaseCommand_SEND, pulsarpb.BaseCommand_SEND_RECEIPT, pulsarpb.BaseCommand_MESSAGE, pulsarpb.BaseCommand_LOOKUP,
		pulsarpb.BaseCommand_LOOKUP_RESPONSE, pulsarpb.BaseCommand_PRODUCER, pulsarpb.BaseCommand_PRODUCER_SUCCESS, pulsarpb.BaseCommand_SUCCESS:
		return false
	}
	return r.fault != event
}

// parks: at the source, producers and sends are those of the parking topic.
func (r rung) parks() bool {
	return r.side == east && slices.Contains([]base{pulsarpb.BaseCommand_PRODUCER, pulsarpb.BaseCommand_PRODUCER_SUCCESS, pulsarpb.BaseCommand_SEND,
		pulsarpb.BaseCommand_SEND_RECEIPT, pulsarpb.BaseCommand_SEND_ERROR, pulsarpb.BaseCommand_CLOSE_PRODUCER}, r.typ)
}

// deletesGuard: nothing else has the call made while something is in flight.
func (r rung) deletesGuard() bool { return r.side == west && r.point == "PUT subscription" }

// beforeCopying: the point is passed only before anything is copied.
func (r rung) beforeCopying() bool { return r.point == "POST skip-all" }

// loosesBrokers: topics are loaded anew, and trimmed then.
func (r rung) loosesBrokers() bool {
	return r.point == "crash" || r.point == "unload" || r.point == "pause" || r.point == "late adds" || r.point == "storm"
}

func (p plan) String() string {
	return fmt.Sprintf("rung %q, segments %v, brokers %v, prunes %v, failover %v, split %s, %d messages from %v, lands in %v, holds records %v, "+
		"survive %d%%, skip %d, delay %v, behind %d, still %v, dedup %v, joins %v", p.rung, p.segments, p.brokers, p.prunes, p.failover, p.split, p.messages, p.firstAt,
		p.land, p.holdRec, p.survive, p.skip, p.held, p.behind, p.still, p.dedup, p.joins)
}
