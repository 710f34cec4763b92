package replicate

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/layoutcache"
)

// Subscription is what a cluster tells about a subscription of a scalable topic.
type Subscription struct {
	// Recorded: in the topic's metadata, so that sealed segments are kept until
	// it has drained them. A loose one protects nothing.
	Recorded bool
	// Backlog is the broker's own count of entries not acknowledged, over all segments.
	Backlog int64
}

// Keeping is what a namespace's policies do to stored entries.
type Keeping struct {
	Known      bool
	Retention  bool          // acknowledged entries are kept for some time or size
	TTL        time.Duration // entries of this age count as acknowledged; 0: never
	QuotaLimit bool          // a backlog quota stops producers, or moves subscriptions

	Deduplication bool
}

// Admin is what replicate needs of a cluster's admin REST. Safe for concurrent use.
type Admin interface {
	// RecordSubscription records a subscription; an existing one keeps its cursors.
	RecordSubscription(ctx context.Context, topic, subscription string) error
	// SkipAll moves a recorded subscription to the end of every segment.
	SkipAll(ctx context.Context, topic, subscription string) error
	// Subscriptions lists those of a scalable topic by name.
	Subscriptions(ctx context.Context, topic string) (map[string]Subscription, error)
	// Keeping is what a namespace keeps of its topics; Known is false where the
	// credential may not ask.
	Keeping(ctx context.Context, namespace string) (Keeping, error)
	// ClusterName is Pulsar's own name of the cluster; empty: not permitted to ask.
	ClusterName(ctx context.Context) (string, error)
	// CompactTopic starts the compaction of a regular topic.
	CompactTopic(ctx context.Context, topic string) error
	// Holds reports whether a regular topic exists and has the subscription.
	Holds(ctx context.Context, topic, subscription string) (bool, error)
	// EnsureRegularTopic creates a persistent:// topic unless it exists.
	EnsureRegularTopic(ctx context.Context, topic string) error
}

// State names of lanes and mappings, as status and metrics show them.
const (
	ShowStandby    = "standby"
	ShowStarting   = "starting"
	ShowRecovering = "recovering"
	ShowRunning    = "running"
	ShowWaiting    = "waiting"
	ShowStalled    = "stalled"
	ShowStopped    = "stopped"
	ShowFailed     = "failed"
)

// LaneStatus is what a lane shows of itself.
type LaneStatus struct {
	State, Reason string
	Segment       uint64
	Range         string
	Frontier      string
	Entries       int
	Bytes         int
	Targets       []string
}

// Board is where mappings and lanes show how they do. Safe for concurrent use.
type Board interface {
	// Mapping shows a state of the mapping as a whole; ClearMapping leaves it to its lanes.
	Mapping(name, state, reason string)
	ClearMapping(name string)
	// Note keeps something that happened and is over, for people to read.
	Note(mapping, text string)
	Lane(mapping, id string, s LaneStatus)
	LaneGone(mapping, id string)
	// Tick says that a part goes round; Untick that it ended as it should.
	Tick(part string)
	Untick(part string)
}

// Side is one end of a mapping.
type Side struct {
	Key     string // of the cluster, as the configuration and people name it
	Cluster string // as Pulsar names it
	Topic   string // topic://tenant/namespace/name
	Client  *pulsar.Client
	Admin   Admin
	Layout  *layoutcache.Cache
}

// Env is what the lanes of a mapping share.
type Env struct {
	Mapping, Subscription, Instance string
	Source, Target                  Side
	CheckpointTopic, ParkingTopic   string
	Rules                           Rules // Lane is filled in by each lane
	StopPoison                      bool
	StopGap                         bool // on_gap: stop
	FromLatest                      bool // start: latest
	StopEvidence                    bool // on_lost_evidence: stop
	CheckpointInterval              time.Duration
	StallTimeout                    time.Duration
	Budget                          *Budget
	Records                         *Records
	Scans                           *Scans // of the target cluster
	ParkingScans                    *Scans // of the source cluster
	Board                           Board
	Log                             *slog.Logger

	maxSize      int          // of a target entry, known once the target was connected to
	unsubscribed atomic.Int64 // how often the subscription was deleted at the source, and made again
	ghosts       ghosts
	metrics      *mappingMetrics
}

// Budget bounds the bytes of source entries that all lanes together hold, by the
// window that it gives to each. Safe for concurrent use.
type Budget struct {
	limit int64
	lanes atomic.Int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// The window of a lane: enough for a long fat link, little enough that the
// target's queue stays short.
const (
	leastWindow = 32 << 10
	mostWindow  = 8 << 20
)

// Window is what one lane may hold, in bytes: its share of the budget. A share
// is counted twice because an entry may be split into parts of its own.
func (b *Budget) Window() int {
	share := b.limit / max(b.lanes.Load(), 1) / 2
	return int(min(max(share, leastWindow), mostWindow))
}

// Limit is the budget's size in bytes.
func (b *Budget) Limit() int64 { return b.limit }
