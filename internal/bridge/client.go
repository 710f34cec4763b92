package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// NewClient makes a client of a cluster for who does not copy, and contacts
// nothing. dial may be nil.
func NewClient(c config.Cluster, log *slog.Logger, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*pulsar.Client, error) {
	o, err := clientOptions(c, log, dial)
	if err != nil {
		return nil, err
	}
	return pulsar.New(o)
}

// clientOptions checks what files can tell about a cluster.
func clientOptions(c config.Cluster, log *slog.Logger, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (pulsar.Options, error) {
	tlsConfig, err := newTLS(c.TLS)
	if err != nil {
		return pulsar.Options{}, fmt.Errorf("cluster %s: %w", c.Key, err)
	}
	o := pulsar.Options{
		Cluster: c.Key, ServiceURL: c.ServiceURL, ListenerName: c.ListenerName, TLS: tlsConfig,
		ConnectTimeout: c.ConnectTimeout, OperationTimeout: c.OperationTimeout,
		ConnectionsPerBroker: c.ConnectionsPerBroker, Logger: log, Dial: dial,
	}
	if provider := newAuth(c.Auth); provider != nil { // a nil provider in a non-nil interface would be asked for credentials
		o.Auth = provider
	}
	return o, nil
}

// Layout asks for the layout of a scalable topic as it is now.
func Layout(ctx context.Context, client *pulsar.Client, topic string) (*reroute.Layout, error) {
	snap, err := layoutcache.Lookup(ctx, watcher{client}, topic)
	switch {
	case err != nil:
		return nil, err
	case snap.State == layoutcache.Missing:
		return nil, fmt.Errorf("topic %s does not exist", topic)
	}
	return snap.Layout, nil
}

// StateNamespace is where geobridge's own topics live that serve a topic.
func StateNamespace(cfg *config.Config, topic string) string {
	if cfg.State.Namespace != "" {
		return cfg.State.Namespace
	}
	return replicate.NamespaceOf(topic)
}
