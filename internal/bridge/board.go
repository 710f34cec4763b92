package bridge

import (
	"maps"
	"slices"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/status"
)

// NewBoard makes the status board of everything that a process of that version
// serves: a pair of clusters and the pair's mappings.
func NewBoard(cfg *config.Config, pair config.Pair, version string) (*status.Board, error) {
	hash, err := cfg.Hash()
	if err != nil {
		return nil, err
	}
	o := status.Options{Version: version, ConfigHash: hash, Group: cfg.Group, Instance: cfg.Instance, Pair: pair.String()}
	for _, key := range slices.Sorted(maps.Keys(cfg.Clusters)) {
		if key == pair.A || key == pair.B {
			o.Clusters = append(o.Clusters, status.Cluster{Name: key, ClusterName: cfg.Clusters[key].ClusterName})
		}
	}
	for _, m := range cfg.MappingsOf(pair) {
		o.Mappings = append(o.Mappings, status.Mapping{
			Name: m.Name, Subscription: m.Subscription, From: status.Endpoint(m.From), To: status.Endpoint(m.To),
		})
	}
	return status.NewBoard(o), nil
}
