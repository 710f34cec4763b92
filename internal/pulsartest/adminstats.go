package pulsartest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// statsOf is the share of one segment in the stats of a subscription.
func (s *subscription) statsOf() map[string]any {
	return map[string]any{"msgBacklog": s.cur.backlog(s.topic.log), "backlogSize": s.cur.bytes(s.topic.log), "unackedMessages": 0,
		"blocked": false, "consumerCount": len(s.consumers), "drainingBuckets": s.sharing.drainingBuckets()}
}

// bytes is the size of what is not acknowledged.
func (c *cursor) bytes(l *log) (n int64) {
	for _, e := range l.entries {
		if e.n >= c.mark && !c.acked[e.n] {
			n += int64(len(e.metadata) + len(e.payload))
		}
	}
	return n
}

// stats are those of a scalable topic; a subscription that is not recorded is
// QUEUE there (facts 3.5).
func (a admin) stats(r *http.Request) (any, error) {
	name := scalableOf(r)
	subs := map[string]map[string]any{}
	var epoch uint64
	err := a.with(name, func(s *scalable) error {
		epoch = s.layout.Epoch
		names := maps.Clone(s.records)
		a.core.eachSegment(s, func(_ *Segment, t *topic) {
			for name, sub := range t.subs {
				if sub.durable {
					names[name] = names[name] || false
				}
			}
		})
		for name := range names {
			subs[name] = a.core.subscriptionStats(s, name)
		}
		return nil
	})
	if err != nil {
		return nil, uninitialised(name, err)
	}
	return map[string]any{"layout": map[string]uint64{"epoch": epoch}, "subscriptions": subs}, nil
}

func (c *core) subscriptionStats(s *scalable, name string) map[string]any {
	typ := "QUEUE"
	if s.records[name] {
		typ = "STREAM"
	}
	segments, uncovered := map[string]any{}, []uint64{}
	var backlog, size int64
	c.eachSegment(s, func(seg *Segment, t *topic) {
		sub := t.subs[name]
		if sub == nil {
			uncovered = append(uncovered, seg.ID)
			return
		}
		backlog += sub.cur.backlog(t.log)
		size += sub.cur.bytes(t.log)
		segments[strconv.FormatUint(seg.ID, 10)] = sub.statsOf()
	})
	return map[string]any{"type": typ, "msgBacklog": backlog, "backlogSize": size, "unackedMessages": 0,
		"uncoveredSegmentIds": uncovered, "segments": segments, "consumers": []any{}}
}

func (a admin) segmentStats(r *http.Request) (body any, err error) {
	topic, id := scalableOf(r), number(r.PathValue("id"))
	err = a.with(topic, func(s *scalable) error {
		seg := s.layout.find(id)
		if seg == nil {
			return status{http.StatusNotFound, fmt.Sprintf("Segment %s not found in scalable topic %s", r.PathValue("id"), topic)}
		}
		if t := a.core.topics[seg.Topic(topic)]; t != nil {
			body = t.stats(seg.Created, a.core.owners[bundleOf(t.name)])
		}
		return nil
	})
	return body, uninitialised(topic, err)
}

func (t *topic) stats(created time.Time, owner *Broker) map[string]any {
	producers, subs := []any{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(t.producers)) {
		producers = append(producers, map[string]string{"producerName": name})
	}
	var most, size int64
	for _, e := range t.log.entries {
		size += int64(len(e.metadata) + len(e.payload))
	}
	for name, s := range t.subs {
		stats := s.statsOf()
		consumers, typ := []any{}, "None"
		for _, c := range s.consumers {
			typ = s.typ.String()
			consumers = append(consumers, map[string]string{"consumerName": c.name})
		}
		stats["consumers"], stats["type"], stats["oldestBacklogMessageAgeSeconds"] = consumers, typ, -1
		subs[name] = stats
		most = max(most, s.cur.bytes(t.log))
	}
	at := ""
	if owner != nil {
		at = owner.addr
	}
	return map[string]any{"ownerBroker": at, "terminated": t.log.terminated, "storageSize": size, "backlogSize": most,
		"oldestBacklogMessageAgeSeconds": -1, "topicCreationTime": created.UTC().Format(time.RFC3339Nano), "producers": producers, "subscriptions": subs}
}

func (a admin) createRegular(r *http.Request) (any, error) { return nil, a.CreateRegular(regularOf(r)) }

func (a admin) ensureSubscription(r *http.Request) (any, error) {
	var at struct {
		Ledger int64 `json:"ledgerId"`
	}
	if err := json.NewDecoder(r.Body).Decode(&at); err != nil || at.Ledger >= 0 && at.Ledger != math.MaxInt64 {
		return nil, status{http.StatusBadRequest, "pulsartest: earliest or latest only"}
	}
	return nil, a.EnsureSubscription(regularOf(r), r.PathValue("sub"), at.Ledger < 0)
}

func (a admin) regularSubscriptions(r *http.Request) (any, error) {
	var subs []string
	err := a.withTopic(regularOf(r), func(t *topic) { subs = slices.Sorted(maps.Keys(t.subs)) })
	if subs == nil {
		subs = []string{}
	}
	return subs, err
}

func (a admin) compact(r *http.Request) (any, error) { return nil, a.Compact(regularOf(r)) }

func (a admin) compaction(r *http.Request) (any, error) {
	state := "NOT_RUN"
	err := a.withTopic(regularOf(r), func(t *topic) {
		if t.compacted != nil {
			state = "SUCCESS"
		}
	})
	return map[string]string{"status": state, "lastError": ""}, err
}

func (a admin) policies(r *http.Request) (any, error) {
	known, deduplicating := false, a.core.opts.Deduplication
	quotas := map[string]quota{}
	a.locked(func() {
		known = a.core.namespaces[namespace(r)]
		if q, limited := a.core.quotas[namespace(r)]; limited {
			quotas["destination_storage"] = q
		}
		deduplicating = deduplicating || a.core.deduplicating[namespace(r)]
	})
	if !known {
		return nil, status{http.StatusNotFound, "Namespace does not exist"}
	}
	p := map[string]any{"backlog_quota_map": quotas, "deleted": false}
	if a.core.opts.Retention {
		p["retention_policies"] = map[string]int{"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
	}
	if deduplicating {
		p["deduplicationEnabled"] = true
	}
	return p, nil
}

// deduplicate switches deduplication on or off: what was published before is not known
// (facts 7).
func (a admin) deduplicate(r *http.Request) (any, error) {
	var on bool
	if err := json.NewDecoder(r.Body).Decode(&on); err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	a.locked(func() { a.core.deduplicating[namespace(r)] = on })
	return nil, nil
}

func (a admin) createNamespace(r *http.Request) (any, error) {
	known := false
	a.locked(func() {
		known = a.core.namespaces[namespace(r)]
		a.core.namespaces[namespace(r)] = true
	})
	if known {
		return nil, status{http.StatusConflict, "Namespace already exists"}
	}
	return nil, nil
}

func (a admin) unload(r *http.Request) (any, error) {
	a.locked(func() {
		for i := range bundles {
			a.core.unload(namespace(r) + "/" + strconv.Itoa(i))
		}
	})
	return nil, nil
}

func (a admin) configuration(*http.Request) (any, error) {
	return map[string]string{"clusterName": a.Name(), "maxMessageSize": strconv.Itoa(maxMessageSize), "ttlDurationDefaultInSeconds": "0"}, nil
}
