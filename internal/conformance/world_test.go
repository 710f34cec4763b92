package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/restadmin"
)

// World is one cluster: where it is, and what can be done to it neither over the wire nor
// over REST.
type World interface {
	Cluster() string
	Service(broker int) string // host:port
	Admin(broker int) string   // http://host:port
	Brokers() int

	// Patience is how long something that must happen may take: a guard, no measure.
	Patience() time.Duration
	// KeepAlive is how often a broker sends PINGs.
	KeepAlive() time.Duration
	// Grace is how long a STREAM consumer stays registered without a connection.
	Grace() time.Duration
	// Quiet returns when what a broker had to send to w by now should have arrived.
	Quiet(w *Wire)
	// ReadOn returns when a broker should have read on for the consumers of w, to the end: who
	// takes over from one before that starves.
	ReadOn(w *Wire)

	// Kill is kill -9; Restart waits until the broker is healthy again.
	Kill(t *T, broker int)
	Restart(t *T, broker int)
	// Pause is SIGSTOP. Expire returns when the session of a dead or paused broker has ended, and
	// the other one serves a topic of its.
	Pause(t *T, broker int)
	Expire(t *T, broker int, topic string)
	Resume(t *T, broker int)
	// Move gives the bundle of a topic to a broker. Its namespace must have one bundle.
	Move(t *T, topic string, to int)

	// Prune returns when the broker's timer, of 60 s, should have gone round: all sealed segments
	// of the topics go that have to go. The broker may be late.
	Prune(t *T, topics ...string)
	// CheckQuotas returns when the broker's timer, of 60 s, has gone round that looks at quotas.
	CheckQuotas(t *T)
	// CheckCredentials has the broker look now for credentials that have expired, where it
	// does not by itself, soon after.
	CheckCredentials()
	// DeleteIdle returns when idle regular topics should go. The broker may be late.
	DeleteIdle(t *T)
}

// Need says what cluster a scenario runs on.
type Need int

// What a scenario may need.
const (
	OneBroker  Need = iota
	TwoBrokers      // in one cluster
	Tokens          // one broker that asks for a token: T.Token makes them
)

// Scenario is one row of the suite.
type Scenario struct {
	Name  string // as Go test names are
	Facts []string
	Needs Need
	Alone bool // nothing else runs on the cluster meanwhile
	Run   func(*T)
}

// T is the stage of one scenario.
type T struct {
	*testing.T
	World
	Namespace string            // tenant/name, the scenario's own
	Rig       *restadmin.Client // for setting up; T.REST is for looking at answers
	Secret    []byte            // of Tokens
	turns     chan struct{}     // nil: any number of scenarios works at a time
	held      int               // Holds without a Release
	queued    time.Duration     // spent in begin
}

// begin waits for the scenario's turn, and end gives it up, for good or while it waits. A
// real broker calls itself over REST, and too many calls at a time keep it from answering.
func (t *T) begin() {
	if t.turns != nil {
		since := time.Now()
		t.turns <- struct{}{}
		t.queued += time.Since(since)
	}
}

func (t *T) end() {
	if t.turns != nil {
		<-t.turns
	}
}

// Hold keeps the scenario's turn until Release, or the end, whatever it waits for: between steps that a
// broker gives only so much time to, others must not come first, who may take more than a minute.
func (t *T) Hold() { t.held++ }

// Release ends a Hold.
func (t *T) Release() { t.held-- }

// Waiting lets other scenarios work while f waits.
func (t *T) Waiting(f func()) {
	if t.held == 0 {
		t.end()
		defer t.begin()
	}
	f()
}

func newT(t *testing.T, w World, name string, secret []byte, turns chan struct{}) *T {
	t.Helper()
	s := &T{T: t, World: w, Namespace: "public/c-" + strings.ToLower(name), Secret: secret, turns: turns}
	s.begin()
	t.Cleanup(s.end)
	var urls []string
	for n := range w.Brokers() {
		urls = append(urls, w.Admin(n))
	}
	s.Rig = restadmin.New(urls...)
	if secret != nil {
		s.Rig.Token = s.Token("admin")
	}
	s.CreateNamespace(s.Namespace)
	return s
}

// CreateNamespace makes one more namespace.
func (t *T) CreateNamespace(namespace string) {
	t.Helper()
	// One bundle moves as a whole. Of one broker's namespace, not all is in the bundle of the
	// namespace's policies, which the broker itself looks up again whenever it is unloaded.
	bundles := map[int]int{1: 16, 2: 1}[t.Brokers()]
	t.Must(t.Rig.CreateNamespace(t.Context(), namespace, t.Cluster(), bundles))
}

// Must ends the scenario with an error.
func (t *T) Must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Name is the topic of that name in the scenario's namespace, for Rig.
func (t *T) Name(topic string) restadmin.Name { return restadmin.Name(t.Namespace + "/" + topic) }

// Scalable makes a scalable topic that does not scale by itself, and names it.
func (t *T) Scalable(topic string, segments int) restadmin.Name {
	t.Helper()
	n := t.Name(topic)
	t.Must(t.Rig.CreateTopic(t.Context(), n, segments, 0))
	return n
}

// Layout is the topic's present one, over REST.
func (t *T) Layout(n restadmin.Name) restadmin.Layout {
	t.Helper()
	l, err := t.Rig.Layout(t.Context(), n)
	t.Must(err)
	return l
}

// Segment is the name of a segment's own topic.
func (t *T) Segment(n restadmin.Name, id int64) string {
	t.Helper()
	s, ok := t.Layout(n).Segments[fmt.Sprint(id)]
	if !ok {
		t.Fatalf("%s has no segment %d", n, id)
	}
	return n.SegmentTopic(s)
}

// Eventually polls until check is content, for what no event announces. That check had to
// wait for the scenario's turn is no reason to give up.
func (t *T) Eventually(what string, check func() error) {
	t.Helper()
	since, queued := time.Now(), t.queued
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(since)-(t.queued-queued) > t.Patience() {
			t.Fatalf("%s: %v", what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Pass lets time pass for the broker's own timers, of which the scenario knows when they go off.
func (t *T) Pass(d time.Duration) { t.Waiting(func() { <-time.After(d) }) }

// REST calls a path behind /admin/v2/ of a broker, and returns whatever the answer is. A redirect is followed.
func (t *T) REST(broker int, method, path string, body any) Answer {
	t.Helper()
	return t.rest(broker, method, path, t.Rig.Token, body)
}

// Unload makes the brokers give up the scenario's namespace.
func (t *T) Unload() {
	t.Helper()
	t.Must(t.Rig.Unload(t.Context(), t.Namespace))
}

// Gone tells a missing topic's answer from others.
func (a Answer) Gone() bool { return a.Code == http.StatusNotFound }
