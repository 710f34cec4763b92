//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// site is one cluster as a scene sees it.
type site struct {
	name    string
	service string
	adminAt string
	admin   *restadmin.Client
}

func standaloneSite(c *rig.Standalone) site {
	return site{name: c.Name, service: c.ServiceURL(), adminAt: c.AdminURL(), admin: restadmin.New(c.AdminURL())}
}

// scene is one scenario's stage: a namespace of its own on two clusters.
type scene struct {
	*testing.T
	ctx       context.Context
	suite     *suite
	namespace string
	east      site
	west      site
	wit       *witness.Witness
	routes    []route
	readers   map[*witness.Consumption]end
	problems  *problems
}

// end is a topic at a cluster; route is what a mapping does.
type end struct {
	at   site
	name restadmin.Name
}

type route struct {
	mapping  string
	from, to end
}

// newScene starts a scenario on the standing pair. limit bounds all of it.
func newScene(t *testing.T, limit time.Duration) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the scenario's limit of %v", limit))
	t.Cleanup(cancel)
	east, west, err := shared.pair(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return newSceneAt(t, ctx, standaloneSite(east), standaloneSite(west))
}

// newSceneAt starts a scenario on two given clusters.
func newSceneAt(t *testing.T, ctx context.Context, east, west site) *scene {
	t.Helper()
	s := &scene{T: t, ctx: ctx, suite: shared, east: east, west: west, problems: &problems{}}
	label, _, _ := strings.Cut(strings.TrimPrefix(t.Name(), "Test"), "/")
	s.namespace = fmt.Sprintf("public/%s-%d", strings.ToLower(label), shared.serial())
	var err error
	if s.wit, err = shared.witness(); err != nil {
		s.Fatal(err)
	}
	s.namespaces()
	t.Cleanup(s.showLogs)
	return s
}

// namespaces creates the scene's namespace on both clusters.
func (s *scene) namespaces() {
	s.Helper()
	for _, at := range []site{s.east, s.west} {
		s.must(at.admin.CreateNamespace(s.ctx, s.namespace, at.name, 0))
	}
}

// must ends the scenario on an error.
func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// within is the scenario's context with a shorter deadline for one wait.
func (s *scene) within(d time.Duration, what string) context.Context {
	ctx, cancel := context.WithTimeoutCause(s.ctx, d, fmt.Errorf("%s took more than %v", what, d))
	s.Cleanup(cancel)
	return ctx
}

// name is a topic of the scene's namespace.
func (s *scene) name(topic string) restadmin.Name { return restadmin.Name(s.namespace + "/" + topic) }

// create creates topic at a cluster, see restadmin.CreateTopic.
func (s *scene) create(at site, topic string, segments, buckets int) restadmin.Name {
	s.Helper()
	n := s.name(topic)
	s.must(at.admin.CreateTopic(s.ctx, n, segments, buckets))
	return n
}

// mapping is one mapping of a configuration from topic to the same name.
func (s *scene) mapping(name string, from, to site, topic string, extra ...map[string]any) map[string]any {
	m := map[string]any{"name": name, "from": map[string]any{"cluster": from.name, "topic": s.name(topic).Topic()},
		"to": map[string]any{"cluster": to.name, "topic": s.name(topic).Topic()}}
	s.routes = append(s.routes, route{mapping: name, from: end{from, s.name(topic)}, to: end{to, s.name(topic)}})
	for _, more := range extra {
		for key, value := range more {
			m[key] = value
		}
	}
	return m
}

// config is a configuration of both clusters with the given mappings.
func (s *scene) config(mappings ...map[string]any) daemon.Config {
	level := os.Getenv("GEOBRIDGE_E2E_LOG")
	if level == "" {
		level = "info"
	}
	return daemon.Config{
		"clusters": map[string]any{
			s.east.name: daemon.Cluster(s.east.service, s.east.adminAt),
			s.west.name: daemon.Cluster(s.west.service, s.west.adminAt),
		},
		"mappings": mappings,
		"log":      map[string]any{"level": level},
	}
}

