package daemon

import (
	"fmt"

	"github.com/geobridge/geobridge/e2e/rig"
)

// NewStandIn lays out the naive Java bridge in a daemon's place, for the first
// mapping of config. It has no endpoints: it counts as ready at once, and its
// metrics are empty. What a scenario's checks make of it shows what they are
// worth.
func NewStandIn(spawn *rig.Spawner, box rig.Toolbox, classes, name string, config Config) (*Daemon, error) {
	clusters, _ := config["clusters"].(map[string]any)
	mappings, _ := config["mappings"].([]map[string]any)
	if len(mappings) != 1 {
		return nil, fmt.Errorf("the stand-in takes one mapping, not %d", len(mappings))
	}
	end := func(side string) (url, topic string) {
		at, _ := mappings[0][side].(map[string]any)
		cluster, _ := clusters[fmt.Sprint(at["cluster"])].(map[string]any)
		return fmt.Sprint(cluster["service_url"]), fmt.Sprint(at["topic"])
	}
	fromURL, fromTopic := end("from")
	toURL, toTopic := end("to")
	to, _ := mappings[0]["to"].(map[string]any)
	subscription := fmt.Sprintf("geobridge.geobridge.%v.%v", to["cluster"], mappings[0]["name"])
	command := BridgeCommand(box, classes, name, fromURL, fromTopic, toURL, toTopic, subscription)
	return &Daemon{Name: name, spawn: spawn, standIn: &command}, nil
}

// BridgeCommand is the command line of the naive Java bridge.
func BridgeCommand(box rig.Toolbox, classes, name, fromURL, fromTopic, toURL, toTopic, subscription string) rig.Command {
	return box.Command(rig.JVM{Name: name, Heap: 512, Main: "io.geobridge.witness.Bridge", Extra: []string{classes},
		Args: []string{fromURL, fromTopic, toURL, toTopic, subscription}})
}
