package layoutcache

import (
	"errors"
	"fmt"
	"maps"

	"github.com/geobridge/geobridge/reroute"
)

// ErrTopicNotFound is what a Watcher puts in the chain of an error that means:
// asked, and there is no such scalable topic. Any other error leaves open
// whether there is one.
var ErrTopicNotFound = errors.New("scalable topic not found")

// ErrStaleLayout is in the chain of Snapshot.Err after an update was ignored
// because its epoch is older than the one known.
var ErrStaleLayout = errors.New("older layout ignored")

// State is what is known about the topic's existence.
type State int

const (
	Unknown State = iota // nobody answered yet
	Live                 // a layout is known
	Missing              // not found, or deleted
)

// String is the state in lower case.
func (s State) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Live:
		return "live"
	case Missing:
		return "missing"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Update is one message of a layout watch session. Topic is the name as the
// broker resolved it. Brokers are the service URLs of active segments by
// segment id, a hint only. ControllerURL is "" while no controller is elected.
// With Err set the rest means nothing.
type Update struct {
	Topic         string
	Epoch         uint64
	Segments      []reroute.Segment
	Brokers       map[uint64]string
	ControllerURL string
	Err           error
}

// Snapshot is all that is known of a topic at one moment. It is immutable, its
// map too.
type Snapshot struct {
	Topic string
	State State
	// Layout is nil unless State is Live. Two snapshots of equal epoch and
	// segments share one Layout, so comparing pointers tells whether it changed.
	Layout *reroute.Layout
	// Incarnation counts the topics of this name that were seen, from 1: a
	// deleted and recreated topic is another one and starts again at epoch 0.
	// 0 before the first layout. It means nothing outside this process.
	Incarnation   uint64
	Brokers       map[uint64]string
	ControllerURL string
	// Err is why the snapshot may be out of date, or why the topic is missing.
	// nil means that a session delivered the layout and did not end since.
	Err error

	last *reroute.Layout // of a missing topic: what it was, to know it again
}

// failed keeps what is known, with the reason why it may be out of date.
func (s *Snapshot) failed(err error) *Snapshot {
	next := *s
	next.Err = err
	return &next
}

func (s *Snapshot) missing(err error) *Snapshot {
	return &Snapshot{Topic: s.Topic, State: Missing, Incarnation: s.Incarnation, Err: err, last: s.last}
}

func (s *Snapshot) equal(o *Snapshot) bool {
	return s.Topic == o.Topic && s.State == o.State && s.Layout == o.Layout && s.last == o.last &&
		s.Incarnation == o.Incarnation && s.ControllerURL == o.ControllerURL &&
		maps.Equal(s.Brokers, o.Brokers) && sameError(s.Err, o.Err)
}

// sameError holds errors equal by what they say: each failed attempt makes a
// new value, and only another reason is news.
func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}
