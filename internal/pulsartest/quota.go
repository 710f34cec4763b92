package pulsartest

import (
	"encoding/json"
	"net/http"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// quota is a namespace's limit of what a subscription may leave unread (P29).
type quota struct {
	Size   int64  `json:"limitSize"` // bytes; 0 or less: none
	Time   int64  `json:"limitTime"` // not looked at
	Policy string `json:"policy"`
}

// Its policies.
const (
	holdProducers   = "producer_request_hold"
	refuseProducers = "producer_exception"
	evictBacklog    = "consumer_backlog_eviction"
)

// exceeded is the quota of the topic's namespace if the slowest durable subscription is over
// it, and that subscription.
func (t *topic) exceeded() (q quota, slowest *subscription) {
	q = t.env.quotas[namespaceOf(t.name)]
	most := q.Size
	for _, s := range t.subs {
		if n := s.cur.bytes(t.log); s.durable && q.Size > 0 && n > most {
			most, slowest = n, s
		}
	}
	return q, slowest
}

// blocked refuses a new producer where the quota wants that.
func (t *topic) blocked() *refusal {
	q, slowest := t.exceeded()
	switch {
	case slowest == nil:
	case q.Policy == holdProducers:
		return refuse(pulsarpb.ServerError_ProducerBlockedQuotaExceededError, "Cannot create producer on topic with backlog quota exceeded")
	case q.Policy == refuseProducers:
		return refuse(pulsarpb.ServerError_ProducerBlockedQuotaExceededException, "Cannot create producer on topic with backlog quota exceeded")
	}
	return nil
}

// CheckQuotas is what a broker does every 60 s: where a subscription is over the quota of its
// namespace, all producers are closed, or what it has not read is given up (P29).
func (c *Cluster) CheckQuotas() {
	c.locked(func() {
		for _, name := range names(c.core.topics) {
			t := c.core.topics[name]
			q, slowest := t.exceeded()
			switch {
			case slowest == nil:
			case q.Policy == evictBacklog:
				for slowest.cur.bytes(t.log) > q.Size {
					slowest.cur.ackTo(slowest.cur.mark + 1)
				}
				slowest.tellEnd()
			default:
				t.closeProducers()
			}
		}
	})
}

// quota is POST namespaces/…/backlogQuota.
func (a admin) quota(r *http.Request) (any, error) {
	var q quota
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	a.locked(func() { a.core.quotas[namespace(r)] = q })
	return nil, nil
}
