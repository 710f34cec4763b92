//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// expired waits until a TTL has moved the subscriptions over all that there is.
func (l *losing) expired() {
	l.Helper()
	ttl := "namespaces/" + l.namespace + "/messageTTL"
	l.must(l.east.admin.Do(l.ctx, http.MethodPost, ttl, 1, nil))
	l.lost(150 * time.Second)
	l.must(l.east.admin.Do(l.ctx, http.MethodDelete, ttl, nil, nil))
}

// While geobridge is away, a TTL expires what was not copied.
func TestTrapSourceExpired(t *testing.T) {
	t.Parallel() // the broker looks once a minute
	s := newScene(t, 10*time.Minute)
	l := s.losing(s)
	s.terminate(l.d)
	l.send("gone", false)
	l.expired()
	s.start(l.d)
	l.noticed("expired", "source data was gone before it was copied (expired): ")
}

// The same while it is running, and waits for a target that does not answer.
func TestTrapSourceExpiredUnderIt(t *testing.T) {
	t.Parallel()
	s := newScene(t, 10*time.Minute)
	front := *s
	var cut *rig.Cut
	front.west, cut = s.behind(s.west)
	l := s.losing(&front)
	cut.Stall()
	l.sendMuch()
	l.expired()
	cut.Heal()
	l.noticed("expired", "source data was gone before it was copied (expired): ")
}

// sendMuch publishes more than geobridge takes at a time.
func (l *losing) sendMuch() {
	l.Helper()
	for _, p := range l.publishing(witness.Produce{IDPrefix: "gone", Count: 4_000, Rate: 4_000, Size: 4_096, Random: true}, false) {
		l.must(p.WaitDone(l.within(time.Minute, "publishing")))
	}
}

// The same, but the segment is sealed, too: then it is deleted with all that it holds.
func TestTrapSourcePruned(t *testing.T) {
	t.Parallel() // the broker looks once a minute
	s := newScene(t, 10*time.Minute)
	front := *s
	var cut *rig.Cut
	front.west, cut = s.behind(s.west)
	l := s.losing(&front)
	cut.Stall()
	l.sendMuch()
	l.skipped()
	old := map[string]restadmin.Segment{}
	for _, name := range l.names() {
		old[name] = onlyActive(s, s.east, s.name(name))
		s.must(s.east.admin.Split(s.ctx, s.name(name), old[name].ID))
	}
	for name, segment := range old {
		s.must(rig.Poll(s.within(200*time.Second, "pruning"), time.Second, func() error {
			layout, err := s.east.admin.Layout(s.ctx, s.name(name))
			if _, there := layout.Segments[fmt.Sprint(segment.ID)]; err == nil && there {
				err = fmt.Errorf("segment %d is there", segment.ID)
			}
			return err
		}))
	}
	cut.Heal()
	for _, name := range l.names() { // that the subscription was moved is told, too, if there was time
		s.counts(l.d, "source_gaps_total", 1, "mapping="+name, "reason=truncated")
	}
	l.goesOn("was deleted before all of it was copied")
	l.judge(order.Once)
}

// While geobridge is away, a backlog quota evicts what was not copied.
func TestTrapSourceEvicted(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	l := s.losing(s)
	s.terminate(l.d)
	l.send("gone", false)
	quota := "namespaces/" + s.namespace + "/backlogQuota"
	s.must(s.east.admin.Do(s.ctx, http.MethodPost, quota+"?backlogQuotaType=destination_storage",
		map[string]any{"limitSize": 1, "limitTime": -1, "policy": "consumer_backlog_eviction"}, nil))
	l.lost(90 * time.Second)
	s.must(s.east.admin.Do(s.ctx, http.MethodDelete, quota+"?backlogQuotaType=destination_storage", nil, nil))
	s.start(l.d)
	l.noticed("expired", "source data was gone before it was copied (expired): ")
}

// geobridge is killed with entries that it was given and that had no receipt yet. They are
// skipped, and trimmed, since nothing retains them.
func TestTrapSourceTrimmed(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	front := *s
	var cut *rig.Cut
	front.west, cut = s.behind(s.west)
	l := s.losing(&front)
	l.acknowledged()
	s.pause(3 * time.Second) // a record is written each second: none is under way
	written := s.published(s.west, "__geobridge.geobridge.checkpoint")
	cut.Stall(rig.Down) // what is sent is stored, records too
	l.send("gone", false)
	for _, name := range l.names() {
		s.must(rig.Poll(s.within(time.Minute, "sends without receipts"), 100*time.Millisecond, func() error {
			if s.metrics(l.d).Sum("unreceipted_sends", "mapping="+name) == 0 {
				return errIdle
			}
			return nil
		}))
	}
	s.must(rig.Poll(s.within(time.Minute, "a record of each mapping"), 100*time.Millisecond, func() error {
		// Without receipts each lane writes one and no more.
		if n := s.published(s.west, "__geobridge.geobridge.checkpoint") - written; n < len(l.names()) {
			return fmt.Errorf("%d records are written", n)
		}
		return nil
	}))
	l.d.Kill()
	l.skipped()
	s.must(s.east.admin.Unload(s.ctx, s.namespace))
	cut.Sever(true)
	cut.Heal()
	s.start(l.d)
	l.noticed("truncated", "source data was gone before it was copied (truncated): at least")
}