// subscription is the default name of a mapping's subscription.
func subscription(mapping string, to site) string {
	return "geobridge.geobridge." + to.name + "." + mapping
}

// instance lays out a daemon of the scene; nothing runs yet.
func (s *scene) instance(name string, config daemon.Config) *daemon.Daemon {
	s.Helper()
	full := fmt.Sprintf("%s-%s", strings.ReplaceAll(strings.TrimPrefix(s.namespace, "public/"), "/", "-"), name)
	var d *daemon.Daemon
	var err error
	if s.suite.standIn {
		d, err = daemon.NewStandIn(s.suite.spawner, s.suite.box, s.suite.classes, full, config)
	} else {
		d, err = daemon.New(s.suite.spawner, s.suite.binary, full, config)
	}
	s.must(err)
	s.Cleanup(func() { s.finish(d) })
	return d
}

// finish ends a daemon. After a failure it leaves what helps to find the
// cause: the status, the end of the log, and in the log all its goroutines.
func (s *scene) finish(d *daemon.Daemon) {
	p := d.Process()
	if p == nil {
		return
	}
	if s.Failed() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, path := range []string{"/readyz", "/api/v1/status"} {
			if _, body, err := d.Get(ctx, path); err == nil {
				s.Logf("%s: %s", path, body)
			}
		}
		s.Logf("end of %s:\n%s", p.LogPath, p.Tail(6000))
		if p.Signal(syscall.SIGQUIT) == nil {
			_, _ = p.Wait(ctx)
		}
	} else {
		s.noStackTrace(d)
	}
	p.Kill()
}

// start starts d, and waits until it is ready.
func (s *scene) start(d *daemon.Daemon) {
	s.Helper()
	s.launch(d)
	s.must(d.WaitReady(s.within(60*time.Second, d.Name+" getting ready")))
}

// launch starts d without waiting for anything.
func (s *scene) launch(d *daemon.Daemon) {
	s.Helper()
	s.must(d.Start())
}

// run starts one daemon with the given mappings and waits until it is ready.
func (s *scene) run(mappings ...map[string]any) *daemon.Daemon {
	s.Helper()
	d := s.instance("a", s.config(mappings...))
	s.start(d)
	return d
}

// terminate ends d with SIGTERM, which must drain.
func (s *scene) terminate(d *daemon.Daemon) {
	s.Helper()
	code, err := d.Terminate(40 * time.Second)
	s.must(err)
	if code != 0 {
		s.Errorf("%s ended with code %d after SIGTERM, want 0 (drained)", d.Name, code)
	}
}

func (s *scene) noStackTrace(d *daemon.Daemon) {
	for _, sign := range []string{"panic:", "goroutine 1 [", "DATA RACE", "fatal error:"} {
		if strings.Contains(d.Log(), sign) {
			s.Errorf("the log of %s contains %q", d.Name, sign)
		}
	}
}

// application is the subscription that the witness reads under.
const application = "application"

// consume records a subscription at a cluster and reads it with n consumers.
func (s *scene) consume(at site, n restadmin.Name, consumers int) *witness.Consumption {
	s.Helper()
	return s.consumeAs(at, witness.Consume{Topic: n.Topic(), Consumers: consumers})
}

func (s *scene) consumeAs(at site, spec witness.Consume) *witness.Consumption {
	s.Helper()
	spec.URL, spec.Subscription = at.service, application
	n := restadmin.Name(strings.TrimPrefix(spec.Topic, "topic://"))
	s.must(at.admin.Subscribe(s.ctx, n, spec.Subscription))
	c, err := s.wit.Consume(s.within(3*time.Minute, "subscribing the witness"), spec)
	s.must(err)
	if s.readers == nil {
		s.readers = map[*witness.Consumption]end{}
	}
	s.readers[c] = end{at, n}
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			s.Logf("closing consumers: %v", err)
		}
	})
	return c
}

