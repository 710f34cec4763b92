package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newBoard() (*Board, *clock) {
	c := &clock{time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	b := NewBoard(Options{
		Version: "v1", ConfigHash: "00000000000affff", Group: "g", Instance: "i", Pair: "east,west",
		Clusters: []Cluster{{Name: "east", ClusterName: "us-east"}, {Name: "west", ClusterName: "us-west"}},
		Mappings: []Mapping{{Name: "orders", From: Endpoint{"east", "topic://a/b/c"}, To: Endpoint{"west", "topic://a/b/c"}}},
		Now:      c.now,
	})
	return b, c
}

func TestReadiness(t *testing.T) {
	b, _ := newBoard()
	steps := []struct {
		name  string
		do    func()
		ok    bool
		lines []string
	}{
		{"at first", func() {}, false, []string{"cluster east: connecting", "cluster west: connecting", "mapping orders: starting"}},
		{"a refused credential", func() {
			b.SetCluster("east", Connected, "")
			b.SetCluster("west", Connecting, "authentication refused")
		}, false, []string{"cluster west: connecting: authentication refused", "mapping orders: starting"}},
		{"both were connected", func() {
			b.SetCluster("west", Connected, "")
			b.SetCluster("east", Connecting, "connection refused")
		}, false, []string{"cluster east: connecting: connection refused", "mapping orders: starting"}},
		{"the mapping shows its reason", func() {
			b.SetMapping("orders", Waiting, "source topic not found")
		}, true, []string{"cluster east: connecting: connection refused", "mapping orders: waiting: source topic not found"}},
		{"latched", func() {
			b.SetMapping("orders", Starting, "")
		}, true, []string{"cluster east: connecting: connection refused", "mapping orders: starting"}},
		{"all runs", func() {
			b.SetCluster("east", Connected, "")
			b.ClearMapping("orders")
			b.SetLane("orders", "1", Running, "", LaneFacts{Segment: 1})
		}, true, nil},
		{"one lane waits", func() {
			b.SetLane("orders", "2", Waiting, "target segment sealed", LaneFacts{Segment: 2})
			b.SetLane("orders", "3", Standby, "", LaneFacts{Segment: 3})
		}, true, []string{"mapping orders: waiting: target segment sealed", "mapping orders lane 3: standby"}},
		{"a name that went with a reload", func() {
			b.SetLane("gone", "1", Failed, "x", LaneFacts{})
			b.SetCluster("gone", Connecting, "x")
		}, true, []string{"mapping orders: waiting: target segment sealed", "mapping orders lane 3: standby"}},
		{"stopping", func() {
			b.SetStopping()
			b.RemoveLane("orders", "2")
			b.RemoveLane("orders", "3")
		}, false, []string{"stopping"}},
	}
	for _, s := range steps {
		s.do()
		if diff := cmp.Diff(Verdict{s.ok, s.lines}, b.Readiness()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
	}
}

func TestStandbyIsReady(t *testing.T) {
	b, _ := newBoard()
	b.SetCluster("east", Connected, "")
	b.SetCluster("west", Connected, "")
	b.ClearMapping("orders")
	if b.Readiness().OK {
		t.Error("ready with no lane yet")
	}
	b.SetLane("orders", "1", Standby, "", LaneFacts{})
	if !b.Readiness().OK {
		t.Error("an instance whose lanes are all owned by others is not ready")
	}
}

func TestHealth(t *testing.T) {
	b, c := newBoard()
	b.Tick("supervisor")
	b.Tick("lane a")
	c.t = c.t.Add(TickLimit)
	if v := b.Health(); !v.OK {
		t.Errorf("unhealthy at the limit: %v", v)
	}
	b.Tick("supervisor")
	c.t = c.t.Add(time.Second)
	if diff := cmp.Diff(Verdict{false, []string{"lane a has not ticked for 1m1s"}}, b.Health()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b.Report().Healthy {
		t.Error("the report says healthy")
	}
	b.Untick("lane a")
	if v := b.Health(); !v.OK {
		t.Errorf("unhealthy without the silent part: %v", v)
	}
}

func TestSinceMovesWithTheStateOnly(t *testing.T) {
	b, c := newBoard()
	start := c.t
	c.t = c.t.Add(time.Second)
	b.SetMapping("orders", Starting, "looking up")
	if got := b.Report().Mappings[0]; !got.Since.Equal(start) || got.Reason != "looking up" {
		t.Errorf("a new reason moved since: %+v", got)
	}
	b.SetMapping("orders", Waiting, "x")
	if got := b.Report().Mappings[0].Since; !got.Equal(c.t) {
		t.Errorf("a new state did not move since: %v", got)
	}
}

// The JSON is what scripts read: this pins its keys.
func TestReportJSON(t *testing.T) {
	b, _ := newBoard()
	b.SetCluster("east", Connected, "")
	b.ClearMapping("orders")
	b.SetLane("orders", "n1", Running, "", LaneFacts{Segment: 1, Range: "0000-7fff", Frontier: "3:4", InflightBytes: 5, Targets: []string{"t"}})
	got, err := json.Marshal(b.Report())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"schema":1,"version":"v1","group":"g","instance":"i","pair":"east,west","started":"2030-01-02T03:04:05Z",` +
		`"config_hash":"00000000000affff","ready":false,"healthy":true,"stopping":false,"clusters":[` +
		`{"name":"east","cluster_name":"us-east","state":"connected","since":"2030-01-02T03:04:05Z","ever_connected":true},` +
		`{"name":"west","cluster_name":"us-west","state":"connecting","since":"2030-01-02T03:04:05Z","ever_connected":false}],"mappings":[` +
		`{"name":"orders","subscription":"","from":{"cluster":"east","topic":"topic://a/b/c"},"to":{"cluster":"west","topic":"topic://a/b/c"},` +
		`"state":"running","since":"2030-01-02T03:04:05Z","lanes":[{"id":"n1","state":"running","since":"2030-01-02T03:04:05Z",` +
		`"segment":1,"range":"0000-7fff","frontier":"3:4","inflight_entries":0,"inflight_bytes":5,"targets":["t"]}]}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCollector(t *testing.T) {
	b, _ := newBoard()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(b.Collector("abc"))
	b.SetCluster("west", Connected, "")
	b.SetLane("orders", "1", Waiting, "x", LaneFacts{})
	b.SetLane("orders", "2", Waiting, "x", LaneFacts{})
	const want = `
# HELP geobridge_config_hash Hash of the running configuration, as a number of 48 bits.
# TYPE geobridge_config_hash gauge
geobridge_config_hash 10
# HELP geobridge_connected 1 if the cluster is connected and authenticated to.
# TYPE geobridge_connected gauge
geobridge_connected{cluster="east"} 0
geobridge_connected{cluster="west"} 1
# HELP geobridge_lanes Lanes by what they are doing.
# TYPE geobridge_lanes gauge
geobridge_lanes{mapping="orders",state="failed"} 0
geobridge_lanes{mapping="orders",state="paused"} 0
geobridge_lanes{mapping="orders",state="recovering"} 0
geobridge_lanes{mapping="orders",state="running"} 0
geobridge_lanes{mapping="orders",state="standby"} 0
geobridge_lanes{mapping="orders",state="starting"} 0
geobridge_lanes{mapping="orders",state="stalled"} 0
geobridge_lanes{mapping="orders",state="stopped"} 0
geobridge_lanes{mapping="orders",state="waiting"} 2
# HELP geobridge_mapping_info 1, with the clusters of the mapping.
# TYPE geobridge_mapping_info gauge
geobridge_mapping_info{from_cluster="east",mapping="orders",to_cluster="west"} 1
`
	err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"geobridge_config_hash", "geobridge_connected", "geobridge_lanes", "geobridge_mapping_info")
	if err != nil {
		t.Error(err)
	}
}
