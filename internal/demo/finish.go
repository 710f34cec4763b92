package demo

import (
	"context"
	"fmt"
	"time"
)

// finale is what has to end in an order: nobody stops before those that write to
// it.
type finale struct{ producer, bridge, readers *part }

// finish lets everything in flight arrive, with patience: it gives up when nothing
// moves for that long. It returns what went wrong.
func (s *show) finish(ctx context.Context, f finale) (problems []string) {
	s.setPhase("the producer stops")
	within, cancel := context.WithTimeout(ctx, s.patience)
	problems = append(problems, f.producer.end(within, "producer")...)
	if within.Err() != nil && ctx.Err() == nil {
		problems = append(problems, fmt.Sprintf("the producer has messages without a receipt after %v", s.patience))
	}
	cancel()
	s.setPhase("what is published arrives")
	s.await(ctx, s.order.Waiting)
	s.setPhase("the bridge drains")
	problems = append(problems, f.bridge.end(ctx, "bridge")...)
	s.setPhase("the readers finish")
	if left := s.await(ctx, s.unread); left > 0 {
		problems = append(problems, fmt.Sprintf("%s at west not read within %v", plural(left, "entry"), s.patience))
	}
	return append(problems, f.readers.end(ctx, "readers")...)
}

// await polls until nothing is left, or nothing moved for as long as patience
// lasts, and returns what is left.
func (s *show) await(ctx context.Context, left func() int) int {
	n, moved := left(), time.Now()
	for n > 0 && time.Since(moved) < s.patience && pause(ctx, 20*time.Millisecond) == nil {
		if now := left(); now != n {
			n, moved = now, time.Now()
		}
	}
	return n
}

// unread counts the entries at west that the readers have not acknowledged: what
// came late, or twice, is among them.
func (s *show) unread() (n int) {
	l, err := s.stage.west.cluster.Layout(topic)
	if err != nil {
		return 0
	}
	for _, seg := range l.Segments {
		backlog, err := s.stage.west.cluster.Backlog(seg.Topic(topic), subscription)
		if err == nil {
			n += int(backlog)
		}
	}
	return n
}
