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
		env:    env{opts: o, now: time.Now, after: c.after},
		topics: map[string]*topic{}, scalables: map[string]*scalable{},
		namespaces: map[string]bool{}, owners: map[string]*Broker{},
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

// CreateScalable makes a scalable topic (topic://tenant/namespace/name) with 1 to
// 64 segments of equal width. One that exists is ErrExists.
func (c *Cluster) CreateScalable(topic string, segments int) (err error) {
	c.locked(func() { err = c.core.create(topic, segments) })
	return err
}

// with runs f with a scalable topic; a missing one is ErrNotFound.
func (c *Cluster) with(topic string, f func(*scalable) error) (err error) {
	c.locked(func() {
		var s *scalable
		if s, err = c.core.scalable(topic); err == nil {
			err = f(s)
		}
	})
	return err
}

// Layout is the present layout of a scalable topic.
func (c *Cluster) Layout(topic string) (l Layout, err error) {
	err = c.with(topic, func(s *scalable) error {
		l = s.layout.clone()
		return nil
	})
	return l, err
}

// governed runs f with a scalable topic that has a controller, since that does it: the
// leader becomes it if there is none.
func (c *Cluster) governed(topic string, f func(*scalable) error) error {
	return c.with(topic, func(s *scalable) error {
		c.core.elect(s, c.leader())
		return f(s)
	})
}

func (c *Cluster) change(topic string, planned func(*Layout) (plan, error)) error {
	return c.governed(topic, func(s *scalable) error {
		p, err := planned(&s.layout)
		if err == nil {
			c.core.change(s, p)
		}
		return err
	})
}

// Split seals a segment; two halves take its place (facts 6).
func (c *Cluster) Split(topic string, id uint64) error {
	return c.change(topic, func(l *Layout) (plan, error) { return l.planSplit(id) })
}

// Merge seals two neighbours; one segment takes their place.
func (c *Cluster) Merge(topic string, a, b uint64) error {
	return c.change(topic, func(l *Layout) (plan, error) { return l.planMerge(a, b) })
}

// Rebucket seals a segment; its successor has that many buckets.
func (c *Cluster) Rebucket(topic string, id uint64, buckets int) error {
	return c.change(topic, func(l *Layout) (plan, error) { return l.planRebucket(id, buckets) })
}

// SetAutoScale lets a topic grow with its STREAM consumers, or not (facts 4.8).
func (c *Cluster) SetAutoScale(topic string, on bool) error {
	return c.with(topic, func(s *scalable) error {
		s.autoScale = on
		c.core.joined(s)
		return nil
	})
}

// Controller is the broker that a scalable topic's STREAM consumers register with, nil
// before one was elected (P5).
func (c *Cluster) Controller(topic string) (b *Broker, err error) {
	err = c.with(topic, func(s *scalable) error {
		b = s.controller
		return nil
	})
	return b, err
}

// Registered are the names of a subscription's STREAM consumers, the lost ones of the
// last 60 s too.
func (c *Cluster) Registered(topic, sub string) (consumers []string, err error) {
	err = c.with(topic, func(s *scalable) error {
		if g := s.groups[sub]; g != nil {
			consumers = names(g.sessions)
		}
		return nil
	})
	return consumers, err
}

// Repeat pushes the layout without news, as load reports do (facts 2.4).
func (c *Cluster) Repeat(topic string) error {
	return c.with(topic, func(*scalable) error {
		c.core.push(topic)
		return nil
	})
}

// Prune deletes the drained sealed segments, as the broker does every 60 s (facts
// 3.5), and tells how many those were.
func (c *Cluster) Prune(topic string) (n int, err error) {
	err = c.with(topic, func(s *scalable) error {
		n = c.core.prune(s)
		return nil
	})
	return n, err
}

// DeleteScalable deletes a scalable topic; see facts 2.5 for what force means.
func (c *Cluster) DeleteScalable(topic string, force bool) error {
	return c.with(topic, func(s *scalable) error {
		c.core.remove(s, force)
		return nil
	})
}

// RecordSubscription is PUT …/subscriptions/{sub} (P16).
func (c *Cluster) RecordSubscription(topic, sub string) error {
	return c.governed(topic, func(s *scalable) error {
		c.core.record(s, sub)
		return nil
	})
}

// SkipAll is POST …/subscriptions/{sub}/skip-all (P16).
func (c *Cluster) SkipAll(topic, sub string) error {
	return c.governed(topic, func(s *scalable) error {
		c.core.skipAll(s, sub)
		return nil
	})
}

// DeleteSubscription is DELETE …/subscriptions/{sub} (P17).
func (c *Cluster) DeleteSubscription(topic, sub string) error {
	return c.governed(topic, func(s *scalable) error {
		c.core.forget(s, sub)
		return nil
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

// HoldAdds keeps the sends to a topic pending from now on, as a slow bookie does.
func (c *Cluster) HoldAdds(name string) error {
	return c.withTopic(name, func(t *topic) { t.holding = true })
}

// LandAdds stores the first n pending sends, with their receipts; the topic goes
// on holding. It tells how many are pending still.
func (c *Cluster) LandAdds(name string, n int) (pending int, err error) {
	err = c.withTopic(name, func(t *topic) {
		t.land(n)
		pending = len(t.pending)
	})
	return pending, err
}

// ReleaseAdds stores all that is pending, and holds no longer.
func (c *Cluster) ReleaseAdds(name string) error {
	return c.withTopic(name, func(t *topic) {
		t.holding = false
		t.land(len(t.pending))
	})
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
	missing := fmt.Errorf("subscription %s of %s: %w", sub, name, ErrNotFound)
	found := c.withTopic(name, func(t *topic) {
		if s := t.subs[sub]; s != nil {
			n, missing = s.cur.backlog(t.log), nil
		}
	})
	if found != nil {
		return 0, found
	}
	return n, missing
}
