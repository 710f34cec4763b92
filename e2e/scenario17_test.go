//go:build e2e

package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// Two deployments of one group and one mapping name whose targets are different
// topics: the second is refused, and both are named.
func TestScenario17OtherTopic(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	n := s.create(s.east, "orders", 1, 1)
	s.create(s.west, "orders", 1, 1)
	other := s.create(s.west, "elsewhere", 1, 1)
	first := s.run(s.mapping("same", s.east, s.west, "orders"))
	s.running(1, first) // it has the names: readiness comes earlier
	reader := s.consume(s.west, n, 1)
	mapping := map[string]any{"name": "same", "from": map[string]any{"cluster": s.east.name, "topic": n.Topic()},
		"to": map[string]any{"cluster": s.west.name, "topic": other.Topic()}}
	second := s.instance("b", s.config(mapping))
	s.launch(second)
	s.reason(second, "same", strings.ToLower(string(n))+".*"+strings.ToLower(string(other)))
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 5, Count: 500, Rate: 1_000}, reader)
	s.verdict(reader)
	s.terminate(second)
	s.terminate(first)
}

// The same with targets that only look the same: another cluster of the same name
// with a topic of the same name. The two meet at the source alone; whichever came
// first goes on, also after both were away and the other starts first.
func TestScenario17OtherCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	t.Cleanup(cancel)
	east, west, err := shared.pair(ctx)
	if err != nil {
		t.Fatal(err)
	}
	double, err := rig.NewStandalone(shared.box, shared.spawner, "west-double", "clusterName="+west.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(double.Kill)
	if err := double.Start(ctx); err != nil {
		t.Fatal(err)
	}
	s := newSceneAt(t, ctx, standaloneSite(east), standaloneSite(west))
	n := s.create(s.east, "orders", 1, 1)
	s.create(s.west, "orders", 1, 1)
	there := *s
	there.west = standaloneSite(double)
	there.west.name = west.Name
	s.must(there.west.admin.CreateNamespace(ctx, s.namespace, west.Name, 0))
	s.must(there.west.admin.CreateTopic(ctx, n, 1, 1))
	mapping := s.mapping("same", s.east, s.west, "orders")
	first, second := s.instance("a", s.config(mapping)), s.instance("b", there.config(mapping))
	s.start(first)
	s.running(1, first)
	reader, stolen := s.consume(s.west, n, 1), there.consume(there.west, n, 1)
	publish := func(prefix string) {
		s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: prefix, KeyPrefix: prefix, Keys: 5, Count: 500, Rate: 1_000}, reader)
	}
	s.launch(second)
	s.reason(second, "same", "missing on")
	publish("both")
	s.verdict(reader)
	s.terminate(first)
	s.terminate(second)
	s.launch(second)
	s.reason(second, "same", "missing on")
	publish("away")
	s.start(first)
	s.verdict(reader)
	if got := stolen.Distinct(); got > 0 {
		s.Errorf("the second deployment copied %d messages", got)
	}
	s.terminate(second)
	s.terminate(first)
}
