//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// every does something again and again beside the scenario, until stop is called.
func (s *scene) every(pause time.Duration, do func(ctx context.Context) error) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	times := 0
	go func() {
		defer close(ended)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := do(ctx); err != nil && ctx.Err() == nil {
				s.Logf("beside: %v", err)
				continue
			}
			times++
		}
	}()
	return func() {
		cancel()
		<-ended
		s.Logf("done %d times", times)
	}
}

// Both namespaces are unloaded again and again under load.
func TestTrapUnloadInALoop(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	g := s.newStage(2, 3)
	d := s.run(s.mapping("moving", s.east, s.west, "orders"))
	load := g.flow(1_500)
	g.copies(500, "at first")
	stop := s.every(1500*time.Millisecond, func(ctx context.Context) error {
		return errors.Join(s.west.admin.Unload(ctx, s.namespace), s.east.admin.Unload(ctx, s.namespace))
	})
	g.pause(byMode(s, 10*time.Second, 2*time.Minute))
	stop()
	// What any scenario may need: by it nothing is lost or doubled.
	g.must(g.target.Reopen(g.within(2*time.Minute, "opening the reader anew")))
	g.exactly(load)
	s.healthy(d)
}

// A backlog quota of the target is reached: a state with the reason, until it
// is lifted.
func TestTrapBacklogQuota(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	n := s.create(s.east, "orders", 1, 1)
	s.create(s.west, "orders", 1, 1)
	s.must(s.west.admin.Subscribe(s.ctx, n, "asleep")) // nobody reads it
	d := s.run(s.mapping("full", s.east, s.west, "orders"))
	quota := "namespaces/" + s.namespace + "/backlogQuota"
	s.must(s.west.admin.Do(s.ctx, http.MethodPost, quota+"?backlogQuotaType=destination_storage",
		map[string]any{"limitSize": 1, "limitTime": -1, "policy": "producer_exception"}, nil))
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 20, Rate: 300})
	s.reason(d, "full", `quota`)
	s.healthy(d)
	s.must(s.west.admin.Do(s.ctx, http.MethodDelete, quota+"?backlogQuotaType=destination_storage", nil, nil))
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	s.drained(end{s.east, n}, subscription("full", s.west))
	s.terminate(d)
}

// The source subscription is deleted while geobridge is away: a gap, for nobody
// knows what went with it. It is made again, and what is there is copied, nothing
// of it twice; with on_gap: stop the mapping waits for somebody to decide. Deleted
// under a running geobridge, it is recorded again.
func TestTrapSubscriptionDeleted(t *testing.T) {
	for _, policy := range []string{"continue", "stop"} {
		t.Run(policy, func(t *testing.T) {
			s := newScene(t, 10*time.Minute)
			n := s.create(s.east, "orders", 1, 1)
			s.create(s.west, "orders", 1, 1)
			reader := s.consume(s.west, n, 1)
			d := s.run(s.mapping("deleted", s.east, s.west, "orders", map[string]any{"on_gap": policy}))
			sub := subscription("deleted", s.west)
			copies := func(prefix string) {
				s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: prefix, KeyPrefix: prefix, Keys: 5, Count: 200, Rate: 1_000}, reader)
				s.allCome(reader, "copying "+prefix)
			}
			remove := func() {
				s.must(s.east.admin.Do(s.ctx, http.MethodDelete, "scalable/"+string(n)+"/subscriptions/"+sub, nil, nil))
			}
			copies("a")
			if s.suite.full {
				remove()
				s.recordedAgain(n, sub)
				copies("b")
			}
			s.terminate(d)
			remove()
			s.start(d)
			if policy == "stop" {
				s.reason(d, "deleted", `gone from the source`)
			} else {
				s.counts(d, "source_gaps_total", 1, "reason=unsubscribed")
				s.recordedAgain(n, sub)
				copies("c")
			}
			s.terminate(d)
			for _, problem := range reader.Report().Problems(order.Once) {
				s.Error(problem)
			}
		})
	}
}

// One of the service hosts is dead, another never answers: the live one serves.
func TestTrapDeadHosts(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	n := s.create(s.east, "orders", 1, 1)
	s.create(s.west, "orders", 1, 1)
	reader := s.consume(s.west, n, 1)
	ports, err := rig.FreePorts(1)
	s.must(err)
	mute, cut := s.behind(s.west)
	cut.Stall()
	front := *s
	live := strings.TrimPrefix(s.west.service, "pulsar://")
	front.west.service = fmt.Sprintf("pulsar://127.0.0.1:%d,%s,%s", ports[0], strings.TrimPrefix(mute.service, "pulsar://"), live)
	config := front.config(s.mapping("hosts", s.east, s.west, "orders"))
	config["clusters"].(map[string]any)[s.west.name].(map[string]any)["connect_timeout"] = "2s"
	d := s.instance("a", config)
	s.start(d)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 5, Count: 500, Rate: 1_000}, reader)
	s.verdict(reader)
	s.terminate(d)
}
