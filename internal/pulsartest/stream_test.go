package pulsartest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// member is a registered STREAM consumer. It notes what it is assigned, as "epoch: segment…",
// each with the number of its buckets where it is shared.
type member struct {
	notes
	cancel func()
	ended  chan error
}

// end waits for the registration's end, and says why.
func (m *member) end() error {
	err := <-m.ended
	m.ended <- err
	return err
}

func (m *member) leave() {
	m.cancel()
	_ = m.end()
}

func (r *rig) register(c *pulsar.Client, name string, at *pulsartest.Broker) *member {
	r.t.Helper()
	m := &member{ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(r.t.Context())
	m.cancel = cancel
	o := pulsar.StreamOptions{Topic: scalableTopic, Subscription: "s", ConsumerName: name}
	if at != nil {
		o.Controller = at.URL()
	}
	go func() {
		m.ended <- c.RegisterStream(ctx, o, func(a pulsar.Assignment) {
			line := fmt.Sprintf("%d:", a.LayoutEpoch)
			for _, s := range a.Segments {
				line += fmt.Sprintf(" %d", s.ID)
				if len(s.Buckets) > 0 {
					line += fmt.Sprintf("/%d", len(s.Buckets))
				}
			}
			m.add("%s", line)
		})
	}()
	r.t.Cleanup(m.leave)
	return m
}

// is is the last assignment that a member was told, since the last call; "" for none.
func (m *member) is() string {
	lines := m.take()
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

func (r *rig) shares(want string, members ...*member) {
	r.t.Helper()
	var got []string
	for _, m := range members {
		got = append(got, m.is())
	}
	if text := strings.Join(got, "; "); text != want {
		r.t.Errorf("assigned %q, want %q", text, want)
	}
}

// Facts 4.1, 4.2, 4.7, 2.3: segments go round as long as there are enough, then they are shared;
// every change is told to all; who leaves is gone at once.
func TestAssignment(t *testing.T) {
	inBubble(t, pulsartest.Options{NoAutoScale: true}, func(t *testing.T, r *rig) {
		r.create(2)
		n, _ := r.watch(scalableTopic)
		r.want(n, "0: 0 1")
		a := r.register(r.Client, "a", nil)
		r.shares("0: 0 1", a)
		r.want(n, "0: 0 1 controlled", "0: 0 1 controlled")
		b := r.register(r.Client, "b", nil)
		r.shares("0: 0; 0: 1", a, b)
		c := r.register(r.Client, "c", nil)
		r.shares("0: 0/2; 0: 0/2; 0: 1", a, b, c)
		d := r.register(r.Client, "d", nil)
		r.shares("0: 0/2; 0: 0/2; 0: 1/2; 0: 1/2", a, b, c, d)
		e := r.register(r.Client, "e", nil)
		r.shares("0: 0/2; 0: 0/2; 0: 1/2; 0: 1/2; 0:", a, b, c, d, e)
		a.leave()
		r.shares("0: 0/2; 0: 0/2; 0: 1/2; 0: 1/2", b, c, d, e)
		for _, m := range []*member{b, c, d} {
			m.leave()
		}
		r.shares("0: 0 1", e)
		if all, err := r.Registered(scalableTopic, "s"); err != nil || !slices.Equal(all, []string{"e"}) {
			t.Errorf("registered: %v, %v", all, err)
		}
	})
}

// Facts 4.7: a lost one keeps its share for 60 s; a name that comes back in time has it again
// (facts 3.6).
func TestGrace(t *testing.T) {
	inBubble(t, pulsartest.Options{NoAutoScale: true}, func(t *testing.T, r *rig) {
		r.create(2)
		other := r.newClient()
		a, b := r.register(r.Client, "a", nil), r.register(other, "b", nil)
		r.shares("0: 0; 0: 1", a, b)
		r.must(other.Close())
		time.Sleep(59 * time.Second) // of fake time
		r.shares("0: 0", a)          // renewed every 20 s
		again := r.newClient()
		b = r.register(again, "b", nil)
		r.shares("; 0: 1", a, b)
		r.must(again.Close())
		time.Sleep(61 * time.Second)
		r.shares("0: 0 1", a)
	})
}

// Facts 4.4: when an old connection closes after its name was taken over, the new registration
// counts as lost, without a word, until it is sent again.
func TestTakeOverOfRegistration(t *testing.T) {
	inBubble(t, pulsartest.Options{NoAutoScale: true}, func(t *testing.T, r *rig) {
		r.create(2)
		other := r.newClient()
		r.register(other, "a", nil)
		synctest.Wait()
		a := r.register(r.Client, "a", nil)
		r.shares("0: 0 1", a)
		time.Sleep(time.Second) // of fake time, as all here
		r.must(other.Close())
		synctest.Wait()
		b := r.register(r.Client, "b", nil)
		r.shares("; 0: 1", a, b) // nobody told a
		time.Sleep(20 * time.Second)
		r.shares("0: 0; 0: 1", a, b) // registered again
		b.leave()
		time.Sleep(100 * time.Second)
		r.shares("0: 0 1", a)
	})
}

// P5, P6, facts 3.6: the controller is at one broker; another one takes over when it dies, knows
// who was registered, and waits for them.
func TestControllerMoves(t *testing.T) {
	inBubble(t, pulsartest.Options{Brokers: []string{"a:6650", "b:6650"}, NoAutoScale: true}, func(t *testing.T, r *rig) {
		r.create(2)
		first, second := r.Brokers()[0], r.Brokers()[1]
		a, b := r.register(r.Client, "a", second), r.register(r.Client, "b", second)
		r.shares("0: 0; 0: 1", a, b)
		if c, err := r.Controller(scalableTopic); c != second || err != nil {
			t.Errorf("controller %v, %v", c, err)
		}
		wrong := r.register(r.Client, "c", first).end()
		if !strings.Contains(wrong.Error(), "UnknownError: This broker is not the leader for topic: "+scalableTopic) {
			t.Errorf("at the wrong broker: %v", wrong)
		}
		n, _ := r.watch(scalableTopic) // at the first broker that answers
		r.want(n, "0: 0 1 controlled")
		second.Crash()
		if err := a.end(); !errors.Is(err, pulsar.ErrConnectionLost) {
			t.Errorf("the controller died: %v", err)
		}
		r.want(n, "0: 0 1")
		time.Sleep(200 * time.Millisecond) // of fake time
		r.want(n, "0: 0 1 controlled")
		a = r.register(r.Client, "a", first)
		r.shares("0: 0", a)
		time.Sleep(61 * time.Second)
		r.shares("0: 0 1", a)
	})
}

// Facts 2.5, 3.1: registering creates nothing, and a topic that went is not mourned.
func TestRegisterMissing(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		err := r.register(r.Client, "a", nil).end()
		if !strings.Contains(err.Error(), "UnknownError: Failed to initialize controller for "+scalableTopic) {
			t.Error(err)
		}
		segment := r.create(1)[0]
		m := r.register(r.Client, "a", nil)
		r.shares("0: 0", m)
		if _, err := r.Cluster.Backlog(segment, "s"); !errors.Is(err, pulsartest.ErrNotFound) {
			t.Errorf("a cursor: %v", err)
		}
		r.must(r.DeleteScalable(scalableTopic, true))
		r.shares("", m)
	})
}

