package status

// State is what a lane, or a mapping as a whole, is doing.
type State string

// The states, which are also the values of the label state of geobridge_lanes.
const (
	// Standby: another instance owns the source segment.
	Standby State = "standby"
	// Starting: subscribing, or claiming producers.
	Starting State = "starting"
	// Recovering: reading the target's log for what is there already.
	Recovering State = "recovering"
	// Running: copying, or idle with nothing to copy.
	Running State = "running"
	// Waiting: held up by something that will be tried again: a target, a parent segment, memory.
	Waiting State = "waiting"
	// Paused: by an operator.
	Paused State = "paused"
	// Stalled: no progress with work waiting.
	Stalled State = "stalled"
	// Stopped: by policy; an operator has to decide.
	Stopped State = "stopped"
	// Failed: cannot go on, and retrying has not helped so far.
	Failed State = "failed"
)

// States lists all states, from the best to the worst.
func States() []State {
	return []State{Running, Standby, Starting, Recovering, Waiting, Paused, Stalled, Stopped, Failed}
}

// worse reports whether a is further from running than b.
func worse(a, b State) bool { return rank(a) > rank(b) }

func rank(s State) int {
	for i, t := range States() {
		if s == t {
			return i
		}
	}
	return len(States())
}

// ClusterState is how a cluster is reached.
type ClusterState string

// The states of a cluster.
const (
	// Connecting: not connected and authenticated to since the start, or not any more; it is being tried.
	Connecting ClusterState = "connecting"
	// Connected: the last thing asked of it was answered.
	Connected ClusterState = "connected"
)
