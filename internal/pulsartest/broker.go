package pulsartest

import (
	"hash/crc32"
	"net"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Broker is one broker of a cluster.
type Broker struct {
	cluster *Cluster
	addr    string

	// Under the cluster's lock:
	down   bool
	paused chan struct{} // closed by Resume; nil while the broker runs
}

// Addr is the broker's host:port, as look-ups tell it.
func (b *Broker) Addr() string { return b.addr }

// URL is the broker's service URL.
func (b *Broker) URL() string { return "pulsar://" + b.addr }

func (b *Broker) tlsURL() string { return "pulsar+ssl://" + b.addr }

// Serve answers the connections of ln until Close, or until ln fails. A broker
// may serve several listeners; tls.NewListener makes one for pulsar+ssl.
func (b *Broker) Serve(ln net.Listener) error {
	c := b.cluster
	c.locked(func() {
		c.listeners = append(c.listeners, ln)
		if c.closed {
			_ = ln.Close() // Accept fails then
		}
	})
	for {
		nc, err := ln.Accept()
		if err != nil {
			return err
		}
		c.locked(func() {
			if c.closed || b.down {
				_ = nc.Close() // as if nobody listened
				return
			}
			c.lastConn++
			conn := newConn(b, nc, c.lastConn)
			c.conns[conn] = struct{}{}
			c.parts.Go(conn.read)
			c.parts.Go(conn.write)
		})
	}
}

// Crash is kill -9: all connections are cut, acknowledgements of the last
// AckSaveInterval are lost (P11), pending sends land or not as Options.Survive says.
// Others may serve its topics at once; a real cluster waits for the metadata
// session (P11).
func (b *Broker) Crash() {
	c := b.cluster
	c.locked(func() {
		b.down = true
		for conn := range c.conns {
			if conn.broker == b {
				conn.silence() // what one's end gives another is not delivered any more
			}
		}
		for conn := range c.conns {
			if conn.broker == b {
				conn.cut()
			}
		}
		c.core.depose(b)
		for _, name := range c.core.servedBy(b) {
			c.core.topics[name].crash()
		}
		for bundle, owner := range c.core.owners {
			if owner == b {
				delete(c.core.owners, bundle)
			}
		}
	})
}

// Restart lets a crashed broker accept connections again.
func (b *Broker) Restart() {
	b.cluster.locked(func() { b.down = false })
}

// Pause is SIGSTOP: connections stay, and nothing is read, answered or written until
// Resume. Clients give the broker up for its silence; it does not lose its topics:
// Move gives them to others, as the end of its metadata session would (P18).
func (b *Broker) Pause() {
	b.cluster.locked(func() {
		if b.paused == nil {
			b.paused = make(chan struct{})
		}
	})
}

// Resume ends a Pause: what came meanwhile is handled now.
func (b *Broker) Resume() {
	b.cluster.locked(func() {
		if b.paused != nil {
			close(b.paused)
			b.paused = nil
		}
	})
}

// running waits while the connection's broker is paused; false if the connection
// ended meanwhile.
func (c *conn) running() bool {
	for {
		var paused chan struct{}
		c.broker.cluster.locked(func() { paused = c.broker.paused })
		if paused == nil {
			return true
		}
		select {
		case <-paused:
		case <-c.done:
			return false
		}
	}
}

// Unload closes all that the bundle of topic holds: clients are told to close
// (P12), and the next look-up finds an owner.
func (c *Cluster) Unload(topic string) { c.locked(func() { c.core.unload(bundleOf(topic)) }) }

// Move unloads the bundle of topic, and gives it to another broker.
func (c *Cluster) Move(topic string, to *Broker) {
	c.locked(func() {
		c.core.unload(bundleOf(topic))
		c.core.owners[bundleOf(topic)] = to
	})
}

// Owner is who serves a topic, nil if nobody does.
func (c *Cluster) Owner(topic string) (b *Broker) {
	c.locked(func() { b = c.core.owners[bundleOf(topic)] })
	return b
}

func (c *core) unload(bundle string) {
	for name, t := range c.topics {
		if bundleOf(name) == bundle && c.owners[bundle] != nil {
			t.unload()
		}
	}
	delete(c.owners, bundle)
}

func (c *core) servedBy(b *Broker) (names []string) {
	for name := range c.topics {
		if c.owners[bundleOf(name)] == b {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// bundles is how many parts a namespace has (defaultNumberOfNamespaceBundles).
const bundles = 4

// bundleOf names the part of a namespace that a topic moves with.
func bundleOf(topic string) string {
	return namespaceOf(topic) + "/" + strconv.Itoa(int(crc32.ChecksumIEEE([]byte(topic))%bundles))
}

// lookup answers a look-up (P1, P2): an owned bundle is answered by everybody; of
// one without an owner, the leader chooses, and whoever is sent to with
// authoritative takes it.
func (c *Cluster) lookup(b *Broker, cmd *pulsarpb.CommandLookupTopic) *pulsarpb.CommandLookupTopicResponse {
	bundle := bundleOf(cmd.GetTopic())
	leader := c.leader()
	owner := c.core.owners[bundle]
	connect := pulsarpb.CommandLookupTopicResponse_Connect
	redirect := pulsarpb.CommandLookupTopicResponse_Redirect
	switch {
	case owner != nil:
		return c.answer(cmd, connect, owner, true)
	case cmd.GetAuthoritative():
		c.core.owners[bundle] = b
		return c.answer(cmd, connect, b, true)
	case b != leader:
		return c.answer(cmd, redirect, leader, false)
	}
	if chosen := c.choose(); chosen != b {
		return c.answer(cmd, redirect, chosen, true)
	}
	c.core.owners[bundle] = b
	return c.answer(cmd, connect, b, true)
}

func (c *Cluster) answer(cmd *pulsarpb.CommandLookupTopic, typ pulsarpb.CommandLookupTopicResponse_LookupType, to *Broker, authoritative bool) *pulsarpb.CommandLookupTopicResponse {
	return &pulsarpb.CommandLookupTopicResponse{
		RequestId: cmd.RequestId, Response: typ.Enum(), Authoritative: proto.Bool(authoritative),
		BrokerServiceUrl: proto.String(to.URL()), BrokerServiceUrlTls: proto.String(to.tlsURL()),
		ProxyThroughServiceUrl: proto.Bool(len(c.brokers) == 1), // P1: true in standalone
	}
}

func (c *Cluster) up() (up []*Broker) {
	for _, b := range c.brokers {
		if !b.down {
			up = append(up, b)
		}
	}
	return up
}

// leader is the first broker that is up, nil if none is.
func (c *Cluster) leader() *Broker {
	if up := c.up(); len(up) > 0 {
		return up[0]
	}
	return nil
}

// choose takes the broker that is up and has the fewest bundles, the first of
// several.
func (c *Cluster) choose() *Broker {
	load := map[*Broker]int{}
	for _, owner := range c.core.owners {
		load[owner]++
	}
	up := c.up()
	return slices.MinFunc(up, func(a, b *Broker) int { return load[a] - load[b] })
}
