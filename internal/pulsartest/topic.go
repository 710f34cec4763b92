package pulsartest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// peer is a client's connection as the core sees it. Its methods only queue.
type peer interface {
	send(outgoing)
	forgetConsumer(id uint64)
	forgetProducer(id uint64)
	// probe asks whether the client still answers: done is called with false, and
	// the connection cut, if it does not for probeTime.
	probe(done func(alive bool))
}

// env is what topics share.
type env struct {
	opts    Options
	ledgers int64 // the last one given out
	names   int64 // the last producer name given out
	// deduplicating are the namespaces that deduplicate beside Options.Deduplication.
	deduplicating map[string]bool
	quotas        map[string]quota            // of namespaces
	now           func() time.Time            // wall clock
	after         func(time.Duration, func()) // runs f later, under the lock
}

// topic is one log and all that hangs on it: a segment or a regular topic. It is
// loaded while some broker serves it.
type topic struct {
	env       *env
	name      string
	log       *log
	subs      map[string]*subscription
	producers map[string]*producer // by name
	sequences map[string]int64     // the highest of each name, where deduplication is on
	stuck     map[string]bool      // subscriptions that are opened for ever
	compacted *compaction
	holding   bool // sends stay pending
	pending   []*add
	wedged    bool // an entry above the limit is being written for ever (facts 9.1)
	unloaded  bool // the next load opens a new ledger
	asked     bool // GET_LAST_MESSAGE_ID was answered since the load
	straddle  int  // how many of the pending sends the seal will store
}

func newTopic(e *env, name string) *topic {
	return &topic{
		env: e, name: name, log: newLog(&e.ledgers), subs: map[string]*subscription{},
		producers: map[string]*producer{}, sequences: map[string]int64{}, stuck: map[string]bool{},
	}
}

func isSegment(name string) bool { return strings.HasPrefix(name, "segment://") }

// view is the entry at n, or the next one: of the compacted ones as far as they
// reach, where a reader wants those.
func (t *topic) view(n int64, compacted bool) *entry {
	if compacted && t.compacted != nil && n < t.compacted.horizon {
		if e := t.compacted.from(n); e != nil {
			return e
		}
		n = t.compacted.horizon
	}
	return t.log.get(n)
}

// dispatchAll delivers what is new.
func (t *topic) dispatchAll() {
	for _, s := range t.subs {
		s.dispatch()
	}
}

// seal terminates the log: what was sent and not stored is refused, so that what
// is stored was receipted (facts 6, P19). The producers are closed before the
// refusals, which come in any order: here, the last first.
func (t *topic) seal() {
	t.landSilently(min(t.straddle, len(t.pending)))
	t.log.terminated = true
	lost := t.pending
	t.pending = nil
	t.closeProducers()
	for i, a := range slices.Backward(lost) {
		if i == 0 {
			a.fail(pulsarpb.ServerError_TopicTerminatedError, "Managed ledger was terminated")
		} else {
			a.fail(pulsarpb.ServerError_PersistenceError, "Managed ledger is fenced")
		}
	}
	t.dispatchAll()
	for _, s := range t.subs {
		s.tellEnd()
	}
}

// unload closes all clients, as a move to another broker does (P12): no
// acknowledgement is lost (P11). Of the pending sends the first ones are stored,
// without a receipt, and the last of those is even refused (P19); all that before
// the next load (P18).
func (t *topic) unload() {
	t.closeProducers()
	if last := t.landLate(); last != nil {
		last.fail(pulsarpb.ServerError_PersistenceError, "Unexpected add entry op when ledger is closed")
	}
	for _, s := range t.subs {
		s.cur.save(t.env.now(), 0)
	}
	for _, s := range t.subs {
		s.closeAll()
	}
	t.down()
}

// crash is what a kill of its broker leaves of a topic, whose connections are cut
// already.
func (t *topic) crash() {
	t.landLate()
	for _, s := range t.subs {
		s.cur.rollBack()
	}
	if t.deduplicates() {
		t.rebuildSequences()
	}
	t.down()
}

func (t *topic) down() {
	t.wedged, t.unloaded = false, true
	for name, s := range t.subs {
		if !s.durable {
			delete(t.subs, name)
		}
	}
}

// load is the first use after an unload: a new ledger, and old ones that nobody
// needs are trimmed.
func (t *topic) load() {
	if t.unloaded {
		t.unloaded, t.asked = false, false
		clear(t.stuck)
		t.log.roll()
		t.trim()
	}
}

// trim drops the ledgers that every durable subscription has read; without one,
// all (design 3.3: seen to take evidence from active segments).
func (t *topic) trim() {
	if t.env.opts.Retention {
		return
	}
	keep := t.log.end()
	for _, s := range t.subs {
		if s.durable {
			keep = min(keep, s.cur.mark)
		}
	}
	t.log.trim(keep)
}

func (t *topic) deduplicates() bool {
	return t.env.opts.Deduplication || t.env.deduplicating[namespaceOf(t.name)]
}

// rebuildSequences reads the deduplication state from stored metadata, as the
// broker does after a crash: the name and sequence id in there count, whatever
// the SEND said (facts 7).
func (t *topic) rebuildSequences() {
	clear(t.sequences)
	for _, e := range t.log.entries {
		if e.readable {
			name := string(e.info.ProducerName)
			seq := int64(e.info.SequenceID)
			if e.info.HasHighestSequenceID {
				seq = max(seq, int64(e.info.HighestSequenceID))
			}
			if old, ok := t.sequences[name]; !ok || seq > old {
				t.sequences[name] = seq
			}
		}
	}
}

func (t *topic) closeProducers() {
	names := slices.Sorted(maps.Keys(t.producers))
	for _, name := range names {
		p := t.producers[name]
		p.peer.send(command(closeProducer(p.id)))
		p.peer.forgetProducer(p.id)
		p.topic = nil
	}
	clear(t.producers)
}

// attached tells whether any client is on the topic.
func (t *topic) attached() bool {
	for _, s := range t.subs {
		if len(s.consumers) > 0 {
			return true
		}
	}
	return len(t.producers) > 0
}

// closeAll ends all clients (facts 2.5, P14).
func (t *topic) closeAll() {
	t.closeProducers()
	for _, s := range t.subs {
		s.closeAll()
	}
}

// subscription finds a subscription, or makes a durable one at n.
func (t *topic) subscription(name string, n int64) *subscription {
	if s := t.subs[name]; s != nil {
		return s
	}
	s := &subscription{topic: t, name: name, durable: true, cur: newCursor(n)}
	t.subs[name] = s
	return s
}
