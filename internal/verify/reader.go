package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/replicate"
)

// errGone: what is read went away, so the layout is another one now.
var errGone = errors.New("it was deleted while it was read")

const (
	// endPoll is how long a reader waits for an entry before it asks for the end.
	endPoll = 20 * time.Millisecond
	// attempts is how often in a row a reader opens again without getting anything.
	attempts = 6

	leastPermits, mostPermits = 16, 4096
)

// reader reads a segment or a regular topic from its earliest entry up to an end
// that is fixed when it opens, or soon after, and leaves nothing behind: its subscription is
// not durable. A lost connection is made again.
type reader struct {
	client    *pulsar.Client
	topic     string
	compacted bool
	window    int // bytes that may be under way
	start     replicate.Position

	consumer *pulsar.Consumer
	inbox    *pulsar.Inbox
	permits  int // given and not used
	size     int // bytes of a message, the largest of late

	total   int64 // entries when it was opened, markers included
	read    int64
	seen    replicate.Position
	through replicate.Position // the end is not before it, whatever total was
	pending *pulsar.Message
}

// openReader asks for the end, too. A log that is sealed and empty has no earliest;
// compacted entries are given from the earliest only.
func openReader(ctx context.Context, client *pulsar.Client, topic string, window int, compacted bool) (*reader, error) {
	start := pulsar.Lowest()
	if compacted {
		start = pulsar.Earliest()
	}
	return openReaderAt(ctx, start, client, topic, window, compacted)
}

// openReaderAt starts at an entry that is there.
func openReaderAt(ctx context.Context, start replicate.Position, client *pulsar.Client, topic string, window int, compacted bool) (*reader, error) {
	r := &reader{client: client, topic: topic, window: window, compacted: compacted, start: start, seen: before(), through: before(), size: window / leastPermits}
	if err := r.retry(ctx, func() error { return r.open(ctx) }); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *reader) open(ctx context.Context) error {
	start := r.start
	if r.seen != before() {
		start = r.seen // inclusive; what comes again is left out
	}
	inbox := pulsar.NewInbox(2 * mostPermits)
	consumer, err := r.client.Subscribe(ctx, pulsar.SubscribeOptions{
		Topic: r.topic, Subscription: "geobridge-verify-" + strings.ToLower(rand.Text()), ConsumerName: "geobridge",
		Type: pulsar.Exclusive, Start: &start, ReadCompacted: r.compacted,
	}, inbox)
	if err != nil {
		return err
	}
	if r.seen == before() {
		stats, err := consumer.Stats(ctx)
		if err != nil {
			consumer.Leave()
			return err
		}
		r.total = stats.Backlog
	}
	r.consumer, r.inbox, r.permits = consumer, inbox, 0
	return nil
}

// retry tries for a while what a lost connection or a moved topic may fail.
func (r *reader) retry(ctx context.Context, try func() error) error {
	wait := backoff.WithContext(backoff.WithMaxRetries(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxElapsedTime(0)), attempts-1), ctx)
	return backoff.Retry(func() error {
		err := try()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, pulsar.ErrTopicNotFound):
			return backoff.Permanent(fmt.Errorf("%w: %w", errGone, err))
		case pulsar.RetryOf(err) == pulsar.RetryNever || pulsar.ClassOf(err) == pulsar.ClassAuth:
			return backoff.Permanent(err)
		}
		return err
	}, wait)
}

// peek waits for the first entry, and keeps it for next; false: there is none.
func (r *reader) peek(ctx context.Context) (replicate.Position, bool, error) {
	m, ok, err := r.next(ctx)
	if !ok || err != nil {
		return after(), false, err
	}
	r.pending = &m
	return m.ID, true, nil
}

// next waits for an entry, which the caller releases; false: the end.
func (r *reader) next(ctx context.Context) (m pulsar.Message, ok bool, err error) {
	if r.pending != nil {
		m, r.pending = *r.pending, nil
		return m, true, nil
	}
	if r.consumer != nil {
		if m, ok, err = r.receive(ctx); err == nil {
			return m, ok, nil
		}
		r.consumer.Leave()
		r.consumer = nil
		if ctx.Err() != nil {
			return m, false, err
		}
	}
	err = r.retry(ctx, func() error {
		if r.consumer == nil {
			if err := r.open(ctx); err != nil {
				return err
			}
		}
		m, ok, err = r.receive(ctx)
		if err != nil {
			r.consumer.Leave()
			r.consumer = nil
		}
		return err
	})
	return m, ok, err
}

func (r *reader) receive(ctx context.Context) (pulsar.Message, bool, error) {
	for began := time.Now(); ; {
		if r.read >= r.total && r.seen.Compare(r.through) >= 0 {
			// All that was there is read, whatever came since.
			return pulsar.Message{}, false, nil
		}
		if err := r.refill(); err != nil {
			return pulsar.Message{}, false, err
		}
		m, ok, err := r.inbox.Next(ctx, endPoll)
		switch {
		case err != nil:
			return m, false, err
		case ok && m.ID.Compare(r.seen) <= 0: // the inclusive start
			r.used(&m)
			m.Entry.Release()
		case ok:
			r.used(&m)
			r.read, r.seen = r.read+1, m.ID
			return m, true, nil
		default:
			if end, err := r.atEnd(ctx); err != nil || end {
				return m, false, err
			}
			if time.Since(began) > r.client.OperationTimeout() {
				return m, false, fmt.Errorf("%s: there is more, and nothing is delivered", r.topic)
			}
		}
	}
}

func (r *reader) used(m *pulsar.Message) {
	n := max(m.Info.NumMessages, 1)
	r.permits -= n
	each := max(m.Entry.Size()/n, 1)
	r.size = max(each, r.size-(r.size-each)/16-1)
}

// refill permits what fits the window.
func (r *reader) refill() error {
	goal := min(max(r.window/r.size, leastPermits), mostPermits)
	missing := goal - r.permits
	if missing*2 < goal {
		return nil
	}
	r.permits += missing
	return r.consumer.Flow(uint32(missing))
}

// atEnd asks whether there is more.
func (r *reader) atEnd(ctx context.Context) (bool, error) {
	end, err := replicate.AtEnd(ctx, r.consumer, r.seen)
	return end && r.inbox.Len() == 0, err
}

// close ends the reader.
func (r *reader) close() {
	if r.pending != nil {
		r.pending.Entry.Release()
		r.pending = nil
	}
	r.consumer.Leave()
	if r.inbox != nil {
		r.inbox.Empty()
	}
}
