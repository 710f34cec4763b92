package ladder

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// scenario is a fault that the ladder found, without chance: no layout changes,
// and a script instead of a seed.
type scenario struct {
	name string
	side string
	// what is lost: the first n commands that it names.
	what func(pulsartest.Command) bool
	n    int
	// says is what geobridge must say about it; never what it must not.
	says, never string
}

func received1(t base, topic string) func(pulsartest.Command) bool {
	return func(c pulsartest.Command) bool { return !c.Sent && c.Type == t && strings.HasPrefix(c.Topic, topic) }
}

func sent1(t base) func(pulsartest.Command) bool {
	return func(c pulsartest.Command) bool { return c.Sent && c.Type == t }
}

func scenarios() []scenario {
	const (
		segment      = "segment://"
		afterGenesis = 4 // the genesis is written twice, and the guard placed in between, each time behind a barrier
	)
	return []scenario{
		{name: "the news of the election is lost", side: east, what: sent1(pulsarpb.BaseCommand_ACTIVE_CONSUMER_CHANGE), n: 1,
			says: "no progress for 45s: the source has a backlog of"},
		{name: "permits are lost", side: east, what: received1(pulsarpb.BaseCommand_FLOW, segment), n: 1000,
			says: "no progress for 45s: the source has a backlog of"},
		{name: "messages are lost", side: east, what: ofTheSegment(), n: 1000,
			says: "no progress for 45s: the source has a backlog of"},
		{name: "a broker forgets the producer", side: west, what: afterTheBarrier(), n: 1000,
			says: "gives no receipt"},
		{name: "the receipt of the genesis is lost", side: west, what: sent1(pulsarpb.BaseCommand_SEND_RECEIPT), n: 1,
			says: "write the genesis", never: "no progress"},
		{name: "the receipt of the genesis' barrier is lost", side: west, what: barrierReceipt(recordTopic, afterGenesis-1), n: 1,
			says: "write the genesis", never: "no progress"},
		{name: "the receipt of a barrier is lost", side: west, what: barrierReceipt(segment, 1), n: 1,
			says: "barrier on segment", never: "no progress"},
		{name: "the receipt of the checkpoint's barrier is lost", side: west, what: barrierReceipt(recordTopic, afterGenesis), n: 1,
			says: "barrier on persistent", never: "no progress"},
		{name: "nothing answers what the checkpoint topic still has", side: west, what: received1(pulsarpb.BaseCommand_CONSUMER_STATS, recordTopic), n: 50,
			never: "no progress"},
		{name: "the reader of the checkpoint topic is given nothing", side: west, what: received1(pulsarpb.BaseCommand_FLOW, recordTopic), n: 1,
			never: "no progress"},
		{name: "the records get no receipts", side: west, what: records(), n: 3, says: "record: operation timed out", never: "opens again"},
	}
}

// afterTheBarrier matches what follows the barrier on the first producer of a
// segment: the broker has lost it.
func afterTheBarrier() func(pulsartest.Command) bool {
	lost := handle{}
	return func(c pulsartest.Command) bool {
		if c.Type == pulsarpb.BaseCommand_SEND && !c.Send.Marker && strings.HasPrefix(c.Topic, "segment://") && lost == (handle{}) {
			lost = stream(c)
		}
		return c.Type == pulsarpb.BaseCommand_SEND && stream(c) == lost
	}
}

// barrierReceipt matches the answers to the n-th barrier on a topic, and to all after it.
func barrierReceipt(topic string, n int) func(pulsartest.Command) bool {
	barrier := handle{}
	return func(c pulsartest.Command) bool {
		if c.Type == pulsarpb.BaseCommand_SEND && c.Send.Marker && strings.HasPrefix(c.Topic, topic) {
			if n--; n <= 0 {
				barrier = stream(c)
			}
		}
		return c.Type == pulsarpb.BaseCommand_SEND_RECEIPT && stream(c) == barrier
	}
}

// ofTheSegment matches what the first consumer with permits on a segment is given.
func ofTheSegment() func(pulsartest.Command) bool {
	lost := handle{}
	return func(c pulsartest.Command) bool {
		if c.Type == pulsarpb.BaseCommand_FLOW && strings.HasPrefix(c.Topic, "segment://") && lost == (handle{}) {
			lost = handle{c.Conn, c.Base.GetFlow().GetConsumerId()}
		}
		return c.Type == pulsarpb.BaseCommand_MESSAGE && stream(c) == lost
	}
}

