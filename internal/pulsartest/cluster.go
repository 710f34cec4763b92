package pulsartest

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// Cluster is a Pulsar cluster in memory. All methods are safe for concurrent use,
// and may be called from a hook.
type Cluster struct {
	brokers []*Broker

	mu        sync.Mutex
	core      core
	closed    bool
	listeners []net.Listener
	conns     map[*conn]struct{}
	lastConn  int
	parts     sync.WaitGroup // of connections
}

// New makes a cluster. Nothing runs before its brokers are served.
func New(o Options) *Cluster {
	o.setDefaults()
	c := &Cluster{conns: map[*conn]struct{}{}}
	c.core = core{
		env:    env{opts: o, now: time.Now, after: c.after, deduplicating: map[string]bool{}, quotas: map[string]quota{}},
		topics: map[string]*topic{}, scalables: map[string]*scalable{},
		namespaces: map[string]bool{}, grants: map[[2]string][]string{}, owners: map[string]*Broker{},
	}
	for _, ns := range o.Namespaces {
		c.core.namespaces[ns] = true
	}
	for _, addr := range o.Brokers {
		c.brokers = append(c.brokers, &Broker{cluster: c, addr: addr})
	}
	return c
}

// Name is what the cluster calls itself.
func (c *Cluster) Name() string { return c.core.opts.Cluster }

// Brokers are the cluster's brokers; the first one is the leader (P2).
func (c *Cluster) Brokers() []*Broker { return c.brokers }

// Close ends all connections and every Serve, and waits for the connections.
func (c *Cluster) Close() {
	c.locked(func() {
		c.closed = true
		for _, ln := range c.listeners {
			_ = ln.Close() // its Serve returns either way
		}
		for conn := range c.conns {
			conn.cut()
		}
	})
	c.parts.Wait()
}

func (c *Cluster) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *Cluster) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		c.locked(func() {
			if !c.closed {
				f()
			}
		})
	})
}

// withTopic runs f with a segment or regular topic; a missing one is ErrNotFound.
func (c *Cluster) withTopic(name string, f func(*topic)) (err error) {
	c.locked(func() {
		if t := c.core.topics[name]; t != nil {
			f(t)
		} else {
			err = notFound("topic", name)
		}
	})
	return err
}

// Stored is one entry in a topic's log.
type Stored struct {
	At                Position
	Metadata, Payload []byte // not to be changed
	Info              frame.Info
}

// Entries are what a topic has stored and not trimmed, markers included.
func (c *Cluster) Entries(name string) (all []Stored, err error) {
	err = c.withTopic(name, func(t *topic) {
		for _, e := range t.log.entries {
			all = append(all, Stored{e.at, e.metadata, e.payload, e.info})
		}
	})
	return all, err
}

// Backlog counts what a subscription of a segment or regular topic has not
// acknowledged, in entries.
func (c *Cluster) Backlog(name, sub string) (n int64, err error) {
	err = c.withSubscription(name, sub, func(s *subscription) { n = s.cur.backlog(s.topic.log) })
	return n, err
}

func (c *Cluster) withSubscription(name, sub string, f func(*subscription)) error {
	missing := fmt.Errorf("subscription %s of %s: %w", sub, name, ErrNotFound)
	found := c.withTopic(name, func(t *topic) {
		if s := t.subs[sub]; s != nil {
			f(s)
			missing = nil
		}
	})
	if found != nil {
		return found
	}
	return missing
}
