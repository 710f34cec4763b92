//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// start: latest copies nothing older than its start and misses nothing newer.
func TestScenario10StartLatest(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 2)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "old", KeyPrefix: "old", Keys: 50, Count: 2_000}) // nobody expects these
	// What is published while geobridge starts may be copied or not, but from
	// some message on all of it.
	during := map[string][]order.Message{}
	live := s.produceInto(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "live", KeyPrefix: "live", Keys: 20, Rate: 500}, func(m order.Message, receipted bool) {
		if receipted {
			during[m.Key] = append(during[m.Key], m)
		}
	})
	d := s.run(s.mapping("newest", s.east, s.west, "orders", map[string]any{"start": "latest"}))
	s.running(2, d)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "new", KeyPrefix: "new", Keys: 50, Count: 2_000, Rate: 2_000}, reader)
	s.must(live.Stop(s.within(time.Minute, "ending the load")))
	s.settle(reader)
	s.suffixes(reader, during)
	report := reader.Report()
	t.Log(report)
	var older []string
	for _, id := range report.Foreign {
		if !strings.HasPrefix(id, "live-") {
			older = append(older, id+" is older than the start")
		}
	}
	s.complain("start", older)
	report.Foreign = nil
	for _, problem := range report.Problems(order.Once) {
		s.Error(problem)
	}
}

// suffixes fails the scenario where a key has an earlier message copied and a
// later one missing.
func (s *scene) suffixes(reader *witness.Consumption, published map[string][]order.Message) {
	s.Helper()
	copied := 0
	for key, messages := range published {
		first, missing := int64(-1), []int64{}
		for _, m := range messages { // receipts of one key come in order
			arrived := reader.Arrived(m.ID)
			switch {
			case arrived && first < 0:
				first = m.Seq
			case !arrived && first >= 0:
				missing = append(missing, m.Seq)
			}
			if arrived {
				copied++
			}
		}
		if len(missing) > 0 {
			s.Errorf("key %s: copied from %d on, but %v are missing", key, first, missing)
		}
		if first < 0 {
			s.Errorf("key %s: nothing copied though it went on after the start", key)
		}
	}
	s.Logf("%d messages copied of those published meanwhile", copied)
}

// running waits until n lanes run over all of the daemons.
func (s *scene) running(n int, daemons ...*daemon.Daemon) {
	s.Helper()
	if s.suite.standIn {
		return
	}
	s.must(rig.Poll(s.within(time.Minute, "starting the lanes"), 100*time.Millisecond, func() error {
		total := 0.0
		for _, d := range daemons {
			m, err := d.Metrics(s.ctx)
			if err != nil {
				return err
			}
			total += m.Sum("lanes", "state=running")
		}
		if int(total) != n {
			return fmt.Errorf("%v lanes run, want %d", total, n)
		}
		return nil
	}))
}

// Two instances share four source segments; one dies, the other goes on.
func TestScenario11TwoInstances(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	n := s.create(s.east, "orders", 4, 1)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 3)
	mapping := s.mapping("shared", s.east, s.west, "orders")
	const rate = 2_000
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 200, Rate: rate, Compression: "LZ4"}, reader)
	a, b := s.sharers(mapping)
	s.comes(reader, reader.Distinct()+3*rate, "copying by both")
	for _, d := range []*daemon.Daemon{a, b} {
		if got := s.metrics(d).Sum("entries_total"); got == 0 {
			s.Errorf("%s has copied nothing", d.Name)
		}
	}
	a.Kill()
	killed := time.Now()
	s.running(4, b)
	s.comes(reader, reader.Distinct()+rate, "copying by the survivor")
	t.Logf("the survivor has all lanes and goes on after %v", time.Since(killed).Round(10*time.Millisecond))
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	s.verdict(reader)
}

// sharers starts two instances of one configuration that both got some of the
// four lanes.
func (s *scene) sharers(mapping map[string]any) (a, b *daemon.Daemon) {
	s.Helper()
	return s.sharing(s.config(mapping), s.config(mapping))
}

// sharing is sharers with a configuration for each. Who gets which lane is a hash
// of the consumers' names, so it takes other names where one instance got all.
func (s *scene) sharing(first, second daemon.Config) (a, b *daemon.Daemon) {
	s.Helper()
	for try := range 8 {
		a = s.instance(fmt.Sprintf("a%d", try), first)
		b = s.instance(fmt.Sprintf("b%d", try), second)
		s.start(a)
		s.start(b)
		s.running(4, a, b)
		if s.bothLead(a, b) {
			return a, b
		}
		s.terminate(a)
		s.terminate(b)
	}
	s.Fatal("in eight tries one instance always got all four lanes")
	return nil, nil
}

// bothLead waits until each of two daemons has had a share of the four lanes for a while: the
// second one's comes a moment after it has joined, one lane after the other, and may become
// all of them.
func (s *scene) bothLead(a, b *daemon.Daemon) bool {
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	had, since := 0, time.Now()
	return rig.Poll(ctx, 50*time.Millisecond, func() error {
		one, err := s.leads(ctx, a)
		if err != nil {
			return err
		}
		two, err := s.leads(ctx, b)
		if err != nil {
			return err
		}
		if one+two != 4 || one != had {
			had, since = one, time.Now()
		}
		settled := time.Since(since) > 2*time.Second
		switch {
		case settled && one > 0 && two > 0 && one+two == 4:
			return nil
		case settled && one == 0, two == 0 && time.Since(since) > 6*time.Second:
			cancel() // it will stay so
		}
		return fmt.Errorf("%d and %d lanes run", one, two)
	}) == nil
}

// leads counts the lanes that a daemon runs on active segments of its source: those of
// sealed ones are soon over.
func (s *scene) leads(ctx context.Context, d *daemon.Daemon) (n int, err error) {
	if d.StandIn() { // it has no status
		m, err := d.Metrics(ctx)
		return int(m.Sum("lanes", "state=running")), err
	}
	from := s.routes[len(s.routes)-1].from
	layout, err := from.at.admin.Layout(ctx, from.name)
	if err != nil {
		return 0, err
	}
	_, body, err := d.Get(ctx, "/api/v1/status")
	if err != nil {
		return 0, err
	}
	var status struct {
		Mappings []struct {
			Lanes []struct {
				State   string `json:"state"`
				Segment int64  `json:"segment"`
			} `json:"lanes"`
		} `json:"mappings"`
	}
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		return 0, err
	}
	for _, mapping := range status.Mappings {
		for _, lane := range mapping.Lanes {
			if lane.State == "running" && layout.Segments[fmt.Sprint(lane.Segment)].Active {
				n++
			}
		}
	}
	return n, nil
}
