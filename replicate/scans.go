package replicate

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// Scans reads target segments for what lanes have stored there. Lanes that ask
// for the same segment at the same time share one reading of it. It is safe for
// concurrent use.
type Scans struct {
	client *pulsar.Client

	mu     sync.Mutex
	queues map[string]*scanQueue // by topic
}

// scanQueue are those who wait for a reading of a topic. Whoever gets the turn
// reads for all.
type scanQueue struct {
	turn    chan struct{}
	waiting []*scanRequest
	users   int
}

type scanRequest struct {
	lane     string
	from, to Position // exclusive, inclusive; no position: the earliest, the end
	found    []found
	begins   Position // the log's first entry, at the end of the reading, comes after it
	err      error
	done     chan struct{}
	begun    func(*reading) // told of the reading; does not block; may be nil
}

// NewScans returns a Scans of the topics of a cluster.
func NewScans(client *pulsar.Client) *Scans {
	return &Scans{client: client, queues: map[string]*scanQueue{}}
}

// find returns all that is stored of the lane above from and up to to, in the
// order of positions, and where the log begins. Nothing of it may be on its way
// any more. begun is told how far the reading is, before find returns.
func (s *Scans) find(ctx context.Context, topic, lane string, from, to Position, begun func(*reading)) (all []found, begins Position, err error) {
	r := &scanRequest{lane: lane, from: from, to: to, done: make(chan struct{}), begun: begun}
	q := s.join(topic, r)
	defer s.leave(topic, q, r)
	select {
	case <-r.done:
		return r.found, r.begins, r.err
	case <-ctx.Done():
		return nil, noPosition(), ctx.Err()
	case q.turn <- struct{}{}:
	}
	defer func() { <-q.turn }()
	if !isClosed(r.done) {
		far := &reading{}
		round := s.take(q, far)
		begins, err := noPosition(), s.read(ctx, topic, round, far)
		if err == nil { // asked after the reading: what is there now was there all the time
			begins, err = beginning(ctx, s.client, topic)
		}
		for _, r := range round {
			r.begins, r.err = begins, err
			close(r.done)
		}
	}
	return r.found, r.begins, r.err
}

func (s *Scans) join(topic string, r *scanRequest) *scanQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[topic]
	if q == nil {
		q = &scanQueue{turn: make(chan struct{}, 1)}
		s.queues[topic] = q
	}
	q.users++
	q.waiting = append(q.waiting, r)
	return q
}

func (s *Scans) leave(topic string, q *scanQueue, r *scanRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(o *scanRequest) bool { return o == r })
	if q.users--; q.users == 0 {
		delete(s.queues, topic)
	}
}

// take returns those who wait; whoever has left is not told any more.
func (s *Scans) take(q *scanQueue, far *reading) []*scanRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	round := q.waiting
	q.waiting = nil
	for _, r := range round {
		if r.begun != nil {
			r.begun(far)
		}
	}
	return round
}

// scanMessages is how many messages a scan asks for at once. None is kept.
const scanMessages = 1000

// read reads a topic once for all requests of a round: non-durable, so that it
// leaves nothing behind.
func (s *Scans) read(ctx context.Context, topic string, round []*scanRequest, far *reading) error {
	start, end := round[0].from, round[0].to
	for _, r := range round {
		if r.from.Compare(start) < 0 {
			start = r.from
		}
		if r.to == noPosition() || end != noPosition() && r.to.Compare(end) > 0 {
			end = r.to
		}
	}
	scanner := newScanner(end, func(m pulsar.Message) {
		if m.Err == nil && m.Info.Identity != nil {
			match(round, m.ID, m.Info.Identity)
		}
	})
	scanner.far = far
	return scanner.read(ctx, s.client, topic, "scan", start)
}

// scanner is one reading of a topic.
type scanner struct {
	deaf
	end    Position
	look   func(pulsar.Message) // at each entry, in the read loop
	far    *reading             // how far it is
	wake   chan struct{}
	closed chan error

	mu     sync.Mutex
	seen   Position
	used   int // permits
	beyond bool
	over   bool
}

