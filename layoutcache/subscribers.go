package layoutcache

import "sync/atomic"

// subscribers is a list of callbacks. Its owner's mutex is held around each
// method, so that every callback sees all values in order.
type subscribers[T any] struct{ list []*subscriber[T] }

type subscriber[T any] struct {
	call func(T)
	gone atomic.Bool
}

// add appends a callback and returns what removes it. The removal takes no lock,
// so that a callback may remove itself; a call under way on another goroutine
// may still be running when it returns.
func (s *subscribers[T]) add(call func(T)) (cancel func()) {
	s.compact()
	sub := &subscriber[T]{call: call}
	s.list = append(s.list, sub)
	return func() { sub.gone.Store(true) }
}

func (s *subscribers[T]) publish(v T) {
	s.compact()
	for _, sub := range s.list {
		if !sub.gone.Load() {
			sub.call(v)
		}
	}
}

func (s *subscribers[T]) compact() {
	kept := s.list[:0]
	for _, sub := range s.list {
		if !sub.gone.Load() {
			kept = append(kept, sub)
		}
	}
	clear(s.list[len(kept):])
	s.list = kept
}
