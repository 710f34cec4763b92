package pulsartest

import (
	"fmt"
	"strings"
)

// CreateRegular makes a persistent:// topic. One that exists is ErrExists, and
// one in a namespace that is not there ErrNotFound.
func (c *Cluster) CreateRegular(topic string) (err error) {
	c.locked(func() {
		switch {
		case c.core.topics[topic] != nil:
			err = fmt.Errorf("topic %s: %w", topic, ErrExists)
		case c.core.open(topic, true) == nil:
			err = notFound("namespace of", topic)
		}
	})
	return err
}

// EnsureSubscription makes a durable subscription of a regular topic, and the topic
// on the way; one that exists is ErrExists and stays where it is.
func (c *Cluster) EnsureSubscription(topic, sub string, earliest bool) (err error) {
	c.locked(func() {
		t := c.core.open(topic, true)
		switch {
		case t == nil:
			err = notFound("namespace of", topic)
			return
		case t.subs[sub] != nil:
			err = fmt.Errorf("subscription %s of %s: %w", sub, topic, ErrExists)
			return
		}
		at := t.log.end()
		if earliest {
			at = t.log.start
		}
		t.subscription(sub, at)
	})
	return err
}

// DeleteRegular deletes a regular topic, with force: all who are on it are closed.
func (c *Cluster) DeleteRegular(name string) error {
	return c.withTopic(name, func(t *topic) {
		t.closeAll()
		delete(c.core.topics, name)
	})
}

// Compact compacts a regular topic, at once (P31).
func (c *Cluster) Compact(name string) error {
	return c.withTopic(name, func(t *topic) { t.compact() })
}

// DeleteIdle deletes the regular topics that nobody is on and that have no durable
// subscription, as the broker does after some 100 s (design 3.3), and tells which.
func (c *Cluster) DeleteIdle() (gone []string) {
	c.locked(func() {
		for name, t := range c.core.topics {
			if strings.HasPrefix(name, "persistent://") && !t.attached() && len(t.subs) == 0 {
				gone = append(gone, name)
				delete(c.core.topics, name)
			}
		}
	})
	return gone
}