func streamConsumer(topic, name string) pulsar.SubscribeOptions {
	o := failover(topic, name)
	o.Type = pulsar.Exclusive
	return o
}

// Facts 3.2 to 3.4: children come when their parents were found drained, by a poll that slows
// down; a new consumer hurries it, the same name again does not.
func TestChildrenAfterParents(t *testing.T) {
	for _, tt := range []struct {
		ackedAfter, want time.Duration
		hurry            bool
	}{
		{0, 2 * time.Second, false},
		{11 * time.Second, 14 * time.Second, false},
		{100 * time.Second, 126 * time.Second, false},
		{100 * time.Second, 102 * time.Second, true},
	} {
		inBubble(t, pulsartest.Options{NoAutoScale: true}, func(t *testing.T, r *rig) {
			segment := r.create(1)[0]
			r.produce(segment, "p").send("a")
			m := r.register(r.Client, "a", nil)
			c := r.subscribe(streamConsumer(segment, "a"), 10)
			r.want(&c.notes, "message 0 a")
			r.must(r.Split(scalableTopic, 0))
			split := time.Now()
			time.Sleep(tt.ackedAfter) // of fake time; the registration is renewed every 20 s
			if lines := m.take(); slices.Contains(lines, "1: 1 2") {
				t.Errorf("children before their parents: %q", lines)
			}
			r.must(c.ackTo(r.stored(segment)[0]))
			if tt.hurry {
				hurry := r.register(r.Client, "hurry", nil)
				synctest.Wait()
				hurry.leave()
			}
			for !slices.Contains(m.take(), "1: 1 2") {
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(split); took < tt.want || took > tt.want+200*time.Millisecond {
				t.Errorf("acknowledged after %v: children after %v, want %v", tt.ackedAfter, took, tt.want)
			}
		})
	}
}
