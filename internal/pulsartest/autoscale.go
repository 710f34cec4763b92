package pulsartest

import (
	"math/bits"
	"time"
)

const (
	// scaleAfter is from a consumer's joining to what it makes of the layout (facts 4.8).
	scaleAfter = 30 * time.Millisecond
	// rebucketCooldown is the least time between two automatic changes
	// (scalableTopicRebucketCooldownSeconds).
	rebucketCooldown = 60 * time.Second
)

// joined lets a topic grow with its consumers, a little later.
func (c *core) joined(s *scalable) {
	c.after(scaleAfter, func() { c.scale(s) })
}

// scale gives the segments more buckets if a subscription has more STREAM consumers
// than the topic has buckets (facts 4.8): as many each as a power of two that is
// enough. Load is not looked at.
func (c *core) scale(s *scalable) {
	if !s.autoScale || c.scalables[s.layout.Topic] != s || s.controller == nil {
		return
	}
	active, most, buckets := s.layout.Active(), 0, 0
	for _, g := range s.groups {
		most = max(most, len(g.sessions))
	}
	for i := range active {
		buckets += active[i].Buckets()
	}
	if most <= buckets {
		return
	}
	if wait := rebucketCooldown - c.now().Sub(s.rebucketed); wait > 0 {
		c.after(wait, func() { c.scale(s) })
		return
	}
	want := 1 << bits.Len(uint((most-1)/len(active)))
	for i := range active {
		if p, err := s.layout.planRebucket(active[i].ID, want); err == nil && active[i].Buckets() < want {
			c.change(s, p)
		}
	}
}
