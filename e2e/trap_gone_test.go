//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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

// The target topic is deleted in the middle of a copy, without and with force,
// and made again: nothing published after that is lost.
func TestTrapTargetDeleted(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprintf("force=%v", force), func(t *testing.T) {
			s := newScene(t, 4*time.Minute)
			n := s.create(s.east, "orders", 2, 2)
			s.create(s.west, "orders", 2, 4)
			d := s.run(s.mapping("ghost", s.east, s.west, "orders"))
			load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old", KeyPrefix: "old", Keys: 50, Rate: 1_000})
			s.must(load.WaitReceipts(s.within(time.Minute, "the load"), 2_000))
			s.must(rig.Poll(s.within(time.Minute, "copying"), 100*time.Millisecond, func() error {
				if got := s.metrics(d).Sum("messages_total"); got < 1_000 {
					return fmt.Errorf("messages_total %v", got)
				}
				return nil
			}))
			s.remove(s.west, n, force)
			deleted := time.Now()
			at := s.metrics(d).Sum("messages_total")
			s.reason(d, "ghost", `does not exist|not found`)
			t.Logf("noticed %v after the deletion; the orphan took at most %v messages more", time.Since(deleted), s.metrics(d).Sum("messages_total")-at)
			exists, err := s.west.admin.Exists(s.ctx, n)
			if err != nil || exists {
				t.Errorf("the target topic is there again: %v, %v", exists, err)
			}
			s.must(load.Stop(s.within(time.Minute, "ending the old load")))
			s.create(s.west, "orders", 3, 2)
			reader := s.consume(s.west, n, 1)
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 50, Count: 2_000, Rate: 2_000}, reader)
			if err := reader.WaitAll(s.within(90*time.Second, "copying to the new topic")); err != nil {
				t.Error(err)
			}
			s.drained(end{s.east, n}, subscription("ghost", s.west))
			report := reader.Report()
			report.Foreign = nil // the old load's rest
			t.Log(report)
			for _, problem := range report.Problems(order.AtLeastOnce) {
				t.Error(problem)
			}
			s.terminate(d)
		})
	}
}

// The source topic is deleted in the middle of a copy and made again: the new
// one is copied, and the subscription recorded there.
func TestTrapSourceDeleted(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprintf("force=%v", force), func(t *testing.T) {
			s := newScene(t, 4*time.Minute)
			n := s.create(s.east, "orders", 2, 2)
			s.create(s.west, "orders", 2, 4)
			reader := s.consume(s.west, n, 1)
			d := s.run(s.mapping("orphan", s.east, s.west, "orders"))
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old", KeyPrefix: "old", Keys: 50, Count: 1_000, Rate: 2_000}, reader)
			s.must(reader.WaitAll(s.within(time.Minute, "copying the old topic")))
			s.remove(s.east, n, force)
			_, err := d.WaitReason(s.within(time.Minute, "noticing the deletion"), func(text string) bool {
				return strings.Contains(text, "source topic "+n.Topic()+" does not exist")
			})
			s.must(err)
			s.create(s.east, "orders", 1, 2)
			s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 50, Count: 1_000, Rate: 2_000}, reader)
			if err := reader.WaitAll(s.within(60*time.Second, "copying the new topic")); err != nil {
				t.Error(err)
			}
			if s.suite.full {
				s.recordedAgain(n, subscription("orphan", s.west))
			}
			for _, problem := range reader.Report().Problems(order.AtLeastOnce) {
				t.Error(problem)
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
