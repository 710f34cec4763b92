//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// Two brokers at the target: look-ups are redirected, segments move with an
// unload, and a broker dies in the middle of a copy.
func TestScenario09TwoBrokers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	east, _, err := shared.pair(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The survivor takes over when the dead broker's session ends: 6 s instead
	// of 30 keeps the scenario short.
	twin, err := rig.NewTwin(shared.box, shared.spawner, "twin", "metadataStoreSessionTimeoutMillis=6000",
		// A namespace's unload may leave its topics waiting for their policies until
		// their loading times out, by default after 60 s (observed, 5.0.1).
		"topicLoadTimeoutSeconds=15")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(twin.Stop)
	if err := twin.Start(ctx); err != nil {
		t.Fatal(err)
	}
	target := site{name: twin.Name, service: twin.ServiceURL(), adminAt: twin.AdminURL(0), admin: restadmin.New(twin.AdminURL(0))}
	s := newSceneAt(t, ctx, standaloneSite(east), target)
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 4, 4)
	// Before the unloads: where a sealed segment without an entry was loaded anew, a broker
	// refuses the client's subscription, and never answers the next one (observed, 5.0.1).
	reader := s.consume(s.west, n, 3)
	s.bothOwn(n)
	d := s.run(s.mapping("spread", s.east, s.west, "orders"))
	const rate = 2_000
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 200, Rate: rate, Compression: "LZ4"}, reader)
	copying := func(what string) {
		s.comes(reader, reader.Distinct()+2*rate, "copying "+what)
	}
	for range byMode(s, 1, 4) {
		copying("before the unload")
		s.must(s.west.admin.Unload(s.ctx, s.namespace))
		copying("after the unload")
		s.must(s.west.admin.Unload(s.ctx, s.namespace))
		copying("after the second unload")
		twin.Broker(1).Kill()
		copying("after the kill")
		s.must(twin.StartBroker(s.ctx, 1))
		s.must(s.west.admin.Unload(s.ctx, s.namespace)) // spread again
		copying("after the broker is back")
	}
	s.usesBoth(d, twin)
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	s.verdict(reader)
}

// bothOwn waits until each broker owns an active segment. Where a segment goes
// is a matter of hashes and loads: an unload deals anew.
func (s *scene) bothOwn(n restadmin.Name) {
	s.Helper()
	s.must(rig.Poll(s.within(3*time.Minute, "spreading the segments"), time.Second, func() error {
		var stats struct {
			Layout struct {
				Segments map[string]struct{ State, OwnerBroker string }
			}
		}
		if err := s.west.admin.Do(s.ctx, "GET", "scalable/"+string(n)+"/stats", nil, &stats); err != nil {
			return err
		}
		owners := map[string]int{}
		for _, segment := range stats.Layout.Segments {
			if segment.State == "ACTIVE" {
				owners[segment.OwnerBroker]++
			}
		}
		err := fmt.Errorf("owners: %v", owners)
		switch {
		case owners[""] > 0: // not loaded yet
			return err
		case len(owners) == 2:
			s.Log(err)
			return nil
		}
		return errors.Join(err, s.west.admin.Unload(s.ctx, s.namespace))
	}))
}

// usesBoth fails the scenario unless the log shows connections to either
// broker: whoever was asked, the look-ups led to the owners.
func (s *scene) usesBoth(d *daemon.Daemon, twin *rig.Twin) {
	s.Helper()
	if d.StandIn() {
		return
	}
	for n := range 2 {
		address := strings.TrimPrefix(twin.BrokerURL(n), "pulsar://")
		used := false
		for line := range strings.Lines(d.Log()) {
			used = used || strings.Contains(line, "connected") && strings.Contains(line, address) && strings.Contains(line, "producer")
		}
		if !used {
			s.Errorf("the log shows no producer connection to broker %d (%s)", n, address)
		}
	}
}
