package pulsartest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// watch notes the layouts of the topic, as "epoch: segment[sealed](parents)…".
func (r *rig) watch(topic string) (n *notes, err chan error) {
	n, err = &notes{}, make(chan error, 1)
	ctx, cancel := context.WithCancel(r.t.Context())
	r.t.Cleanup(cancel)
	go func() {
		err <- r.WatchLayout(ctx, topic, func(u pulsar.LayoutUpdate) {
			if u.Err != nil {
				n.add("error %v", code(u.Err))
				return
			}
			line := fmt.Sprintf("%d:", u.Epoch)
			for _, s := range u.Segments {
				line += fmt.Sprintf(" %d", s.ID)
				if s.Sealed {
					line += "s"
				}
				if len(s.Parents) > 0 {
					line += fmt.Sprint(s.Parents)
				}
			}
			if u.ControllerURL != "" {
				line += " controlled"
			}
			n.add("%s", line)
		})
	}()
	return n, err
}

func (r *rig) watchNames() *notes {
	n := &notes{}
	ctx, cancel := context.WithCancel(r.t.Context())
	r.t.Cleanup(cancel)
	go func() {
		_ = r.WatchTopics(ctx, "public/default", func(u pulsar.TopicsUpdate) {
			n.add("%v %v -%v +%v", u.Snapshot, u.Topics, u.Removed, u.Added)
		})
	}()
	return n
}

// Facts 2.1 to 2.4, 3.5.
func TestLayoutWatch(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		missing, err := r.watch(scalableTopic)
		r.want(missing, "error TopicNotFound")
		if err := <-err; !errors.Is(err, pulsar.ErrTopicNotFound) {
			t.Error(err)
		}
		r.create(2)
		r.want(missing)
		n, _ := r.watch(scalableTopic)
		r.want(n, "0: 0 1")
		of, _ := r.watch(r.active()[1]) // a segment stands for its topic
		r.want(of, "0: 0 1")
		r.must(r.Split(scalableTopic, 1))
		const split = "1: 0 1s 2[1] 3[1] controlled"
		r.want(n, "0: 0 1 controlled", split, split)
		r.must(r.Repeat(scalableTopic))
		r.want(n, split)
		r.must(r.Merge(scalableTopic, 2, 0))
		const merged = "2: 0s 1s 2s[1] 3[1] 4[2 0] controlled"
		r.want(n, merged, merged)
		if pruned, err := r.Prune(scalableTopic); pruned != 3 || err != nil {
			t.Errorf("%d pruned, %v", pruned, err)
		}
		r.want(n, "4: 2s 3 4[2] controlled", "5: 3 4 controlled")
		r.must(r.Rebucket(scalableTopic, 4, 7))
		l, lerr := r.Cluster.Layout(scalableTopic)
		r.must(lerr)
		if s := l.Active()[0]; s.ID != 5 || len(s.Splits) != 6 || s.Start != 0 || s.End != 0xbfff {
			t.Errorf("%+v", s)
		}
		for _, err := range []error{r.Split(scalableTopic, 4), r.Split(scalableTopic, 99), r.Merge(scalableTopic, 3, 4), r.Rebucket(scalableTopic, 3, 0)} {
			if err == nil {
				t.Error("a change that cannot be was made")
			}
		}
		if err := r.Split("topic://public/default/other", 0); !errors.Is(err, pulsartest.ErrNotFound) {
			t.Error(err)
		}
		if err := r.CreateScalable(scalableTopic, 1); !errors.Is(err, pulsartest.ErrExists) {
			t.Error(err)
		}
	})
}

// Facts 2.5, 2.6: only the namespace's watch tells of a deletion; what is in use stays as
// an orphan that answers well; a new incarnation begins at epoch 0, on the same session.
func TestDeleteAndRecreate(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		names := r.watchNames()
		r.want(names, "true [] -[] +[]")
		r.create(1)
		r.want(names, "false [] -[] +["+scalableTopic+"]")
		r.must(r.Rebucket(scalableTopic, 0, 2))
		segment := r.active()[0]
		n, _ := r.watch(scalableTopic)
		r.want(n, "1: 0s 1[0] controlled")
		p := r.produce(segment, "p")
		c := r.subscribe(failover(segment, "c"), 10)
		r.must(r.DeleteScalable(scalableTopic, false))
		r.want(names, "false [] -["+scalableTopic+"] +[]")
		r.want(n, "1: 0s 1[0]")
		p.send("ghost")
		r.want(&p.notes, "receipt 0 at 0")
		r.want(&c.notes, "active true", "message 0 ghost")
		r.produce(segment, "q").send("another")
		r.want(&c.notes, "message 1 another")

		r.create(1)
		r.want(n, "0: 0")
		r.must(r.DeleteScalable(scalableTopic, true))
		r.want(&p.notes) // the orphan is nobody's any more
	})
}

