package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/reroute"
)

// topic is the same name on both sides.
const topic = "topic://public/default/orders"

// Ports are where the clusters listen on loopback: brokers and admin services.
type Ports struct{ East, EastAdmin, West, WestAdmin int }

// side is one of the two clusters.
type side struct {
	name      string
	cluster   *pulsartest.Cluster
	bounds    bounds
	broker    string // host:port
	admin     string
	listeners []net.Listener
	rest      *http.Server

	last pulsartest.Layout // as it was told last
}

// storeEvery is how often a segment's log takes what was sent, as one: a seal
// finds sends on their way then.
const storeEvery = 10 * time.Millisecond

// stage is both clusters, and the network between everything: memory, or loopback.
type stage struct {
	network    *pulsartest.Network
	dial       func(ctx context.Context, network, addr string) (net.Conn, error)
	east, west *side
}

// newStage builds the clusters with their unlike layouts, and listens.
func newStage(ctx context.Context, ports *Ports, eastHook, westHook func(pulsartest.Command) pulsartest.Action) (*stage, error) {
	s := &stage{network: &pulsartest.Network{}}
	s.dial = s.network.Dial
	addrs := [4]string{"east:6650", "east:8080", "west:6650", "west:8080"}
	if ports != nil {
		s.dial = (&net.Dialer{}).DialContext
		for i, port := range []int{ports.East, ports.EastAdmin, ports.West, ports.WestAdmin} {
			addrs[i] = fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	s.east = newSide("east", addrs[0], addrs[1], bounds{2, 4, 32, []int{2, 4, 8}}, eastHook)
	s.west = newSide("west", addrs[2], addrs[3], bounds{2, 5, 12, []int{1, 2, 4}}, westHook)
	if err := s.layouts(); err != nil {
		return nil, err
	}
	for _, sd := range []*side{s.east, s.west} {
		for _, addr := range []string{sd.broker, sd.admin} {
			ln, err := s.listen(ctx, addr, ports != nil)
			if err != nil {
				s.close()
				return nil, err
			}
			sd.listeners = append(sd.listeners, ln)
		}
	}
	return s, nil
}

func newSide(name, broker, admin string, b bounds, hook func(pulsartest.Command) pulsartest.Action) *side {
	c := pulsartest.New(pulsartest.Options{Cluster: name, Brokers: []string{broker}, Hook: hook})
	rest := &http.Server{Handler: c.Admin(), ReadHeaderTimeout: 10 * time.Second}
	return &side{name: name, cluster: c, bounds: b, broker: broker, admin: admin, rest: rest}
}

// layouts makes the topic: 2 segments of 2 buckets at east, 3 of 4 at west. The
// consumers' subscription is recorded, so that nothing is pruned unread.
func (s *stage) layouts() error {
	err := errors.Join(s.east.cluster.CreateScalable(topic, 2), s.west.cluster.CreateScalable(topic, 3))
	for id := range uint64(3) {
		err = errors.Join(err, s.west.cluster.Rebucket(topic, id, 4))
	}
	_, pruned := s.west.cluster.Prune(topic)
	err = errors.Join(err, pruned, s.west.cluster.RecordSubscription(topic, subscription))
	for _, sd := range []*side{s.east, s.west} {
		l, missing := sd.cluster.Layout(topic)
		sd.last, err = l, errors.Join(err, missing)
	}
	return err
}

func (s *stage) listen(ctx context.Context, addr string, loopback bool) (net.Listener, error) {
	if !loopback {
		return s.network.Listen(addr), nil
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
}

// run serves both clusters until close.
func (s *stage) run(parts *sync.WaitGroup) {
	for _, sd := range []*side{s.east, s.west} {
		parts.Go(func() { _ = sd.cluster.Brokers()[0].Serve(sd.listeners[0]) }) // it ends with its listener
		parts.Go(func() { _ = sd.rest.Serve(sd.listeners[1]) })
	}
}

// store is the clusters' storage: until ctx ends, it takes at once what came to a
// segment in storeEvery. What layouts become is told to changed.
func (s *stage) store(ctx context.Context, changed func(*side, []change)) {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	holding := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, sd := range []*side{s.east, s.west} {
			l, err := sd.cluster.Layout(topic)
			if err != nil {
				continue // a user deleted the topic
			}
			for _, seg := range l.Active() {
				name := seg.Topic(topic)
				if !holding[sd.name+name] {
					holding[sd.name+name] = true
					_ = sd.cluster.HoldAdds(name) // the segment is there, or gone for good
				}
				_, _ = sd.cluster.LandAdds(name, 1<<30)
			}
			if l.Epoch != sd.last.Epoch {
				changed(sd, changes(sd.last, l))
				sd.last = l
			}
		}
	}
}

func (s *stage) close() {
	for _, sd := range []*side{s.east, s.west} {
		_ = sd.rest.Close()
		sd.cluster.Close()
		for _, ln := range sd.listeners {
			_ = ln.Close() // some are closed already
		}
	}
}

// client connects to one side, as an application does.
func (s *stage) client(sd *side) (*pulsar.Client, error) {
	return pulsar.New(pulsar.Options{Cluster: sd.name, ServiceURL: "pulsar://" + sd.broker, Dial: s.dial})
}

// segment looks a segment of the topic up, active or sealed.
func (sd *side) segment(id uint64) (reroute.Segment, bool) {
	l, err := sd.cluster.Layout(topic)
	if err != nil {
		return reroute.Segment{}, false
	}
	for _, s := range l.Segments {
		if s.ID == id {
			return reroute.Segment{ID: s.ID, Range: reroute.HashRange{Start: s.Start, End: s.End}, Splits: s.Splits}, true
		}
	}
	return reroute.Segment{}, false
}
