package replicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// Records is a live view of a checkpoint topic: the newest record of each lane
// and the geneses, as far as they were read. One serves all lanes of an
// instance on that topic. It is safe for concurrent use.
type Records struct {
	client *pulsar.Client
	topic  string
	log    *slog.Logger

	mu      sync.Mutex
	view    *recordView // of the present reader; nil between readers
	changed chan struct{}
}

// recordView is what one reader has seen since it started at the earliest entry.
type recordView struct {
	records  map[string]Record
	geneses  map[string]Genesis
	seen     Position
	consumer *pulsar.Consumer
}

// NewRecords returns the view of a topic that exists. Run fills it.
func NewRecords(client *pulsar.Client, topic string, log *slog.Logger) *Records {
	return &Records{client: client, topic: topic, log: log.With("topic", topic), changed: make(chan struct{})}
}

// Run reads the topic until ctx ends. A reader that dies is replaced by one that
// starts over: compaction keeps that short.
func (r *Records) Run(ctx context.Context) error {
	wait := newBackoff()
	for ctx.Err() == nil {
		err := r.read(ctx, wait.Reset)
		if ctx.Err() != nil {
			break
		}
		r.log.Warn("checkpoint reader lost", "error", err)
		pause(ctx, wait.NextBackOff())
	}
	return ctx.Err()
}

func (r *Records) read(ctx context.Context, healthy func()) error {
	rd, err := openReader(ctx, r.client, r.topic)
	if err != nil {
		return err
	}
	defer rd.close()
	defer r.replace(nil)
	r.replace(&recordView{records: map[string]Record{}, geneses: map[string]Genesis{}, seen: noPosition(), consumer: rd.consumer})
	healthy()
	for {
		msg, _, err := rd.next(ctx, 0)
		if err != nil {
			return err
		}
		r.apply(msg)
	}
}

func (r *Records) replace(v *recordView) {
	r.mu.Lock()
	r.view = v
	r.announce()
	r.mu.Unlock()
}

// announce wakes those who wait for news. The lock is held.
func (r *Records) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Records) apply(msg pulsar.Message) {
	key, value := string(msg.Info.PartitionKey), msg.Entry.Payload
	r.mu.Lock()
	defer r.mu.Unlock()
	defer msg.Entry.Release()
	v := r.view
	v.seen = msg.ID
	if isGenesis(key) {
		if g, err := DecodeGenesis(value); err != nil {
			r.log.Error("unreadable genesis", "position", msg.ID, "error", err)
		} else if _, known := v.geneses[key]; !known {
			v.geneses[key] = g // the first one counts
		}
	} else if rec, err := DecodeRecord(value); err != nil {
		r.log.Error("unreadable record", "position", msg.ID, "key", key, "error", err)
	} else {
		v.records[key] = rec
	}
	r.announce()
}

func isGenesis(key string) bool { return strings.HasPrefix(key, "genesis/") }

// Record returns the newest record seen of the lane.
func (r *Records) Record(lane string) (Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil {
		return Record{}, false
	}
	rec, ok := r.view.records[lane]
	return rec, ok
}

// Genesis returns the first genesis under the key.
func (r *Records) Genesis(key string) (Genesis, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil {
		return Genesis{}, false
	}
	g, ok := r.view.geneses[key]
	return g, ok
}

// Each calls f with every lane's newest record.
func (r *Records) Each(f func(lane string, rec Record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil {
		return
	}
	for lane, rec := range r.view.records {
		f(lane, rec)
	}
}

// Changed is closed when something new was read.
func (r *Records) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// ReadTo returns when everything up to pos was read, or the topic to its end:
// all received, the last one acknowledged, and a backlog of 0. A barrier is
// never delivered, so its position alone cannot be awaited.
func (r *Records) ReadTo(ctx context.Context, pos Position) error {
	for {
		r.mu.Lock()
		v, changed := r.view, r.changed
		var seen Position
		var consumer *pulsar.Consumer
		if v != nil {
			seen, consumer = v.seen, v.consumer
		}
		r.mu.Unlock()
		if v != nil {
			if seen.Compare(pos) >= 0 {
				return nil
			}
			if end, err := atEnd(ctx, consumer, seen); err == nil && end && r.unchanged(v, seen) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("reading %s: %w", r.topic, ctx.Err())
		case <-changed:
		case <-time.After(endPoll):
		}
	}
}

// endPoll is how often the end of a topic is asked for while it is awaited.
const endPoll = 20 * time.Millisecond

func (r *Records) unchanged(v *recordView, seen Position) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view == v && v.seen == seen
}

// atEnd asks whether a non-durable reader that acknowledged all it got has any
// backlog left (right in each of 18 cases observed, broker 5.0.1).
func atEnd(ctx context.Context, c *pulsar.Consumer, seen Position) (bool, error) {
	if seen != noPosition() {
		acked := make(chan error, 1)
		c.AckCumulative(seen, func(err error) { acked <- err })
		select {
		case err := <-acked:
			// Refused where the broker has passed markers beyond it already.
			if err != nil && !errors.As(err, new(*pulsar.ServerError)) {
				return false, err
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	stats, err := c.Stats(ctx)
	return err == nil && stats.Backlog == 0, err
}