// produce starts publishing at a cluster; the targets expect what is sent.
func (s *scene) produce(at site, spec witness.Produce, targets ...*witness.Consumption) *witness.Production {
	s.Helper()
	var sinks []func(order.Message, bool)
	for _, c := range targets {
		sinks = append(sinks, c.Expect)
	}
	return s.produceInto(at, spec, sinks...)
}

// produceInto starts publishing and tells the sinks of each message.
func (s *scene) produceInto(at site, spec witness.Produce, sinks ...func(order.Message, bool)) *witness.Production {
	s.Helper()
	spec.URL = at.service
	p, err := s.wit.Produce(s.within(time.Minute, "opening a producer"), spec, sinks...)
	s.must(err)
	s.Cleanup(func() { // a failed scenario must not go on publishing
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			s.Logf("closing a producer: %v", err)
		}
	})
	return p
}

// publish publishes spec.Count messages and waits for their receipts.
func (s *scene) publish(at site, spec witness.Produce, targets ...*witness.Consumption) {
	s.Helper()
	p := s.produce(at, spec, targets...)
	s.must(p.WaitDone(s.within(3*time.Minute, "publishing")))
}

// verdict judges c once all that was published has arrived, every mapping has
// acknowledged all that it read, and the reader all that it got: nothing can
// come after that.
func (s *scene) verdict(c *witness.Consumption) {
	s.Helper()
	s.settle(c)
	report, rule := c.Report(), order.Once
	s.Log(report)
	if len(report.Duplicates) > 0 {
		s.complain("more than once", s.doubledHere(s.readers[c], report.Duplicates))
		rule = order.AtLeastOnce // judged: the rest of the rules is the same
	}
	for _, problem := range report.Problems(rule) {
		s.Error(problem)
	}
}

// settle waits for the end of a copy, see verdict. What hangs on geobridge comes first:
// a reader is roused only then.
func (s *scene) settle(c *witness.Consumption) {
	s.Helper()
	for _, r := range s.routes {
		s.drained(r.from, subscription(r.mapping, r.to.at))
	}
	s.arrive(c)
	s.readOut(c) // whatever may still come: a double could be among it
	s.must(s.wit.Sync(s.within(10*time.Second, "catching up with the witness")))
}

// metrics scrapes d, an empty set for the stand-in that has none.
func (s *scene) metrics(d *daemon.Daemon) daemon.Metrics {
	s.Helper()
	m, err := d.Metrics(s.ctx)
	s.must(err)
	return m
}

// settledMetrics scrapes d once no send is without its receipt and all entries are
// counted: entries are counted when they are complete, a moment after the last arrival.
func (s *scene) settledMetrics(d *daemon.Daemon, entries float64) daemon.Metrics {
	s.Helper()
	var m daemon.Metrics
	if d.StandIn() {
		return m
	}
	err := rig.Poll(s.within(20*time.Second, "counting all entries"), 100*time.Millisecond, func() error {
		m = s.metrics(d)
		if got := m.Sum("entries_total"); got < entries {
			return fmt.Errorf("entries_total is %v of %v", got, entries)
		}
		return nil
	})
	if err != nil {
		s.Error(err)
	}
	return m
}

// dump reads the stored entries of every segment of n.
func (s *scene) dump(at site, n restadmin.Name) map[int64][]witness.Entry {
	s.Helper()
	layout, err := at.admin.Layout(s.ctx, n)
	s.must(err)
	const reader = "e2e-dump"
	out := map[int64][]witness.Entry{}
	for _, segment := range layout.Segments {
		ctx := s.within(60*time.Second, "dumping "+n.SegmentTopic(segment))
		entries, err := s.wit.Dump(ctx, at.service, n.SegmentTopic(segment), reader, func(ctx context.Context) (int64, error) {
			return at.admin.SegmentBacklog(ctx, n, segment.ID, reader)
		})
		s.must(err)
		s.must(at.admin.DropSegmentSubscription(s.ctx, n, segment, reader))
		out[segment.ID] = entries
	}
	return out
}

// byMode picks the short or the long version of a number.
func byMode[T any](s *scene, short, long T) T {
	if s.suite.full {
		return long
	}
	return short
}
