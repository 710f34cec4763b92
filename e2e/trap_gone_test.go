//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// remove deletes a topic, with or without force.
func (s *scene) remove(at site, n restadmin.Name, force bool) {
	s.Helper()
	s.must(at.admin.Do(s.ctx, http.MethodDelete, fmt.Sprintf("scalable/%s?force=%v", n, force), nil, nil))
}

// The target topic is deleted in the middle of a copy, without and with force, and
// made again, in another shape and over its orphans. What geobridge has not seen stored
// by a living topic is copied to the new one: nothing in between is lost, and nothing
// comes twice.
func TestTrapTargetDeleted(t *testing.T) {
	for _, row := range []struct {
		force    bool
		segments int // of the new topic
	}{{false, 3}, {true, 3}, {false, 2}} {
		t.Run(fmt.Sprintf("force=%v,segments=%d", row.force, row.segments), func(t *testing.T) {
			s := newScene(t, 10*time.Minute)
			n := s.create(s.east, "orders", 2, 2)
			s.create(s.west, "orders", 2, 2)
			d := s.run(s.mapping("ghost", s.east, s.west, "orders"))
			old := &ledger{}
			load := s.produceInto(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old", KeyPrefix: "old", Keys: 50, Rate: 1_000}, old.add)
			s.must(load.WaitReceipts(s.within(time.Minute, "the load"), 2_000))
			s.must(rig.Poll(s.within(time.Minute, "copying"), 100*time.Millisecond, func() error {
				if got := s.metrics(d).Sum("messages_total"); got < 1_000 {
					return fmt.Errorf("messages_total %v", got)
				}
				return nil
			}))
			s.remove(s.west, n, row.force)
			s.reason(d, "ghost", `does not exist|not found`)
			exists, err := s.west.admin.Exists(s.ctx, n)
			if err != nil || exists {
				s.Errorf("the target topic is there again: %v, %v", exists, err)
			}
			s.must(load.Stop(s.within(time.Minute, "ending the old load")))
			seen, ghost := s.haunted(d)
			s.create(s.west, "orders", row.segments, 2)
			reader := s.consume(s.west, n, 1)
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 50, Count: 2_000, Rate: 2_000}, reader)
			s.allCome(reader, "copying to the new topic")
			s.drained(end{s.east, n}, subscription("ghost", s.west))
			report := reader.Report()
			gone := old.missing(s, report.Foreign)
			t.Logf("the old topic gave receipts for %d messages, and for %d more since it was last seen; %d of %d went with it", seen, ghost, gone, len(old.all))
			if gone > seen {
				s.Errorf("%d messages are missing, the old topic was seen to have %d", gone, seen)
			}
			report.Foreign = nil // the old load's
			t.Log(report)
			for _, problem := range report.Problems(order.Once) {
				s.Error(problem)
			}
			s.terminate(d)
		})
	}
}

// haunted returns how many messages the target was seen to have before it went, and
// how many were receipted later, which the status tells, too.
func (s *scene) haunted(d *daemon.Daemon) (seen, ghost int) {
	s.Helper()
	m := s.metrics(d)
	ghost = int(m.Sum("ghost_receipts_total"))
	if told := strings.Contains(d.Log(), fmt.Sprintf("receipts for %d messages since it was last seen", ghost)); told != (ghost > 0) {
		s.Errorf("%d messages counted, told in the log: %v", ghost, told)
	}
	return int(m.Sum("messages_total")) - ghost, ghost
}

// ledger keeps what was published.
type ledger struct {
	mu  sync.Mutex
	all map[string]order.Message // by id
}

func (l *ledger) add(m order.Message, receipted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]order.Message{}
	}
	if receipted {
		l.all[m.ID] = m
	}
}

// missing counts what did not arrive. It is the beginning of each key, or something is
// lost in between.
func (l *ledger) missing(s *scene, arrived []string) (n int) {
	s.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	first := map[string]int64{}
	there := map[string]bool{}
	for _, id := range arrived {
		there[id] = true
		if m := l.all[id]; first[m.Key] == 0 || m.Seq < first[m.Key] {
			first[m.Key] = m.Seq
		}
	}
	for id, m := range l.all {
		if there[id] {
			continue
		}
		if n++; first[m.Key] != 0 && m.Seq > first[m.Key] {
			s.Errorf("%s (%s=%d) is lost: %d of that key has arrived", id, m.Key, m.Seq, first[m.Key])
		}
	}
	return n
}

// The source topic is deleted in the middle of a copy and made again: the new
// one is copied, and the subscription recorded there.
func TestTrapSourceDeleted(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprintf("force=%v", force), func(t *testing.T) {
			s := newScene(t, 10*time.Minute)
			n := s.create(s.east, "orders", 2, 2)
			s.create(s.west, "orders", 2, 4)
			reader := s.consume(s.west, n, 1)
			d := s.run(s.mapping("orphan", s.east, s.west, "orders"))
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old", KeyPrefix: "old", Keys: 50, Count: 1_000, Rate: 2_000}, reader)
			s.allCome(reader, "copying the old topic")
			s.remove(s.east, n, force)
			_, err := d.WaitReason(s.within(time.Minute, "noticing the deletion"), func(text string) bool {
				return strings.Contains(text, "source topic "+n.Topic()+" does not exist")
			})
			s.must(err)
			s.create(s.east, "orders", 1, 2)
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 50, Count: 1_000, Rate: 2_000}, reader)
			s.allCome(reader, "copying the new topic")
			if s.suite.full {
				s.recordedAgain(n, subscription("orphan", s.west))
			}
			for _, problem := range reader.Report().Problems(order.AtLeastOnce) {
				s.Error(problem)
			}
			s.terminate(d)
		})
	}
}

// recordedAgain waits until a subscription is recorded on n at the source:
// geobridge looks twice a minute.
func (s *scene) recordedAgain(n restadmin.Name, sub string) {
	s.Helper()
	began := time.Now()
	if err := rig.Poll(s.within(time.Minute, "recording the subscription"), 200*time.Millisecond, func() error {
		subs, err := s.east.admin.Subscriptions(s.ctx, n)
		if err == nil && subs[sub].Type != "STREAM" {
			err = fmt.Errorf("the subscription is %+v", subs[sub])
		}
		return err
	}); err != nil {
		s.Error(err)
	}
	s.Logf("recorded after %v", time.Since(began))
}
