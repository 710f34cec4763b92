package pulsartest

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
