package pulsartest

import "sort"

// compactionSubscription is the broker's own, which compaction reads through
// (P32).
const compactionSubscription = "__compaction"

// compaction is the compacted view of a topic: the last entry of each key below
// horizon. It outlives the log's own entries (P32).
type compaction struct {
	horizon int64
	entries []*entry
}

func (c *compaction) from(n int64) *entry {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].n >= n })
	if i == len(c.entries) {
		return nil
	}
	return c.entries[i]
}

// compact makes the view of what there is now. Entries without a key are dropped,
// and keys whose last entry is empty (P31). Batches are taken as one entry of
// their outer key.
func (t *topic) compact() {
	var all []*entry
	if t.compacted != nil {
		all = append(all, t.compacted.entries...)
	}
	for _, e := range t.log.entries {
		if t.compacted == nil || e.n >= t.compacted.horizon {
			all = append(all, e)
		}
	}
	last := map[string]*entry{}
	for _, e := range all {
		if e.readable && e.info.HasPartitionKey {
			last[string(e.info.PartitionKey)] = e
		}
	}
	next := &compaction{horizon: t.log.end()}
	for _, e := range all {
		if e.readable && e.info.HasPartitionKey && last[string(e.info.PartitionKey)] == e && len(e.payload) > 0 {
			next.entries = append(next.entries, e)
		}
	}
	t.compacted = next
	t.subscription(compactionSubscription, 0).cur.ackTo(next.horizon)
}
