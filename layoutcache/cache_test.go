package layoutcache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeWatcher hands each session it is asked for to the test.
type fakeWatcher struct {
	layouts    chan *fakeSession[Update]
	namespaces chan *fakeSession[TopicsEvent]
}

type fakeSession[T any] struct {
	name   string
	events chan T
	fail   chan error
	ended  chan struct{}
}

func newFakeWatcher() *fakeWatcher {
	return &fakeWatcher{make(chan *fakeSession[Update], 1), make(chan *fakeSession[TopicsEvent], 1)}
}

func (w *fakeWatcher) WatchLayout(ctx context.Context, topic string, update func(Update)) error {
	return runFake(ctx, w.layouts, topic, update)
}

func (w *fakeWatcher) WatchTopics(ctx context.Context, ns string, event func(TopicsEvent)) error {
	return runFake(ctx, w.namespaces, ns, event)
}

func runFake[T any](ctx context.Context, opened chan<- *fakeSession[T], name string, call func(T)) error {
	s := &fakeSession[T]{name, make(chan T), make(chan error), make(chan struct{})}
	defer close(s.ended)
	select {
	case opened <- s:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case v := <-s.events:
			call(v)
		case err := <-s.fail:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// push delivers an event and waits until all have dealt with it.
func (s *fakeSession[T]) push(v T) {
	s.events <- v
	synctest.Wait()
}

func (s *fakeSession[T]) isOver() bool {
	synctest.Wait()
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

type rig struct {
	*fakeWatcher
	cache *Cache
	stop  func()
	seen  []*Snapshot
}

const pause = 100 * time.Millisecond

func steady() backoff.BackOff { return backoff.NewConstantBackOff(pause) }

// start runs a cache inside a synctest bubble.
func start(t *testing.T, o Options) *rig {
	r := &rig{fakeWatcher: newFakeWatcher()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	o.Topic, o.Watcher = topic, r
	if o.Backoff == nil {
		o.Backoff = steady
	}
	n := 1
	if o.Namespace != nil {
		o.Namespace.opts.Watcher = r
		n++
		go func() { done <- o.Namespace.Run(ctx) }()
	}
	r.cache = New(o)
	r.cache.Subscribe(func(s *Snapshot) { r.seen = append(r.seen, s) })
	go func() { done <- r.cache.Run(ctx) }()
	r.stop = func() {
		cancel()
		for range n {
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	}
	return r
}

func (r *rig) expect(t *testing.T, state State, incarnation uint64) *Snapshot {
	t.Helper()
	s := r.cache.Snapshot()
	if s.State != state || s.Incarnation != incarnation {
		t.Errorf("%v, incarnation %d (%v); want %v, %d", s.State, s.Incarnation, s.Err, state, incarnation)
	}
	return s
}

func TestCacheFollowsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{})
		defer r.stop()
		if s := r.expect(t, Unknown, 0); s.Topic != topic {
			t.Errorf("topic %q", s.Topic)
		}
		s := <-r.layouts
		if s.name != topic {
			t.Errorf("watches %q", s.name)
		}
		s.push(update(0, whole(0, 100)))
		s.push(update(0, whole(0, 100)))
		s.push(update(1, sealed(whole(0, 100), 1), whole(1, 200)))
		if got := r.expect(t, Live, 1); got.Layout.Epoch != 1 || got.Err != nil {
			t.Errorf("%+v", got)
		}
		if len(r.seen) != 3 { // unknown, epoch 0, epoch 1
			t.Errorf("subscriber saw %d snapshots, want 3", len(r.seen))
		}
	})
}

func TestCacheReconnectsAndKeepsTheLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{})
		defer r.stop()
		s := <-r.layouts
		s.push(update(0, whole(0, 100)))
		s.fail <- errors.New("connection lost")
		synctest.Wait()
		if got := r.expect(t, Live, 1); got.Err == nil {
			t.Error("no reason shown while disconnected")
		}
		began := time.Now()
		s = <-r.layouts
		if waited := time.Since(began); waited != pause {
			t.Errorf("next session after %v, want %v", waited, pause)
		}
		s.push(update(0, whole(0, 100)))
		if got := r.expect(t, Live, 1); got.Err != nil {
			t.Errorf("still %v", got.Err)
		}
	})
}

func TestCachePausesGrowAndStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{Backoff: func() backoff.BackOff {
			return backoff.NewExponentialBackOff(backoff.WithInitialInterval(pause), backoff.WithMultiplier(2),
				backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
		}})
		defer r.stop()
		next := func(s *fakeSession[Update], want time.Duration) *fakeSession[Update] {
			t.Helper()
			s.fail <- errors.New("refused")
			began := time.Now()
			s = <-r.layouts
			if waited := time.Since(began); waited != want {
				t.Errorf("paused %v, want %v", waited, want)
			}
			return s
		}
		s := next(<-r.layouts, pause)
		s = next(s, 2*pause)
		s = next(s, 4*pause)
		s.push(update(0, whole(0, 100)))
		s = next(s, pause)
		s = next(s, 2*pause)

		s.fail <- errors.New("refused")
		synctest.Wait() // in a pause of 4
		r.cache.Refresh()
		began := time.Now()
		<-r.layouts
		if waited := time.Since(began); waited != pause {
			t.Errorf("woken, paused %v, want %v", waited, pause)
		}
	})
}

func TestCacheGivesUpWithItsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWatcher()
		c := New(Options{Topic: topic, Watcher: w, Backoff: func() backoff.BackOff { return &backoff.StopBackOff{} }})
		done := make(chan error)
		go func() { done <- c.Run(t.Context()) }()
		refused := errors.New("refused")
		(<-w.layouts).fail <- refused
		if err := <-done; !errors.Is(err, refused) {
			t.Errorf("Run: %v", err)
		}
		if !errors.Is(c.Snapshot().Err, refused) {
			t.Errorf("snapshot: %v", c.Snapshot().Err)
		}
	})
}

func TestCacheTopicNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{})
		defer r.stop()
		s := <-r.layouts
		s.push(Update{Err: ErrTopicNotFound})
		s.fail <- errors.New("session closed") // says less than the update did
		synctest.Wait()
		if got := r.expect(t, Missing, 0); !errors.Is(got.Err, ErrTopicNotFound) {
			t.Errorf("reason %v", got.Err)
		}
		s = <-r.layouts
		s.fail <- ErrTopicNotFound // by its return alone
		synctest.Wait()
		r.expect(t, Missing, 0)
		(<-r.layouts).push(update(0, whole(0, 100)))
		r.expect(t, Live, 1)
	})
}

func TestCacheRevalidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{Revalidate: time.Minute})
		defer r.stop()
		s := <-r.layouts
		time.Sleep(time.Hour) // the life of a session starts with its answer
		if s.isOver() {
			t.Error("a session ended before it answered")
		}
		s.push(update(0, whole(0, 100)))
		seen := len(r.seen)
		began := time.Now()
		s = <-r.layouts
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("new session after %v", waited)
		}
		if len(r.seen) != seen {
			t.Error("a planned new session is news to subscribers")
		}
		s.push(Update{Err: ErrTopicNotFound}) // deleted without notice
		r.expect(t, Missing, 1)
	})
}

func TestCacheRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{})
		defer r.stop()
		s := <-r.layouts
		s.push(update(0, whole(0, 100)))
		r.cache.Refresh()
		if !s.isOver() {
			t.Error("the session goes on")
		}
		if got := r.expect(t, Live, 1); got.Err != nil {
			t.Errorf("a refresh is no failure: %v", got.Err)
		}
		(<-r.layouts).push(update(1, sealed(whole(0, 100), 1), whole(1, 200)))
		if got := r.expect(t, Live, 1); got.Layout.Epoch != 1 {
			t.Errorf("epoch %d", got.Layout.Epoch)
		}
	})
}

func TestSubscribeAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Options{})
		defer r.stop()
		s := <-r.layouts
		s.push(update(0, whole(0, 100)))
		var a, b int
		var cancelB func()
		cancelA := r.cache.Subscribe(func(*Snapshot) { a++ })
		cancelB = r.cache.Subscribe(func(*Snapshot) {
			if b++; b == 2 {
				cancelB()
				r.cache.Snapshot()
			}
		})
		s.push(update(1, whole(0, 100)))
		cancelA()
		s.push(update(2, whole(0, 100)))
		if a != 2 || b != 2 {
			t.Errorf("called %d and %d times, want 2 and 2", a, b)
		}
	})
}

func TestLookup(t *testing.T) {
	for _, tc := range []struct {
		name  string
		act   func(*fakeSession[Update])
		state State
		err   bool
	}{
		{"layout", func(s *fakeSession[Update]) { s.push(update(4, whole(0, 100))) }, Live, false},
		{"not found, pushed", func(s *fakeSession[Update]) { s.push(Update{Err: ErrTopicNotFound}) }, Missing, false},
		{"not found, returned", func(s *fakeSession[Update]) { s.fail <- ErrTopicNotFound }, Missing, false},
		{"refused", func(s *fakeSession[Update]) { s.fail <- errors.New("refused") }, Unknown, true},
		{"ended", func(s *fakeSession[Update]) { s.fail <- nil }, Unknown, true},
		{"no layout", func(s *fakeSession[Update]) { s.push(update(4)) }, Unknown, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFakeWatcher()
				go func() { tc.act(<-w.layouts) }()
				snap, err := Lookup(t.Context(), w, topic)
				if (err != nil) != tc.err || (snap == nil) != tc.err || snap != nil && snap.State != tc.state {
					t.Errorf("%+v, %v", snap, err)
				}
			})
		})
	}
}
