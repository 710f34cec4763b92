package pulsar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// Client talks to one cluster. It dials on demand; nothing runs before the
// first call. All methods are safe for concurrent use.
type Client struct {
	opts    Options
	service serviceURL
	log     *slog.Logger
	pool    pool
	ids     atomic.Uint64 // of requests, consumers, producers and watches alike
	host    atomic.Uint64 // the service host that answered last
}

// New checks the options. It does not connect.
func New(opts Options) (*Client, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", opts.Cluster, err)
	}
	service, err := parseServiceURL(opts.ServiceURL)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", opts.Cluster, err)
	}
	c := &Client{opts: opts, service: service, log: opts.Logger.With("cluster", opts.Cluster)}
	c.pool = pool{client: c, slots: map[slotKey]*slot{}, turns: map[target]int{}}
	return c, nil
}

// Close ends all connections. Every handle that is still open sees Closed
// before Close returns. Close does not wait for a credential provider.
func (c *Client) Close() error {
	c.pool.close()
	return nil
}

// Connect proves that one of the service hosts can be talked to, and says what
// it is.
func (c *Client) Connect(ctx context.Context) (ServerInfo, error) {
	conn, err := c.control(ctx)
	if err != nil {
		return ServerInfo{}, err
	}
	return conn.info, nil
}

// OperationTimeout is how long a request is waited for.
func (c *Client) OperationTimeout() time.Duration { return c.opts.OperationTimeout }

// EntryPool is where the entries that consumers deliver take their memory.
func (c *Client) EntryPool() *frame.Pool { return &c.pool.entries }

// control returns a control connection to the first service host that answers,
// the one that did so last before others.
func (c *Client) control(ctx context.Context) (*conn, error) {
	start, n := c.host.Load(), uint64(len(c.service.hosts))
	var failed error
	for i := range n {
		host := c.service.hosts[(start+i)%n]
		conn, err := c.pool.get(ctx, target{dial: host, broker: host, kind: KindControl})
		if err == nil {
			if i > 0 {
				c.host.CompareAndSwap(start, (start+i)%n)
			}
			return conn, nil
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// announce tells the owner how an attempt to connect ended.
func (c *Client) announce(t target, conn *conn, err error) {
	if err == nil {
		c.log.Info("connected", "broker", t.String(), "kind", t.kind.String(), "version", conn.info.Version)
		c.opts.OnEvent(Event{Type: EventConnected, Broker: t.dial, Kind: t.kind})
		return
	}
	reason := ReasonDial
	var ce *ConnectionError
	if errors.As(err, &ce) {
		reason = ce.Reason
	}
	c.log.Debug("could not connect", "broker", t.String(), "kind", t.kind.String(), "error", err)
	c.opts.OnEvent(Event{Type: EventConnectError, Broker: t.dial, Kind: t.kind, Reason: reason, Err: err})
}
