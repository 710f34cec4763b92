package pulsartest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

func TestConnect(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		info, err := r.Connect(t.Context())
		if err != nil || !info.ScalableTopics || info.MaxMessageSize != 5<<20 || info.ProtocolVersion != 21 || info.Version != "PulsarServer5.0.1" {
			t.Errorf("%+v, %v", info, err)
		}
		time.Sleep(5 * time.Minute) // of fake time: PINGs go both ways
		if again, err := r.Connect(t.Context()); err != nil || again != info {
			t.Errorf("after keep-alive: %+v, %v", again, err)
		}
	})
}

func TestSendAndReceive(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		p.send("a", "b")
		r.want(&p.notes, "receipt 0 at 0", "receipt 1 at 1")
		c := r.subscribe(reading(segment, pulsar.Earliest()), 10)
		r.want(&c.notes, "message 0 a", "message 1 b")
		p.send("c")
		r.want(&c.notes, "message 2 c")
		r.must(p.Close(t.Context()))
		r.want(&p.notes, "receipt 2 at 2", "closed")
	})
}

func TestMissingTopics(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		missing := "segment://public/default/t/0000-ffff-0"
		if _, err := r.Lookup(t.Context(), missing); err != nil {
			t.Errorf("look-up of a missing segment: %v", err)
		}
		if _, err := r.tryProduce(r.Client, missing, "p"); !errors.Is(err, pulsar.ErrTopicNotFound) {
			t.Errorf("producer: %v", err)
		}
		if _, err := r.trySubscribe(r.Client, failover(missing, "c")); !errors.Is(err, pulsar.ErrTopicNotFound) {
			t.Errorf("consumer: %v", err)
		}
		if _, err := r.tryProduce(r.Client, "persistent://no/such/t", "p"); !errors.Is(err, pulsar.ErrTopicNotFound) {
			t.Errorf("no namespace: %v", err)
		}
		if _, err := r.trySubscribe(r.Client, failover("persistent://public/default/t", "c")); !errors.Is(err, pulsar.ErrTopicNotFound) {
			t.Errorf("regular, not to be created: %v", err)
		}
		r.produce("persistent://public/default/t", "")
	})
}

// P34, facts 7.
func TestProducerName(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment, other := r.create(1)[0], r.newClient()
		p := r.produce(segment, "n")
		start := time.Now()
		for _, client := range []*pulsar.Client{r.Client, other} {
			if _, err := r.tryProduce(client, segment, "n"); !errors.Is(err, pulsar.ErrProducerBusy) {
				t.Errorf("held name: %v", err)
			}
		}
		if held := time.Since(start); held != 0 {
			t.Errorf("a live holder took %v", held)
		}
		r.must(p.Close(t.Context()))
		q, err := r.tryProduce(other, segment, "n")
		r.must(err)
		r.must(other.Close())
		synctest.Wait()
		r.produce(segment, "n")
		r.want(&q.notes, "closed")
	})
}

// P34: a holder that does not answer loses its name after 5 s.
func TestMuteHolder(t *testing.T) {
	mute := false
	hook := func(c pulsartest.Command) pulsartest.Action {
		if mute && c.Type == pulsarpb.BaseCommand_PONG && !c.Sent {
			return pulsartest.Drop()
		}
		return pulsartest.Pass()
	}
	inBubble(t, pulsartest.Options{Hook: hook}, func(t *testing.T, r *rig) {
		segment, other := r.create(1)[0], r.newClient()
		p := r.produce(segment, "n")
		mute = true
		start := time.Now()
		_, err := r.tryProduce(other, segment, "n")
		r.must(err)
		if held := time.Since(start); held != 5*time.Second {
			t.Errorf("a mute holder took %v", held)
		}
		r.want(&p.notes, "closed")
	})
}

// Facts 7.
func TestDeduplication(t *testing.T) {
	inBubble(t, pulsartest.Options{Deduplication: true}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "n")
		p.send("a", "b")
		p.next = 1
		p.send("b again", "c")
		r.want(&p.notes, "receipt 0 at 0", "receipt 1 at 1", "receipt 1 at -1", "receipt 2 at 2")
		r.must(p.Close(t.Context()))
		r.Brokers()[0].Crash()
		r.Brokers()[0].Restart()
		synctest.Wait()
		if last := r.produce(segment, "n").LastSequenceID(); last != 2 {
			t.Errorf("last sequence id after a crash: %d", last)
		}
		if last := r.produce(segment, "other").LastSequenceID(); last != -1 {
			t.Errorf("last sequence id of a new name: %d", last)
		}
	})
}

// Facts 6, P19: what a seal refuses is not stored, and the producers are closed first.
func TestSealUnderLoad(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p, idle := r.produce(segment, "p"), r.produce(segment, "idle")
		r.must(r.HoldAdds(segment))
		p.send("a", "b", "c", "d")
		synctest.Wait()
		if pending, err := r.LandAdds(segment, 2); pending != 2 || err != nil {
			t.Errorf("%d pending, %v", pending, err)
		}
		r.must(r.Split(scalableTopic, 0))
		r.want(&p.notes, "receipt 0 at 0", "receipt 1 at 1", "broker closed", "error 3 PersistenceError", "error 2 TopicTerminatedError")
		r.want(&idle.notes, "broker closed")
		if n := len(r.stored(segment)); n != 2 {
			t.Errorf("%d stored", n)
		}
		if _, err := r.tryProduce(r.Client, segment, "p"); !errors.Is(err, pulsar.ErrTopicTerminated) {
			t.Errorf("sealed: %v", err)
		}
		r.produce(r.active()[0], "p").send("c")
	})
}

// P18, P19: sends that their broker took before it went down land without a receipt,
// below whatever the next holder writes.
func TestAddsLandLate(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(r *rig, segment string)
		told []string
	}{
		{"crash", func(r *rig, _ string) { r.Brokers()[0].Crash(); r.Brokers()[0].Restart() }, []string{"closed"}},
		{"unload", func(r *rig, segment string) { r.Unload(segment) }, []string{"broker closed", "error 1 PersistenceError"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			survive := func(string, int) int { return 2 }
			inBubble(t, pulsartest.Options{Survive: survive, Retention: true}, func(t *testing.T, r *rig) {
				segment := r.create(1)[0]
				p := r.produce(segment, "n")
				r.must(r.HoldAdds(segment))
				p.send("a", "b", "c")
				synctest.Wait()
				tt.end(r, segment)
				r.want(&p.notes, tt.told...)
				r.must(r.ReleaseAdds(segment))
				next := r.produce(segment, "n")
				next.marker()
				synctest.Wait()
				stored, err := r.Entries(segment)
				r.must(err)
				if len(stored) != 3 || string(stored[1].Payload) != "b" || !stored[2].Info.HasMarker || stored[2].At.Ledger == stored[1].At.Ledger {
					t.Errorf("stored %v", stored)
				}
			})
		})
	}
}
