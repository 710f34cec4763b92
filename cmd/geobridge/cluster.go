package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/auth"
	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/admin"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/status"
	"github.com/geobridge/geobridge/layoutcache"
	"github.com/geobridge/geobridge/reroute"
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
func newCluster(c config.Cluster, board *status.Board, reconnects *prometheus.CounterVec, log *slog.Logger) (*cluster, error) {
	tlsConfig, err := newTLS(c.TLS)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Key, err)
	}
	provider := newAuth(c.Auth)
	cl := &cluster{Cluster: c, namespaces: map[string]*layoutcache.Namespace{}, log: log.With("cluster", c.Key), board: board}
	opts := pulsar.Options{
		Cluster: c.Key, ServiceURL: c.ServiceURL, ListenerName: c.ListenerName, TLS: tlsConfig,
		ConnectTimeout: c.ConnectTimeout, OperationTimeout: c.OperationTimeout,
		ConnectionsPerBroker: c.ConnectionsPerBroker, Logger: log,
		OnEvent: func(ev pulsar.Event) { cl.onEvent(ev, reconnects) },
	}
	adminOpts := admin.Options{URL: c.AdminURL, TLS: tlsConfig, Timeout: c.OperationTimeout, Logger: cl.log}
	if provider != nil { // a nil provider in a non-nil interface would be asked for credentials
		opts.Auth, adminOpts.Auth = provider, provider
	}
	if cl.client, err = pulsar.New(opts); err != nil {
		return nil, err
	}
	if cl.admin, err = admin.New(adminOpts); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Key, err)
	}
	return cl, nil
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

// newAuth returns the provider of the credential, nil for none. It is read
// again for each connection and each challenge, so one that is missing now is a
// state, not an end.
func newAuth(a config.Auth) auth.Provider {
	switch {
	case a.TokenFile != "":
		return auth.NewAuthenticationTokenFromFile(a.TokenFile)
	case a.TokenEnv != "":
		return auth.NewAuthenticationTokenFromSupplier(func() (string, error) {
			token, ok := os.LookupEnv(a.TokenEnv)
			if !ok || token == "" {
				return "", fmt.Errorf("environment variable %s holds no token", a.TokenEnv)
			}
			return token, nil
		})
	}
	return nil
}

func newTLS(t config.TLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file %s holds no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// watcher gives layoutcache the watch sessions of a client.
type watcher struct{ client *pulsar.Client }

func (w watcher) WatchLayout(ctx context.Context, topic string, update func(layoutcache.Update)) error {
	return notFound(w.client.WatchLayout(ctx, topic, func(u pulsar.LayoutUpdate) { update(layoutUpdate(u)) }))
}

func (w watcher) WatchTopics(ctx context.Context, namespace string, event func(layoutcache.TopicsEvent)) error {
	return w.client.WatchTopics(ctx, namespace, func(u pulsar.TopicsUpdate) {
		event(layoutcache.TopicsEvent{Snapshot: u.Snapshot, Topics: u.Topics, Added: u.Added, Removed: u.Removed})
	})
}

func notFound(err error) error {
	if errors.Is(err, pulsar.ErrTopicNotFound) {
		return fmt.Errorf("%w: %w", layoutcache.ErrTopicNotFound, err)
	}
	return err
}

func layoutUpdate(u pulsar.LayoutUpdate) layoutcache.Update {
	out := layoutcache.Update{Topic: u.Topic, Epoch: u.Epoch, Brokers: u.Brokers, ControllerURL: u.ControllerURL, Err: notFound(u.Err)}
	for _, s := range u.Segments {
		out.Segments = append(out.Segments, reroute.Segment{
			ID: s.ID, Range: reroute.HashRange{Start: s.HashStart, End: s.HashEnd}, Splits: s.EntryBucketSplits,
			Sealed: s.Sealed, LegacyTopic: s.LegacyTopic, Parents: s.Parents, Children: s.Children,
			CreatedAtMs: s.CreatedAtMs, SealedAtMs: s.SealedAtMs,
		})
	}
	return out
}