// Facts 2.5, P14.
func TestDeleteWithForce(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p, c := r.produce(segment, "p"), r.subscribe(failover(segment, "c"), 10)
		r.must(r.DeleteScalable(scalableTopic, true))
		r.want(&p.notes, "broker closed")
		r.want(&c.notes, "active true", "closed")
		if _, err := r.tryProduce(r.Client, segment, "p"); !errors.Is(err, pulsar.ErrTopicNotFound) {
			t.Error(err)
		}
	})
}

// Facts 3.2, 3.5, P13, P14: children have their cursors, deliver at once, and a parent is
// kept until every recorded subscription has drained it; a loose one counts for nothing.
func TestRecordedSubscription(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		r.produce(segment, "p").send("a")
		synctest.Wait()
		at := r.stored(segment)
		r.must(r.RecordSubscription(scalableTopic, "s"))
		r.must(r.RecordSubscription(scalableTopic, "guard"))
		r.must(r.SkipAll(scalableTopic, "guard"))
		c := r.subscribe(failover(segment, "c"), 10)
		r.must(r.Split(scalableTopic, 0))
		r.want(&c.notes, "active true", "message 0 a")
		child := r.active()[0]
		r.produce(child, "p").send("b")
		synctest.Wait()
		o := failover(child, "c")
		o.Position = pulsar.PositionLatest // the cursor exists
		d := r.subscribe(o, 10)
		r.want(&d.notes, "active true", "message 0 b")
		for sub, want := range map[string]int64{"s": 1, "guard": 1} {
			if n, err := r.Cluster.Backlog(child, sub); n != want || err != nil {
				t.Errorf("%s: backlog %d of the child, %v", sub, n, err)
			}
		}
		if n, err := r.Prune(scalableTopic); n != 0 || err != nil {
			t.Errorf("%d pruned undrained, %v", n, err)
		}
		r.must(c.ackTo(at[0]))
		r.want(&c.notes, "end")
		if n, err := r.Prune(scalableTopic); n != 1 || err != nil {
			t.Errorf("%d pruned drained, %v", n, err)
		}
		r.want(&c.notes, "closed")
		r.must(r.DeleteSubscription(scalableTopic, "s"))
		if _, err := r.Cluster.Backlog(child, "s"); err != nil {
			t.Errorf("the cursor of an attached consumer went: %v", err)
		}
		r.must(r.Split(scalableTopic, 1))
		r.must(r.DeleteSubscription(scalableTopic, "guard"))
		if n, err := r.Prune(scalableTopic); n != 1 || err != nil {
			t.Errorf("%d pruned unprotected, %v", n, err)
		}
		r.want(&d.notes, "closed")
	})
}

// P16: what comes first decides where a subscription begins.
func TestStartLatest(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		r.produce(segment, "p").send("a", "b")
		synctest.Wait()
		o := failover(segment, "c")
		o.Position = pulsar.PositionLatest
		r.must(r.subscribe(o, 0).Close(t.Context()))
		r.must(r.RecordSubscription(scalableTopic, "s"))
		r.must(r.RecordSubscription(scalableTopic, "recorded first"))
		o.Subscription = "recorded first"
		r.subscribe(o, 0)
		for sub, want := range map[string]int64{"s": 0, "recorded first": 2} {
			if n, err := r.Cluster.Backlog(segment, sub); n != want || err != nil {
				t.Errorf("%s: backlog %d, want %d (%v)", sub, n, want, err)
			}
		}
	})
}

// P1 to P4, P9, P12.
func TestTwoBrokers(t *testing.T) {
	inBubble(t, pulsartest.Options{Brokers: []string{"a:6650", "b:6650"}}, func(t *testing.T, r *rig) {
		segments := r.create(8)
		owners := map[*pulsartest.Broker]int{}
		for _, s := range segments {
			at, err := r.Lookup(t.Context(), s)
			r.must(err)
			if b := r.Owner(s); at.Addr != b.Addr() || at.Dial != b.Addr() {
				t.Errorf("%s at %v, owned by %s", s, at, b.Addr())
			}
			owners[r.Owner(s)]++
		}
		if len(owners) != 2 {
			t.Errorf("owners %v", owners)
		}
		p, c := r.produce(segments[0], "p"), r.subscribe(failover(segments[0], "c"), 1)
		from := r.Owner(segments[0])
		to := r.Brokers()[0]
		if from == to {
			to = r.Brokers()[1]
		}
		r.Move(segments[0], to)
		r.want(&p.notes, "broker closed")
		r.want(&c.notes, "closed")
		at, err := r.Lookup(t.Context(), segments[0])
		if err != nil || at.Addr != to.Addr() {
			t.Errorf("moved to %v, %v", at, err)
		}
		p = r.produce(segments[0], "p")
		to.Crash()
		r.want(&p.notes, "closed")
		p = r.produce(segments[0], "p") // with the survivor, whoever was asked first
		p.send("a")
		r.want(&p.notes, "receipt 0 at 0")
		if r.Owner(segments[0]) != from {
			t.Error("not with the survivor")
		}
	})
}

