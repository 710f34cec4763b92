package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/admin"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/status"
	"github.com/geobridge/geobridge/layoutcache"
)

// cluster is one of the two clusters of the process, as the mappings use it.
type cluster struct {
	config.Cluster
	client     *pulsar.Client
	admin      *admin.Client
	namespaces map[string]*layoutcache.Namespace
	log        *slog.Logger
	board      *status.Board

	mu   sync.Mutex
	live int // connections
}

// newCluster checks what files can tell about the cluster; it connects to nothing.
func newCluster(c config.Cluster, o Options, reconnects *prometheus.CounterVec) (*cluster, error) {
	opts, err := clientOptions(c, o.Logger, o.Dial)
	if err != nil {
		return nil, err
	}
	cl := &cluster{Cluster: c, namespaces: map[string]*layoutcache.Namespace{}, log: o.Logger.With("cluster", c.Key), board: o.Board}
	opts.OnEvent = func(ev pulsar.Event) { cl.onEvent(ev, reconnects) }
	if cl.client, err = pulsar.New(opts); err != nil {
		return nil, err
	}
	if cl.admin, err = newAdmin(c, opts, cl.log, o.Dial); err != nil {
		return nil, err
	}
	return cl, nil
}

// newAdmin makes the REST client that goes with a client of those options.
func newAdmin(c config.Cluster, opts pulsar.Options, log *slog.Logger, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*admin.Client, error) {
	o := admin.Options{URL: c.AdminURL, TLS: opts.TLS, Timeout: c.OperationTimeout, Logger: log, Dial: dial}
	if opts.Auth != nil {
		o.Auth = opts.Auth
	}
	client, err := admin.New(o)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Key, err)
	}
	return client, nil
}

// onEvent shows how the cluster is reached: it is connected while any connection
// lives. Reconnects are counted by cause.
func (c *cluster) onEvent(ev pulsar.Event, reconnects *prometheus.CounterVec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch ev.Type {
	case pulsar.EventConnected:
		c.live++
		c.board.SetCluster(c.Key, status.Connected, "")
		return
	case pulsar.EventDisconnected:
		c.live--
	case pulsar.EventConnectError:
	default:
		return
	}
	if ev.Reason == pulsar.ReasonClosed {
		return
	}
	reconnects.WithLabelValues(c.Key, string(ev.Reason)).Inc()
	if c.live == 0 {
		c.board.SetCluster(c.Key, status.Connecting, fmt.Sprintf("%s: %v", ev.Broker, ev.Err))
	}
}

// connect proves, for as long as it takes, that the cluster can be talked to.
func (c *cluster) connect(ctx context.Context) {
	try := func() error {
		_, err := c.client.Connect(ctx)
		if err != nil {
			c.log.Warn("cannot connect, trying again", "error", err)
		}
		return err
	}
	wait := backoff.NewExponentialBackOff(backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	_ = backoff.Retry(try, backoff.WithContext(wait, ctx)) // only ctx ends it without success
}

// namespace returns the watch of a namespace, one for all topics in it.
func (c *cluster) namespace(name string) *layoutcache.Namespace {
	if c.namespaces[name] == nil {
		c.namespaces[name] = layoutcache.NewNamespace(layoutcache.NamespaceOptions{
			Namespace: name, Watcher: watcher{c.client}, Logger: c.log,
		})
	}
	return c.namespaces[name]
}
