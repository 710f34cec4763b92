//go:build e2e

package e2e_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// behind puts a proxy between geobridge and a site: the site that is returned
// is for configurations, the witness keeps using the old one.
func (s *scene) behind(at site) (site, *rig.Cut) {
	s.Helper()
	cut, err := rig.NewCut(strings.TrimPrefix(at.service, "pulsar://"))
	s.must(err)
	s.Cleanup(func() { _ = cut.Close() })
	at.service = "pulsar://" + cut.Addr()
	return at, cut
}

// throughCuts runs one daemon whose connections to both clusters pass proxies.
func (s *scene) throughCuts(mappings ...map[string]any) (d *daemon.Daemon, east, west *rig.Cut) {
	s.Helper()
	front := *s
	front.east, east = s.behind(s.east)
	front.west, west = s.behind(s.west)
	return s.instance("a", front.config(mappings...)), east, west
}

// begun waits until d has entries in flight.
func (s *scene) begun(d *daemon.Daemon) {
	s.Helper()
	s.must(rig.Poll(s.within(20*time.Second, "something in flight"), 20*time.Millisecond, func() error {
		if m, err := d.Metrics(s.ctx); err != nil || m.Sum("inflight_bytes") == 0 {
			return errIdle
		}
		return nil
	}))
}

var errIdle, errLeak = errors.New("nothing is in flight"), errors.New("goroutines remain")

// process reads one of the Go runtime's own gauges.
func process(m daemon.Metrics, name string) float64 {
	for _, sample := range m {
		if sample.Name == name {
			return sample.Value
		}
	}
	return -1
}

// Connections to either side end in every way at random moments of a copy, a
// hundred times: nothing is lost or doubled, the order stays, and nothing leaks.
func TestTrapConnectionsCut(t *testing.T) {
	s := newScene(t, 8*time.Minute)
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 3)
	d, east, west := s.throughCuts(s.mapping("cut", s.east, s.west, "orders"))
	s.start(d)
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 200, Rate: 1_500, Compression: "LZ4"}, reader)
	s.comes(reader, 500, "the first copies")
	before := s.metrics(d)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	ended := 0
	for range byMode(s, 12, 200) {
		pause := time.NewTimer(time.Duration(random.IntN(700)) * time.Millisecond) // a random moment of the copy
		<-pause.C
		cut := []*rig.Cut{east, west}[random.IntN(2)]
		ended += cut.Sever(random.IntN(2) == 0)
	}
	// These find sends without receipt, whatever the moment: they are held up first.
	for range byMode(s, 2, 20) {
		s.comes(reader, reader.Distinct()+500, "copying on")
		west.Stall()
		s.begun(d)
		ended += west.Sever(true)
		west.Heal()
	}
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	t.Logf("%d connections ended", ended)
	s.verdict(reader)
	s.steady(d, before)
}

// steady fails the scenario when d holds much more than before.
func (s *scene) steady(d *daemon.Daemon, before daemon.Metrics) {
	s.Helper()
	const settled = 20 * time.Second
	var after daemon.Metrics
	err := rig.Poll(s.within(settled, "letting go of what the dead connections had"), 500*time.Millisecond, func() error {
		after = s.metrics(d)
		if process(after, "go_goroutines") > process(before, "go_goroutines")+20 {
			return errLeak
		}
		return nil
	})
	s.Logf("goroutines %v -> %v, resident %v -> %v MB", process(before, "go_goroutines"), process(after, "go_goroutines"),
		process(before, "process_resident_memory_bytes")/1e6, process(after, "process_resident_memory_bytes")/1e6)
	if err != nil {
		s.Error(err)
	}
	if got := process(after, "process_resident_memory_bytes"); got > 384<<20 {
		s.Errorf("resident memory %v bytes, want at most memory_limit + 128 MiB", got)
	}
	if got := after.Sum("inflight_bytes"); got != 0 {
		s.Errorf("inflight_bytes is %v with nothing to copy", got)
	}
}

// A target that is connected and mute: SIGTERM still ends the daemon soon after
// shutdown_timeout, with the code that says what it is.
func TestTrapStopWhileTargetIsMute(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 2, 2)
	reader := s.consume(s.west, n, 1)
	front := *s
	var cut *rig.Cut
	front.west, cut = s.behind(s.west)
	config := front.config(s.mapping("mute", s.east, s.west, "orders"))
	config["shutdown_timeout"] = "3s"
	d := s.instance("a", config)
	s.start(d)
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 50, Rate: 500}, reader)
	s.comes(reader, 500, "the first copies")
	cut.Stall()
	s.must(rig.Poll(s.within(20*time.Second, "sends without receipts"), 20*time.Millisecond, func() error {
		if m, err := d.Metrics(s.ctx); err != nil || m.Sum("unreceipted_sends") == 0 {
			return errIdle
		}
		return nil
	}))
	if status, body, err := d.Get(s.ctx, "/healthz"); err != nil || status != 200 {
		s.Errorf("/healthz with a mute target: %d %s, %v", status, body, err)
	}
	asked := time.Now()
	code, err := d.Terminate(40 * time.Second)
	s.must(err)
	took := time.Since(asked)
	t.Logf("ended with %d after %v", code, took)
	if code != 5 {
		s.Errorf("code %d, want 5: not fully drained", code)
	}
	if took > 20*time.Second {
		s.Errorf("took %v with a shutdown_timeout of 3s", took)
	}
	cut.Sever(true)
	cut.Heal()
	s.start(d)
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	s.verdict(reader)
}
