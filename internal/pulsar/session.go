package pulsar

import "sync"

// sessionLimit bounds what a watch may pile up while its owner is busy.
const sessionLimit = 4096

// session is a watch on one connection: a queue between the read loop and the
// goroutine that blocks in the watch.
type session[T any] struct {
	mu    sync.Mutex
	queue []T
	err   error         // set once nothing more comes
	wake  chan struct{} // holds one token while there is news
}

func newSession[T any]() *session[T] { return &session[T]{wake: make(chan struct{}, 1)} }

// push hands an update to the session that find picks, if there is one.
func push[T any](c *conn, find func(*handles) *session[T], update T) {
	c.mu.Lock()
	s := find(&c.owned)
	c.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if len(s.queue) >= sessionLimit {
		s.err = ErrProtocol
	} else {
		s.queue = append(s.queue, update)
	}
	s.signal()
}

func (s *session[T]) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.signal()
}

func (s *session[T]) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take gives all that came since; the error counts once they are handled.
func (s *session[T]) take() ([]T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue
	s.queue = nil
	return q, s.err
}
