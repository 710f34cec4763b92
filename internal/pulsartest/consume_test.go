package pulsartest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// Facts 9.2: permits are messages, a round reads as many entries, the balance may
// go negative.
func TestFlowOverdraws(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		for range 8 {
			r.must(p.Send(p.entry("batch", func(m *pulsarpb.MessageMetadata) { m.NumMessagesInBatch = proto.Int32(10) })))
		}
		synctest.Wait()
		c := r.subscribe(reading(segment, pulsar.Earliest()), 5)
		if got := c.take(); len(got) != 5 {
			t.Errorf("5 permits: %q", got)
		}
		r.must(c.Flow(20))
		r.want(&c.notes)
		if s, err := c.Stats(t.Context()); err != nil || s.AvailablePermits != 5-50+20 || s.Backlog != 8 {
			t.Errorf("%+v, %v", s, err)
		}
		r.must(c.Flow(26))
		r.want(&c.notes, "message 5 batch")
	})
}

// P20, P21: markers are stored, never delivered, and are backlog of whoever has no
// permits; one who has passes them by himself.
func TestMarkers(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		r.must(r.RecordSubscription(scalableTopic, "s"))
		p := r.produce(segment, "p")
		p.marker()
		p.send("a")
		p.marker()
		r.want(&p.notes, "receipt 0 at 0", "receipt 1 at 1", "receipt 2 at 2")
		c := r.subscribe(failover(segment, "c"), 0)
		r.want(&c.notes, "active true")
		if n := c.backlog(); n != 3 {
			t.Errorf("backlog %d without permits", n)
		}
		r.must(c.Flow(10))
		r.want(&c.notes, "message 1 a")
		if n := c.backlog(); n != 1 {
			t.Errorf("backlog %d with permits", n)
		}
		at := r.stored(segment)
		r.must(c.ackTo(at[1]))
		if n := c.backlog(); n != 0 {
			t.Errorf("backlog %d at the end", n)
		}
		r.must(c.ackTo(at[2]))
		if err := c.ackTo(at[1]); err == nil || !strings.Contains(err.Error(), "already mark-deleted") {
			t.Errorf("an older position: %v", err)
		}
	})
}

// Facts 9.3, P27.
func TestAcknowledgements(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		r.produce(segment, "p").send("a", "b", "c", "d")
		synctest.Wait()
		at := r.stored(segment)
		c := r.subscribe(failover(segment, "c"), 2)
		beyond := pulsar.MessageID{Ledger: at[3].Ledger, Entry: 4}
		if err := c.ackTo(beyond); err == nil || !strings.Contains(err.Error(), "Invalid mark deleted position") {
			t.Errorf("beyond the end: %v", err)
		}
		done := make(chan error, 1)
		c.AckIndividual([]pulsar.MessageID{at[2], at[1]}, func(err error) { done <- err })
		r.must(<-done)
		if n := c.backlog(); n != 2 {
			t.Errorf("backlog %d", n)
		}
		r.must(c.ackTo(at[0]))
		if n := c.backlog(); n != 1 {
			t.Errorf("backlog %d: the hole is closed", n)
		}
		r.must(c.Close(t.Context()))
		c.take()
		again := r.subscribe(failover(segment, "c"), 10)
		r.want(&again.notes, "active true", "message 3 d")
	})
}

// P23.
func TestStart(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		p.send("a", "b", "c")
		synctest.Wait()
		at := r.stored(segment)
		all := []string{"message 0 a", "message 1 b", "message 2 c"}
		for name, tt := range map[string]struct {
			from pulsar.MessageID
			or   pulsar.InitialPosition
			want []string
		}{
			"inclusive":              {at[1], pulsar.PositionLatest, all[1:]},
			"earliest":               {pulsar.Earliest(), pulsar.PositionLatest, all},
			"latest":                 {pulsar.Latest(), pulsar.PositionLatest, nil},
			"latest, or earliest":    {pulsar.Latest(), pulsar.PositionEarliest, all},
			"the end":                {pulsar.MessageID{Ledger: at[0].Ledger, Entry: 3}, pulsar.PositionEarliest, nil},
			"beyond, or earliest":    {pulsar.MessageID{Ledger: at[0].Ledger, Entry: 4}, pulsar.PositionEarliest, all},
			"beyond, or latest":      {pulsar.MessageID{Ledger: at[0].Ledger, Entry: 4}, pulsar.PositionLatest, nil},
			"no ledger, or earliest": {pulsar.MessageID{Ledger: 999, Entry: 0}, pulsar.PositionEarliest, all},
		} {
			o := reading(segment, tt.from)
			o.Position = tt.or
			c := r.subscribe(o, 10)
			r.want(&c.notes, tt.want...)
			if _, err := r.trySubscribe(r.Client, o); !errors.Is(err, pulsar.ErrConsumerBusy) {
				t.Errorf("%s: a second reader of the name: %v", name, err)
			}
			r.must(c.Close(t.Context()))
		}
		if _, err := r.Cluster.Backlog(segment, "reader"); !errors.Is(err, pulsartest.ErrNotFound) {
			t.Errorf("a reader's cursor outlived it: %v", err)
		}
		r.must(p.Close(t.Context()))
		r.Unload(segment) // nobody holds what was stored: it is trimmed
		q := r.produce(segment, "p")
		q.send("d")
		synctest.Wait()
		c := r.subscribe(reading(segment, at[1]), 10)
		r.want(&c.notes, "message 0 d")
	})
}

