package ladder

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/reroute"
)

const (
	topicName    = "topic://public/default/orders"
	subscription = "geobridge.g.orders"
	reader       = "reader" // at the target: the test's own, moved on when it has read
	parkingTopic = "persistent://public/default/__geobridge.g.parking"
	recordTopic  = "persistent://public/default/__geobridge.g.checkpoint"
)

// world is a run: two clusters, the network between them and everything else,
// and the bridges that copy.
type world struct {
	t     testing.TB
	plan  plan
	net   pulsartest.Network
	sides map[string]*side
	trace *trace
	began time.Time

	publisher *publisher
	check     *keyorder.Checker
	copied    *copied
	parts     sync.WaitGroup // of the world itself
	ctx       context.Context
	stop      context.CancelFunc
	slow      context.Context // ends when the target's storage becomes quick
	calm      context.CancelFunc

	losses    []keyorder.Kind // that a scenario brings about
	options   string          // more of the mapping's configuration
	instances []*instance
	real      bool // time is

	struck   atomic.Bool // the fault has happened
	flying   atomic.Bool // sends were in flight then
	eager    atomic.Bool // it happens at the next match with sends in flight
	fallback atomic.Bool // it may happen without
	undrained
}

// side is one cluster.
type side struct {
	*pulsartest.Cluster
	w        *world
	name     string
	injector *injector
	rest     *http.Server
	restDown atomic.Bool
	paused   atomic.Bool
}

func newWorld(t testing.TB, p plan) *world {
	w := &world{t: t, plan: p, sides: map[string]*side{}, trace: newTrace(), began: time.Now()}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.slow, w.calm = context.WithCancel(w.ctx)
	w.check = keyorder.New(keyorder.Options{Recent: 4096})
	w.copied = newCopied()
	for i, name := range []string{east, west} {
		w.sides[name] = w.newSide(name, p.brokers[i], p.segments[i])
	}
	w.must(w.west().RecordSubscription(topicName, reader))
	w.publisher = newPublisher(w)
	w.parts.Go(w.pump)
	return w
}

func (w *world) newSide(name string, brokers, segments int) *side {
	s := &side{w: w, name: name}
	s.injector = newInjector(s)
	o := pulsartest.Options{Cluster: name, FailoverDelay: w.plan.failover, Hook: s.injector.judge, Survive: s.survive,
		Retention: name == west && !w.plan.prunes, Deduplication: name == west && w.plan.dedup}
	for i := range brokers {
		o.Brokers = append(o.Brokers, fmt.Sprintf("%s%d:6650", name, i))
	}
	s.Cluster = pulsartest.New(o)
	for _, b := range s.Brokers() {
		ln := w.net.Listen(b.Addr())
		w.parts.Go(func() { _ = b.Serve(ln) }) // until Close
	}
	s.rest = &http.Server{Handler: s.injector.rest(s.Admin())}
	ln := w.net.Listen(s.admin())
	w.parts.Go(func() { _ = s.rest.Serve(ln) })
	w.must(s.CreateScalable(topicName, segments))
	return s
}

func (s *side) admin() string { return s.name + "-admin:8080" }

func (s *side) url() string {
	var hosts []string
	for _, b := range s.Brokers() {
		hosts = append(hosts, b.Addr())
	}
	return "pulsar://" + strings.Join(hosts, ",")
}

// survive is how many of the pending sends a broker's end leaves stored.
func (s *side) survive(_ string, pending int) int { return pending * s.w.plan.survive / 100 }

func (w *world) east() *side { return w.sides[east] }
func (w *world) west() *side { return w.sides[west] }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.fatalf("%v", err)
	}
}

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	w.trace.add(time.Since(w.began), fmt.Sprintf(format, args...))
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), w.story())
}

func (w *world) errorf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s\n%s", fmt.Sprintf(format, args...), w.story())
}

// story is what a failing run prints.
func (w *world) story() string {
	return fmt.Sprintf("GEOBRIDGE_SEED=%d\n%v\nstruck %v, sends in flight %v\n%s", w.plan.seed, w.plan, w.struck.Load(), w.flying.Load(), w.trace.tail(150))
}

// layout is the present layout of a side, as geobridge's routing reads it.
func (s *side) layout() *reroute.Layout {
	l, err := s.Layout(topicName)
	s.w.must(err)
	var segs []reroute.Segment
	for _, g := range l.Segments {
		segs = append(segs, reroute.Segment{ID: g.ID, Range: reroute.HashRange{Start: g.Start, End: g.End}, Splits: g.Splits,
			Sealed: g.Sealed, Parents: g.Parents, Children: g.Children, CreatedAtMs: g.Created.UnixMilli()})
	}
	out, err := reroute.NewLayout(topicName, l.Epoch, segs)
	s.w.must(err)
	return out
}

// close ends everything; a run that went well has stopped its bridges before.
func (w *world) close() {
	w.stop()
	for _, i := range w.instances {
		i.kill()
		<-i.done
	}
	w.publisher.close()
	for _, s := range w.sides {
		_ = s.rest.Close()
		s.Close()
	}
	w.parts.Wait()
}

// pump is the target's storage: what was sent lands after a while.
func (w *world) pump() {
	held := map[string]bool{}
	wait := w.plan.land[0]
	step := max((w.plan.land[1]-w.plan.land[0])/7, time.Millisecond)
	var topics []string
	for looked := w.began.Add(-time.Second); w.slow.Err() == nil; {
		if time.Since(looked) > 100*time.Millisecond {
			topics, looked = w.slowTopics(), time.Now()
		}
		for _, name := range topics {
			if !held[name] {
				held[name] = w.storeOf(name).HoldAdds(name) == nil
				continue
			}
			_, _ = w.storeOf(name).LandAdds(name, 1000) // pruned meanwhile
		}
		if wait += step; wait > w.plan.land[1] {
			wait = w.plan.land[0]
		}
		sleep(w.slow, wait)
	}
	for name := range held {
		_ = w.storeOf(name).ReleaseAdds(name) // pruned meanwhile
	}
}

func (w *world) slowTopics() (names []string) {
	l, err := w.west().Layout(topicName)
	if err != nil {
		return nil
	}
	for _, s := range l.Active() {
		names = append(names, s.Topic(topicName))
	}
	if w.plan.holdRec {
		names = append(names, recordTopic)
	}
	if w.plan.rung.parks() {
		names = append(names, parkingTopic)
	}
	return names
}

func (w *world) storeOf(topic string) *side {
	if topic == parkingTopic {
		return w.east()
	}
	return w.west()
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// trace keeps the latest of what happened.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func newTrace() *trace { return &trace{} }

func (t *trace) add(at time.Duration, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) > 5000 {
		t.lines = slices.Clone(t.lines[2500:])
	}
	t.lines = append(t.lines, fmt.Sprintf("%9.3f %s", at.Seconds(), line))
}

func (t *trace) has(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.lines, func(line string) bool { return strings.Contains(line, text) })
}

func (t *trace) tail(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines[max(len(t.lines)-n, 0):], "\n")
}