// published is how many messages a regular topic of the scene's has been sent since it was
// loaded.
func (s *scene) published(at site, topic string) int {
	s.Helper()
	var stats struct{ MsgInCounter int }
	s.must(at.admin.Do(s.ctx, http.MethodGet, "persistent/"+s.namespace+"/"+topic+"/stats", nil, &stats))
	return stats.MsgInCounter
}

// The source topic is deleted and made again before all of it was copied: under a
// running geobridge, whose target does not answer meanwhile, and while it is away.
func TestTrapSourceRecreated(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away=%v", away), func(t *testing.T) {
			s := newScene(t, 10*time.Minute)
			front := *s
			var cut *rig.Cut
			front.west, cut = s.behind(s.west)
			l := s.losing(&front)
			if away {
				s.terminate(l.d)
			} else {
				cut.Stall()
			}
			l.send("gone", false)
			for _, name := range l.names() {
				s.remove(s.east, s.name(name), true)
				s.create(s.east, name, 1, 2)
			}
			if away {
				s.start(l.d)
			}
			for _, name := range l.names() { // before the target takes what was read of the old one: then nothing may be lost
				s.counts(l.d, "source_gaps_total", 1, "mapping="+name, "reason=recreated")
			}
			cut.Heal()
			l.noticed("recreated", "was deleted and created again")
		})
	}
}

// The checkpoint topic is deleted, under a running geobridge and while it is away: what
// was in flight may come twice, if that is accepted.
func TestTrapCheckpointDeleted(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away=%v", away), func(t *testing.T) {
			s := newScene(t, 10*time.Minute)
			l := s.losingBy("on_lost_evidence", "at_least_once", s)
			if away {
				s.terminate(l.d)
			}
			s.must(s.west.admin.Do(s.ctx, http.MethodDelete, "persistent/"+s.namespace+"/__geobridge.geobridge.checkpoint?force=true", nil, nil))
			if away {
				s.start(l.d)
			}
			l.goesOn("evidence lost: ")
			for _, name := range l.names() {
				if got := s.metrics(l.d).Sum("evidence_lost_total", "mapping="+name); got != 1 {
					s.Errorf("%s: evidence_lost_total %v, want 1", name, got)
				}
			}
			l.judge(order.AtLeastOnce)
		})
	}
}

// The parking topic is deleted, under a running geobridge and while it is away: that is
// said, it is made again, and nothing else is the matter.
func TestTrapParkingDeleted(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away=%v", away), func(t *testing.T) {
			s := newScene(t, 10*time.Minute)
			n := s.create(s.east, "orders", 1, 2)
			s.create(s.west, "orders", 1, 2)
			reader := s.consume(s.west, n, 1)
			d := s.run(s.mapping("parked", s.east, s.west, "orders"))
			copies := func(prefix string) {
				s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: prefix, KeyPrefix: prefix, Keys: 5, Count: 200, Rate: 1_000}, reader)
				s.allCome(reader, "copying "+prefix)
			}
			copies("old")
			if away {
				s.terminate(d)
			}
			s.must(s.east.admin.Do(s.ctx, http.MethodDelete, "persistent/"+s.namespace+"/__geobridge.geobridge.parking?force=true", nil, nil))
			if away {
				s.start(d)
			}
			s.noted(d, "parked", "was deleted, with all that")
			copies("new")
			f := s.forge(s.east, n, onlyActive(s, s.east, n))
			f.publish(forged{batch: spread("bad", 6, 1), change: func(md *pulsarpb.MessageMetadata) { md.NumMessagesInBatch = proto.Int32(600) }})
			s.parked(d, 1)
			s.verdict(reader)
			m := s.metrics(d)
			if gaps, lost := m.Sum("source_gaps_total"), m.Sum("evidence_lost_total"); gaps != 0 || lost != 0 {
				s.Errorf("%v gaps, evidence lost %v times", gaps, lost)
			}
			s.terminate(d)
		})
	}
}
