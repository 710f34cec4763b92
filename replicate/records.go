package replicate

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// Records is a live view of a checkpoint topic: the newest record of each lane,
// as far as it was read. One serves all lanes of an instance on that topic. It is safe for concurrent use.
type Records struct {
	client *pulsar.Client
	topic  string
	log    *slog.Logger

	opened chan struct{} // closed once the topic exists
	open   sync.Once

	mu       sync.Mutex
	view     *recordView   // of the present reader; nil between readers
	finished chan struct{} // closed, and made anew, with each record that says so

	checking chan struct{} // holds a token while the end is asked for
	asked    uint64        // how often it was
	ended    uint64        // the last time it was reached, as counted by asked
	endedIn  *recordView
	nudged   time.Time
}

// recordView is what one reader has seen since it started at the earliest entry.
type recordView struct {
	records  map[string]Record
	geneses  map[string]bool // by key
	seen     Position
	consumer *pulsar.Consumer
}

// NewRecords returns the view of a topic. Run fills it, once Open was called.
func NewRecords(client *pulsar.Client, topic string, log *slog.Logger) *Records {
	return &Records{client: client, topic: topic, log: log.With("topic", topic), opened: make(chan struct{}), finished: make(chan struct{}), checking: make(chan struct{}, 1)}
}

// Open says that the topic exists.
func (r *Records) Open() { r.open.Do(func() { close(r.opened) }) }

// Run reads the topic until ctx ends. A reader that dies is replaced by one that
// starts over: compaction keeps that short.
func (r *Records) Run(ctx context.Context) error {
	select {
	case <-r.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
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
	v := &recordView{records: map[string]Record{}, geneses: map[string]bool{}, seen: noPosition(), consumer: rd.consumer}
	r.replace(v)
	healthy()
	quiet := 0
	for {
		msg, ok, err := rd.next(ctx, r.client.OperationTimeout())
		switch {
		case err != nil:
			return err
		case ok:
			r.apply(v, msg)
			quiet = 0
		case r.end(ctx, r.question()) == v:
			quiet = 0
		default:
			if quiet++; quiet >= deadReader {
				return errStarved
			}
		}
	}
}

// deadReader is how often in a row a reader may be given nothing and not be at
// the end: what was on its way to it, or its permits, is lost.
const deadReader = 2

var errStarved = errors.New("the broker has more and delivers nothing")

func (r *Records) replace(v *recordView) {
	r.mu.Lock()
	r.view = v
	r.mu.Unlock()
}

func (r *Records) apply(v *recordView, msg pulsar.Message) {
	key, value := string(msg.Info.PartitionKey), msg.Entry.Payload
	r.mu.Lock()
	defer r.mu.Unlock()
	defer msg.Entry.Release()
	v.seen = msg.ID
	if isGenesis(key) {
		v.geneses[key] = len(value) > 0 // else forgotten
	}
	if isGenesis(key) || key == nudgeKey {
		return
	}
	if len(value) == 0 { // dropped
		delete(v.records, key)
		return
	}
	rec, err := DecodeRecord(value)
	if err != nil {
		r.log.Error("unreadable record", "position", msg.ID, "key", key, "error", err)
		return
	}
	if rec.Finished && !v.records[key].Finished {
		close(r.finished)
		r.finished = make(chan struct{})
	}
	v.records[key] = rec
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

// Rewound reports whether the topic, read to its end, has a record of the lane that is
// not finished and of a later epoch.
func (r *Records) Rewound(lane string, epoch uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil || r.endedIn != r.view {
		return false
	}
	rec, ok := r.view.records[lane]
	return ok && !rec.Finished && rec.Epoch > epoch
}

// Finished is closed when a record says that a lane is finished.
func (r *Records) Finished() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finished
}

// Find reads up to pos and returns the lane's newest record, nil if it has none, and
// whether the topic holds the genesis: else it is not the topic that the mapping
// began with.
func (r *Records) Find(ctx context.Context, lane, genesis string, pos Position) (found *Record, begun bool, err error) {
	err = r.readTo(ctx, pos, func(v *recordView) {
		if rec, ok := v.records[lane]; ok {
			found = &rec
		}
		begun = v.geneses[genesis]
	})
	return found, begun, err
}

// Begun reports whether a genesis was seen so far.
func (r *Records) Begun(genesis string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view != nil && r.view.geneses[genesis]
}

// Each reads the topic to its end and calls f with every lane's newest record.
func (r *Records) Each(ctx context.Context, f func(lane string, rec Record)) error {
	return r.readTo(ctx, pulsar.Latest(), func(v *recordView) {
		for lane, rec := range v.records {
			f(lane, rec)
		}
	})
}
