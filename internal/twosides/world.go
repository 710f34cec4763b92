// Package twosides gives tests the clusters to copy between: embedded ones, with their
// admin services and clients. A test's own world embeds World.
package twosides

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// World is clusters of one broker each, and the network to them. The addresses of
// cluster east are east:6650 and, of its admin service, east:8080.
type World struct {
	T     testing.TB
	Sides map[string]*pulsartest.Cluster // by name

	network pulsartest.Network
	ports   map[string]string // where loopback listens for an address; nil: all in memory
	rest    []*http.Server
	clients []*pulsar.Client
	parts   sync.WaitGroup
}

// New is a world in memory, which fits a bubble of testing/synctest.
func New(t testing.TB) *World {
	return &World{T: t, Sides: map[string]*pulsartest.Cluster{}}
}

// OnLoopback is a world on ports of 127.0.0.1.
func OnLoopback(t testing.TB) *World {
	w := New(t)
	w.ports = map[string]string{}
	return w
}

// Serve makes a cluster, which takes the place of an earlier one of its name. Nobody
// waits at a hand-over there. The admin service may be wrapped.
func (w *World) Serve(o pulsartest.Options, wrap ...func(http.Handler) http.Handler) *pulsartest.Cluster {
	w.T.Helper()
	o.Brokers, o.FailoverDelay = []string{o.Cluster + ":6650"}, -1
	if old := w.Sides[o.Cluster]; old != nil {
		old.Close()
	}
	c := pulsartest.New(o)
	w.Sides[o.Cluster] = c
	broker, rest := w.listen(o.Cluster+":6650"), w.listen(o.Cluster+":8080")
	server := &http.Server{Handler: c.Admin()}
	for _, around := range wrap {
		server.Handler = around(server.Handler)
	}
	w.rest = append(w.rest, server)
	w.parts.Go(func() { _ = c.Brokers()[0].Serve(broker) }) // until Close
	w.parts.Go(func() { _ = server.Serve(rest) })
	return c
}

func (w *World) listen(addr string) net.Listener {
	w.T.Helper()
	if w.ports == nil {
		return w.network.Listen(addr)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	w.Must(err)
	w.ports[addr] = ln.Addr().String()
	return ln
}

// Dial has the form of net.Dialer.DialContext.
func (w *World) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.ports == nil {
		return w.network.Dial(ctx, network, addr)
	}
	return (&net.Dialer{}).DialContext(ctx, network, w.ports[addr])
}

// Client makes a client of a cluster, which Close closes.
func (w *World) Client(name string) *pulsar.Client {
	w.T.Helper()
	c, err := pulsar.New(pulsar.Options{Cluster: name, ServiceURL: "pulsar://" + name + ":6650", Dial: w.Dial})
	w.Must(err)
	w.clients = append(w.clients, c)
	return c
}

// Left is how many entries of a topic a subscription has not acknowledged. A segment
// that it is not at yet counts as one.
func (w *World) Left(name, topic, subscription string) (left int64) {
	w.T.Helper()
	l, err := w.Sides[name].Layout(topic)
	w.Must(err)
	for _, s := range l.Segments {
		n, err := w.Sides[name].Backlog(s.Topic(topic), subscription)
		if err != nil {
			n = 1
		}
		left += n
	}
	return left
}

// Must ends the test with an error.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Close ends clients, services and clusters, and waits for them.
func (w *World) Close() {
	for _, c := range w.clients {
		_ = c.Close()
	}
	for _, s := range w.rest {
		_ = s.Close()
	}
	for _, c := range w.Sides {
		c.Close()
	}
	w.parts.Wait()
}
