package demo

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/bridge"
	"github.com/geobridge/geobridge/internal/status"
	"github.com/geobridge/geobridge/replicate"
)

// configuration is what an operator would write.
func configuration(s *stage) string {
	return fmt.Sprintf(`# A configuration for geobridge run, as geobridge demo uses it.
group: demo
instance: demo-1
clusters:
  east: {service_url: "pulsar://%s", admin_url: "http://%s"}
  west: {service_url: "pulsar://%s", admin_url: "http://%s"}
mappings:
  - name: orders
    from: {cluster: east, topic: %q}
    to: {cluster: west}
`, s.east.broker, s.east.admin, s.west.broker, s.west.admin, topic)
}

// crossing is the bridge, as the daemon runs it, and what it tells of itself.
type crossing struct {
	*bridge.Bridge
	board    *status.Board
	registry *prometheus.Registry
	mapping  config.Mapping
	cfg      *config.Config
	source   *side

	mu    sync.Mutex
	lanes map[string]uint64 // by name
}

func newCrossing(s *stage, version string, log *slog.Logger) (*crossing, error) {
	cfg, errs := config.Parse("demo.yaml", []byte(configuration(s)), func(string) (string, bool) { return "", false })
	if len(errs) > 0 {
		return nil, errs
	}
	pair, err := cfg.SelectPair("")
	if err != nil {
		return nil, err
	}
	board, err := bridge.NewBoard(cfg, pair, version)
	if err != nil {
		return nil, err
	}
	c := &crossing{board: board, registry: prometheus.NewRegistry(), mapping: cfg.Mappings[0], cfg: cfg, source: s.east, lanes: map[string]uint64{}}
	c.Bridge, err = bridge.New(cfg, bridge.Options{Pair: pair, Board: board, Registerer: c.registry, Logger: log, Dial: s.dial})
	return c, err
}

// lane finds the source segment of a lane by its name, which is all that an entry
// says of it.
func (c *crossing) lane(name string) (segment uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.lanes[name]; ok {
		return id, true
	}
	l, err := c.source.cluster.Layout(topic)
	if err != nil {
		return 0, false
	}
	for _, s := range l.Segments {
		id := replicate.LaneID{
			Subscription: c.mapping.Subscription, SourceCluster: "east", SourceTopic: topic,
			Segment: s.ID, CreatedAtMs: s.Created.UnixMilli(), TargetCluster: "west", TargetTopic: topic,
		}
		c.lanes[id.Name()] = s.ID
	}
	segment, ok = c.lanes[name]
	return segment, ok
}

// figures are the bridge's own metrics.
type figures struct {
	copied, whole, split, parked int
	rerouted                     int
	lag                          float64 // seconds
}

func (c *crossing) figures() (f figures) {
	families, err := c.registry.Gather()
	if err != nil {
		return f
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			n := int(m.GetCounter().GetValue())
			switch family.GetName() {
			case "geobridge_messages_total":
				f.copied += n
			case "geobridge_reroutes_total":
				f.rerouted += n
			case "geobridge_lag_seconds":
				f.lag = m.GetGauge().GetValue()
			case "geobridge_entries_total":
				for _, l := range m.GetLabel() {
					switch {
					case l.GetName() != "outcome":
					case l.GetValue() == "whole":
						f.whole += n
					case l.GetValue() == "split":
						f.split += n
					case l.GetValue() == "parked":
						f.parked += n
					}
				}
			}
		}
	}
	return f
}

// laneView is one lane as the status board shows it.
type laneView struct {
	segment       uint64
	state, reason string
}

func (c *crossing) laneViews() (out []laneView) {
	for _, l := range c.board.Report().Mappings[0].Lanes {
		out = append(out, laneView{l.Segment, string(l.State), l.Reason})
	}
	return out
}