// P4, P6: a watch ends with its broker, the next one goes on.
func TestWatchEndsWithItsBroker(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		r.create(1)
		n, err := r.watch(scalableTopic)
		r.want(n, "0: 0")
		r.Brokers()[0].Crash()
		if err := <-err; !errors.Is(err, pulsar.ErrConnectionLost) {
			t.Error(err)
		}
		if _, err := r.Connect(t.Context()); !errors.Is(err, pulsar.ErrConnectionLost) {
			t.Errorf("the broker is down: %v", err)
		}
		r.Brokers()[0].Restart()
		n, _ = r.watch(scalableTopic)
		r.want(n, "0: 0")
	})
}

// P9, P18: a paused broker is given up after 60 s; what it had read is handled when it
// goes on, and is too late for a topic that was moved.
func TestPause(t *testing.T) {
	inBubble(t, pulsartest.Options{Brokers: []string{"a:6650", "b:6650"}}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "n")
		mute, other := r.Owner(segment), r.Brokers()[1]
		if mute == other {
			t.Fatal("the leader takes the first bundle")
		}
		mute.Pause()
		p.send("never read")
		r.want(&p.notes)
		start := time.Now()
		for len(p.take()) == 0 {
			time.Sleep(time.Second) // of fake time
		}
		if silent := time.Since(start); silent < time.Minute || silent > 65*time.Second {
			t.Errorf("given up after %v", silent)
		}
		r.Move(segment, other)
		c, err := pulsar.New(pulsar.Options{ServiceURL: other.URL(), Dial: r.net.Dial})
		r.must(err)
		defer func() { _ = c.Close() }()
		q, err := r.tryProduce(c, segment, "n")
		r.must(err)
		q.marker()
		r.want(&q.notes, "receipt 0 at 0")
		mute.Resume()
		synctest.Wait()
		if n := len(r.stored(segment)); n != 1 {
			t.Errorf("%d stored", n)
		}
	})
}

// P31, P32: the compacted view holds the last entry of each key, none without a key, and
// outlives the log.
func TestCompaction(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		const topic = "persistent://public/default/__state"
		r.must(r.CreateRegular(topic))
		r.must(r.EnsureSubscription(topic, "hold", true))
		p := r.produce(topic, "p")
		for _, kv := range []string{"a=1", "b=1", "a=2", "=x", "b=", "c=1"} {
			key, value, _ := strings.Cut(kv, "=")
			r.must(p.Send(p.keyed(key, value)))
		}
		synctest.Wait()
		r.must(r.Compact(topic))
		r.must(p.Send(p.keyed("a", "3")))
		synctest.Wait()
		o := reading(topic, pulsar.Earliest())
		o.ReadCompacted = true
		want := []string{"message 2 2", "message 5 1", "message 6 3"}
		c := r.subscribe(o, 10)
		r.want(&c.notes, want...)
		r.must(c.Close(t.Context()))

		r.must(r.Compact(topic))
		o2 := failover(topic, "c")
		o2.Subscription = "hold"
		hold := r.subscribe(o2, 0)
		at := r.stored(topic)
		r.must(hold.ackTo(at[len(at)-1]))
		r.must(hold.Close(t.Context()))
		r.must(p.Close(t.Context()))
		r.Unload(topic)
		r.produce(topic, "p")
		if n := len(r.stored(topic)); n != 0 {
			t.Errorf("%d entries kept", n)
		}
		c = r.subscribe(o, 10)
		r.want(&c.notes, "message 5 1", "message 6 3")
	})
}

func TestIdleTopicsGo(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		const idle, held = "persistent://public/default/idle", "persistent://public/default/held"
		p := r.produce(idle, "p")
		r.must(r.EnsureSubscription(held, "hold", true))
		if err := r.EnsureSubscription(held, "hold", false); !errors.Is(err, pulsartest.ErrExists) {
			t.Error(err)
		}
		if gone := r.DeleteIdle(); len(gone) != 0 {
			t.Errorf("in use: %v", gone)
		}
		r.must(p.Close(t.Context()))
		if gone := r.DeleteIdle(); len(gone) != 1 || gone[0] != idle {
			t.Errorf("gone: %v", gone)
		}
		if err := r.CreateRegular(held); !errors.Is(err, pulsartest.ErrExists) {
			t.Error(err)
		}
		if err := r.CreateRegular("persistent://no/such/x"); !errors.Is(err, pulsartest.ErrNotFound) {
			t.Error(err)
		}
	})
}