// records matches those of a lane that copies.
func records() func(pulsartest.Command) bool {
	copies := false
	return func(c pulsartest.Command) bool {
		copies = copies || c.Type == pulsarpb.BaseCommand_SEND && !c.Send.Marker && strings.HasPrefix(c.Topic, "segment://")
		return copies && c.Type == pulsarpb.BaseCommand_SEND && !c.Send.Marker && c.Topic == recordTopic
	}
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { s.play(t) })
		})
	}
}

// bare is a plan without faults, changes or delays.
func bare() plan {
	p := newPlan(uint64(len(rungs()) - 1))
	p.segments, p.brokers, p.prunes, p.land, p.holdRec = [2]int{1, 1}, [2]int{1, 1}, false, [2]time.Duration{time.Millisecond, time.Millisecond}, false
	p.split, p.failover, p.dedup = "bucket", time.Second, false
	return p
}

func (s scenario) play(t *testing.T) {
	w := newWorld(t, bare())
	defer w.close()
	left := s.n
	w.sides[s.side].injector.script = func(c pulsartest.Command) (pulsartest.Action, bool) {
		if left == 0 || !s.what(c) {
			return pulsartest.Pass(), false
		}
		left--
		return pulsartest.Drop(), true
	}
	i := w.start("one")
	sleep(w.ctx, 2*time.Second)
	for range 10 {
		w.publisher.burst(w.plan.rng, 5)
		sleep(w.ctx, 200*time.Millisecond)
	}
	healed := time.AfterFunc(50*time.Second, func() {
		inj := w.sides[s.side].injector
		inj.mu.Lock()
		defer inj.mu.Unlock()
		left = min(left, 0)
	})
	defer healed.Stop()
	w.settle("in the end")
	if left == s.n {
		w.errorf("what the scenario is about did not happen")
	}
	if !w.trace.has(s.says) {
		w.errorf("geobridge does not say %q", s.says)
	}
	if s.never != "" && w.trace.has(s.never) {
		w.errorf("geobridge says %q", s.never)
	}
	i.stop()
	r := w.judge()
	if problems := r.Problems(keyorder.Rewound); len(problems) > 0 {
		w.errorf("%v", problems)
	}
}

// A close that nobody answers leaves a name that nobody else can take, and a
// consumer that is elected and deaf: the client goes on asking.
func TestCloseWithoutAnswerIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bare())
		defer w.close()
		lost := map[base]bool{}
		w.east().injector.script = func(c pulsartest.Command) (pulsartest.Action, bool) {
			closes := !c.Sent && (c.Type == pulsarpb.BaseCommand_CLOSE_PRODUCER || c.Type == pulsarpb.BaseCommand_CLOSE_CONSUMER)
			if !closes || lost[c.Type] {
				return pulsartest.Pass(), false
			}
			lost[c.Type] = true
			return pulsartest.Drop(), true
		}
		client, err := pulsar.New(pulsar.Options{Cluster: east, ServiceURL: w.east().url(), Dial: w.net.Dial, OperationTimeout: 5 * time.Second})
		w.must(err)
		defer client.Close()
		topic := w.east().layout().Active()[0].Topic(topicName)
		brief := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		open := func() (*pulsar.Producer, error) {
			return client.OpenProducer(t.Context(), pulsar.ProducerOptions{Topic: topic, Name: "n"}, &outlet{answer: make(chan error, 9)})
		}
		p, err := open()
		w.must(err)
		if err := p.Close(brief()); err == nil {
			t.Error("the lost close has an answer")
		}
		if p, err = open(); err != nil {
			t.Errorf("the name is taken for good: %v", err)
		} else {
			w.must(p.Close(t.Context()))
		}
		o := pulsar.SubscribeOptions{Topic: topic, Subscription: "s", ConsumerName: "c", Type: pulsar.Exclusive, Durable: true}
		s, err := client.Subscribe(t.Context(), o, deaf{})
		w.must(err)
		if err := s.Close(brief()); err == nil {
			t.Error("the lost close has an answer")
		}
		if s, err = client.Subscribe(t.Context(), o, deaf{}); err != nil {
			t.Errorf("the subscription is taken for good: %v", err)
		} else {
			w.must(s.Close(t.Context()))
		}
	})
}

type deaf struct{}

func (deaf) Message(m pulsar.Message) { m.Entry.Release() }
func (deaf) ActiveChanged(bool)       {}
func (deaf) EndOfTopic()              {}
func (deaf) Closed(error)             {}
