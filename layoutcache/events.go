package layoutcache

import "slices"

// report logs what changed, each thing once.
func (c *Cache) report(prev, next *Snapshot) {
	switch {
	case next.Incarnation != prev.Incarnation && prev.Incarnation > 0:
		c.log.Warn("topic was recreated", "epoch", next.Layout.Epoch)
	case next.State != prev.State && next.State == Missing:
		c.log.Warn("topic is missing", "reason", next.Err)
		return
	case next.State == Live && next.Layout != prev.Layout:
		c.log.Info("layout", "epoch", next.Layout.Epoch, "active", len(next.Layout.Active()), "segments", len(next.Layout.Segments()))
	}
	if next.Err != nil && !sameError(prev.Err, next.Err) {
		c.log.Warn("layout may be out of date", "reason", next.Err)
	} else if next.Err == nil && prev.Err != nil {
		c.log.Info("layout is up to date again")
	}
}

// onTopics hears the namespace watch. Removal is believed at once, but the topic
// is looked up to see what is there now: deleted and recreated, or a false alarm.
func (c *Cache) onTopics(ev TopicsEvent) {
	snap := c.Snapshot()
	is := func(t string) bool { return t == c.opts.Topic || t == snap.Topic }
	listed := slices.ContainsFunc(ev.Topics, is)
	added := slices.ContainsFunc(ev.Added, is) || ev.Snapshot && listed
	removed := slices.ContainsFunc(ev.Removed, is)
	if removed {
		c.fold(Update{Err: errRemoved})
	}
	switch {
	case added:
		c.setDoubt(false)
		if removed || c.Snapshot().State != Live {
			c.Refresh()
		}
	case removed:
		c.setDoubt(true)
		c.Refresh()
	case ev.Snapshot && snap.State == Live: // deleted before the watch began, or created after it looked
		c.setDoubt(true)
		c.Refresh()
	}
}

func (c *Cache) setDoubt(doubt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubt, c.life = doubt, shortestLife
}
