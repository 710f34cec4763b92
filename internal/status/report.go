package status

import "time"

// Schema is the version of the JSON form of [Report]; it changes when a field changes its meaning or goes.
const Schema = 1

// Report is everything at one moment: the body of /api/v1/status.
type Report struct {
	Schema   int       `json:"schema"`
	Version  string    `json:"version"`
	Group    string    `json:"group"`
	Instance string    `json:"instance"`
	Pair     string    `json:"pair"`
	Started  time.Time `json:"started"`
	// ConfigHash is the hash of the running configuration, the same text for equal ones.
	ConfigHash string    `json:"config_hash"`
	Ready      bool      `json:"ready"`
	Healthy    bool      `json:"healthy"`
	Stopping   bool      `json:"stopping"`
	Clusters   []Cluster `json:"clusters"`
	// Mappings stand in the order of the configuration.
	Mappings []Mapping `json:"mappings"`
}

// Cluster is one end of the pair.
type Cluster struct {
	// Name is the key in the configuration, ClusterName Pulsar's own.
	Name        string       `json:"name"`
	ClusterName string       `json:"cluster_name"`
	State       ClusterState `json:"state"`
	Reason      string       `json:"reason,omitempty"`
	// Since is when the state was entered; a new reason alone does not change it.
	Since time.Time `json:"since"`
	// EverConnected latches the first time the cluster was connected and authenticated to.
	EverConnected bool `json:"ever_connected"`
}

// Mapping is one mapping with its lanes.
type Mapping struct {
	Name         string   `json:"name"`
	Subscription string   `json:"subscription"`
	From         Endpoint `json:"from"`
	To           Endpoint `json:"to"`
	// State is the mapping's own where one was reported (its topic is missing, say), else the worst of its lanes.
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// Notes are the latest losses that were noticed, the oldest first.
	Notes []Note `json:"notes,omitempty"`
	// Lanes stand in the order of their ids.
	Lanes []Lane `json:"lanes"`
}

// Note is something that happened and is over.
type Note struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Endpoint is a topic in a cluster.
type Endpoint struct {
	Cluster string `json:"cluster"`
	Topic   string `json:"topic"`
}

// Lane copies one source segment.
type Lane struct {
	// ID is unique in its mapping.
	ID     string    `json:"id"`
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	LaneFacts
}

// LaneFacts is what a lane tells of itself beside its state. All of it may be left out.
type LaneFacts struct {
	// Segment is the source segment's id.
	Segment uint64 `json:"segment"`
	// Range is its hash range, like 0000-7fff.
	Range string `json:"range,omitempty"`
	// Frontier is the last source entry that is complete, as ledger:entry.
	Frontier string `json:"frontier,omitempty"`
	// InflightEntries and InflightBytes have been read and are not complete.
	InflightEntries int   `json:"inflight_entries"`
	InflightBytes   int64 `json:"inflight_bytes"`
	// Targets lists the target segments written to.
	Targets []string `json:"targets,omitempty"`
}