// P7, P8: the names alone decide who is active, whoever came first.
func TestElection(t *testing.T) {
	var owners []string
	for _, names := range [][]string{{"one", "two", "three"}, {"three", "one", "two"}, {"two", "three", "one"}} {
		inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
			segment := r.create(1)[0]
			told := map[string]*consumer{}
			for _, name := range names {
				told[name] = r.subscribe(failover(segment, name), 0)
			}
			for name, c := range told {
				if lines := c.take(); lines[len(lines)-1] == "active true" {
					owners = append(owners, name)
				}
			}
		})
	}
	if len(owners) != 3 || owners[0] != owners[1] || owners[1] != owners[2] {
		t.Errorf("owners %v", owners)
	}
}

// P8 to P10.
func TestHandOver(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		r.produce(segment, "p").send("a", "b", "c")
		synctest.Wait()
		at := r.stored(segment)
		first := r.subscribe(failover(segment, "c"), 10)
		r.want(&first.notes)
		time.Sleep(time.Second) // of fake time: the delay after an election
		r.want(&first.notes, "active true", "message 0 a", "message 1 b", "message 2 c")

		o := failover(segment, "c")
		o.PriorityLevel = 1
		second := r.subscribe(o, 10)
		r.want(&second.notes, "active false")
		r.want(&first.notes)
		r.must(first.ackTo(at[0]))
		start := time.Now()
		r.must(first.Close(t.Context()))
		r.want(&second.notes)
		time.Sleep(time.Second - time.Since(start))
		r.want(&second.notes, "active true", "message 1 b", "message 2 c")
	})
}

// P11: a crash loses the acknowledgements of the last second; an unload none.
func TestAcknowledgementsOfACrash(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*rig, string)
		lost bool
	}{
		"crash": {func(r *rig, _ string) { r.Brokers()[0].Crash() }, true},
		"crash, a second later": {func(r *rig, _ string) {
			time.Sleep(time.Second) // of fake time
			synctest.Wait()
			r.Brokers()[0].Crash()
		}, false},
		"unload": {func(r *rig, segment string) { r.Unload(segment) }, false},
	} {
		inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
			segment := r.create(1)[0]
			p := r.produce(segment, "p")
			p.send("a", "b", "c")
			synctest.Wait()
			at := r.stored(segment)
			c := r.subscribe(failover(segment, "c"), 10)
			r.must(c.ackTo(at[0]))
			r.must(c.ackTo(at[1]))
			want := []string{"active true", "message 2 c"}
			c.take()
			if tt.lost {
				want = []string{"active true", "message 1 b", "message 2 c"}
			}
			tt.end(r, segment)
			r.Brokers()[0].Restart()
			r.want(&c.notes, "closed")
			c = r.subscribe(failover(segment, "c"), 10)
			if got := c.take(); !slices.Equal(got, want) {
				t.Errorf("%s: told %q, want %q", name, got, want)
			}
		})
	}
}

// Facts 9.4, P16.
func TestSeek(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		r.produce(segment, "p").send("a", "b", "c")
		synctest.Wait()
		at := r.stored(segment)
		for _, tt := range []struct {
			to   pulsar.MessageID
			want []string
		}{
			{pulsar.Latest(), []string{"active true"}},
			{at[1], []string{"active true", "message 1 b", "message 2 c"}},
			{pulsar.Earliest(), []string{"active true", "message 0 a", "message 1 b", "message 2 c"}},
		} {
			c := r.subscribe(failover(segment, "c"), 0)
			r.must(c.Seek(t.Context(), tt.to))
			r.want(&c.notes, "active true", "closed")
			c = r.subscribe(failover(segment, "c"), 10)
			r.want(&c.notes, tt.want...)
			r.must(c.Close(t.Context()))
		}
	})
}

// P13, P24: the end is told after the acknowledgement that empties a sealed segment,
// and to who starts there; not to one who joins.
func TestEndOfSealedSegment(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		r.produce(segment, "p").send("a")
		synctest.Wait()
		at := r.stored(segment)
		c := r.subscribe(failover(segment, "c"), 10)
		r.must(r.Split(scalableTopic, 0))
		r.want(&c.notes, "active true", "message 0 a")
		r.must(c.ackTo(at[0]))
		r.want(&c.notes, "end")
		o := failover(segment, "d")
		o.PriorityLevel = 1
		joined := r.subscribe(o, 10)
		r.want(&joined.notes, "active false")
		reader := r.subscribe(reading(segment, pulsar.Latest()), 1)
		r.want(&reader.notes, "end")
	})
}