// newScanner is for a reading up to a position (none: the end) that looks at each
// entry.
func newScanner(end Position, look func(pulsar.Message)) *scanner {
	return &scanner{end: end, look: look, far: &reading{}, seen: noPosition(), wake: make(chan struct{}, 1), closed: make(chan error, 1)}
}

// read reads a topic from a position on. What look found is the caller's then.
func (s *scanner) read(ctx context.Context, client *pulsar.Client, topic, purpose string, start Position) error {
	consumer, err := subscribeReader(ctx, client, topic, purpose, start, false, s)
	if err != nil {
		return err
	}
	defer consumer.Leave()
	defer s.stop()
	// Nothing is acknowledged before the end is asked for, so this is all there is.
	stats, err := consumer.Stats(ctx)
	if err != nil {
		return err
	}
	s.far.entries.Store(stats.Backlog)
	return s.run(ctx, consumer, client.OperationTimeout())
}

// Message looks at an entry, in the connection's read loop.
func (s *scanner) Message(m pulsar.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer m.Entry.Release()
	if s.over {
		return
	}
	s.seen = m.ID
	s.far.entry(m.Entry.Size())
	s.used += max(m.Info.NumMessages, 1)
	s.beyond = s.beyond || s.end != noPosition() && m.ID.Compare(s.end) > 0
	s.look(m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// match files an entry of ours with those who look for its lane.
func match(round []*scanRequest, at Position, identity []byte) {
	lane := laneOf(identity)
	for _, r := range round {
		if string(lane) != r.lane || at.Compare(r.from) <= 0 || r.to != noPosition() && at.Compare(r.to) > 0 {
			continue
		}
		if id, err := ParseIdentity(identity); err == nil {
			r.found = append(r.found, found{source: id.Pos, indices: id.Indices, total: id.Total, at: at})
		}
	}
}

// laneOf is the third field of an identity, nil if there is none.
func laneOf(identity []byte) []byte {
	f := bytes.SplitN(identity, []byte(";"), 4)
	if len(f) < 4 {
		return nil
	}
	return f[2]
}

// stop takes nothing more: what was found belongs to those who asked.
func (s *scanner) stop() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}

func (s *scanner) Closed(err error) {
	if err == nil {
		err = pulsar.ErrClosed
	}
	select {
	case s.closed <- err:
	default:
	}
}

// run reads up to the end: an entry beyond it, or everything received, the last
// one acknowledged, and no backlog (GET_LAST_MESSAGE_ID is of no use on a
// segment; observed, broker 5.0.1). Where nothing comes for so long though there
// is a backlog, an answer was lost, or an application's transaction is open.
func (s *scanner) run(ctx context.Context, consumer *pulsar.Consumer, patience time.Duration) error {
	if err := consumer.Flow(scanMessages); err != nil {
		return err
	}
	quiet := time.NewTimer(endPoll)
	defer quiet.Stop()
	moved := time.Now()
	for {
		waited := false
		select {
		case <-s.wake:
			moved = time.Now()
		case <-quiet.C:
			waited = true
		case err := <-s.closed:
			return fmt.Errorf("scan: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
		seen, used, beyond := s.state()
		switch {
		case beyond:
			return nil
		case used > 0:
			if err := consumer.Flow(uint32(used)); err != nil {
				return err
			}
		case waited:
			end, err := AtEnd(ctx, consumer, seen)
			if err != nil {
				return err
			}
			if end && s.last() == seen {
				return nil
			}
			if time.Since(moved) > patience {
				return fmt.Errorf("scan: nothing comes after %v, though there is more: an open transaction, or a lost answer", seen)
			}
		}
		quiet.Reset(endPoll)
	}
}

// last is the position of what came last. It leaves the used permits to state.
func (s *scanner) last() Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// state returns what was seen, and the permits to renew: it forgets them.
func (s *scanner) state() (seen Position, used int, beyond bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= scanMessages/2 {
		used, s.used = s.used, 0
	}
	return s.seen, used, s.beyond
}
