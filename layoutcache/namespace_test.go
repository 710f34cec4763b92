package layoutcache

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func startInNamespace(t *testing.T) (*rig, *fakeSession[Update], *fakeSession[TopicsEvent]) {
	r := start(t, Options{Namespace: NewNamespace(NamespaceOptions{Namespace: "t/n", Backoff: steady})})
	return r, <-r.layouts, <-r.namespaces
}

func listed(topics ...string) TopicsEvent { return TopicsEvent{Snapshot: true, Topics: topics} }
func removed(topic string) TopicsEvent    { return TopicsEvent{Removed: []string{topic}} }
func added(topic string) TopicsEvent      { return TopicsEvent{Added: []string{topic}} }

func TestDeletionIsSeenByTheNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, ns := startInNamespace(t)
		defer r.stop()
		s.push(update(3, whole(0, 100)))
		ns.push(listed(topic))
		ns.push(removed("topic://t/n/other"))
		if r.expect(t, Live, 1); s.isOver() {
			t.Error("another topic's deletion ended the session")
		}
		ns.push(removed(topic))
		if got := r.expect(t, Missing, 1); !errors.Is(got.Err, ErrTopicNotFound) || !s.isOver() {
			t.Errorf("%v; old session over: %v", got.Err, s.isOver())
		}
		s = <-r.layouts
		s.push(Update{Err: ErrTopicNotFound})
		s.fail <- errors.New("session closed")
		synctest.Wait()
		r.expect(t, Missing, 1)

		ns.push(added(topic))
		(<-r.layouts).push(update(0, whole(0, 500)))
		r.expect(t, Live, 2)
	})
}

func TestRecreatedInOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, ns := startInNamespace(t)
		defer r.stop()
		s.push(update(3, whole(0, 100)))
		ns.push(listed(topic))
		ns.push(TopicsEvent{Removed: []string{topic}, Added: []string{topic}})
		r.expect(t, Missing, 1)
		(<-r.layouts).push(update(0, whole(0, 500)))
		r.expect(t, Live, 2)
	})
}

// A broker may still know a deleted topic for a moment, and its session never
// takes that back: it is asked again until it says so.
func TestDeletionIsCheckedAgainWhileInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, ns := startInNamespace(t)
		defer r.stop()
		s.push(update(3, whole(0, 100)))
		ns.push(listed(topic))
		ns.push(removed(topic))
		s = <-r.layouts
		s.push(update(3, whole(0, 100))) // from a stale cache
		r.expect(t, Live, 1)
		for _, want := range []time.Duration{shortestLife, 2 * shortestLife, 4 * shortestLife} {
			began := time.Now()
			s = <-r.layouts
			if waited := time.Since(began); waited != want {
				t.Errorf("asked again after %v, want %v", waited, want)
			}
			if want < 4*shortestLife {
				s.push(update(3, whole(0, 100)))
			}
		}
		s.push(Update{Err: ErrTopicNotFound})
		r.expect(t, Missing, 1)
	})
}

func TestNamespaceSaysItIsThereAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, ns := startInNamespace(t)
		defer r.stop()
		s.push(update(3, whole(0, 100)))
		ns.push(listed()) // the list is older than the topic
		if !s.isOver() {
			t.Error("not looked up again")
		}
		r.expect(t, Live, 1)
		s = <-r.layouts
		ns.push(added(topic))
		s.push(update(3, whole(0, 100)))
		time.Sleep(time.Minute)
		if s.isOver() {
			t.Error("still in doubt")
		}
	})
}

func TestNamespaceReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, ns := startInNamespace(t)
		defer r.stop()
		n := r.cache.opts.Namespace
		if _, known, _ := n.Topics(); known || ns.name != "t/n" {
			t.Errorf("known before the first answer; watches %q", ns.name)
		}
		s.push(update(3, whole(0, 100)))
		ns.push(listed(topic))
		ns.fail <- errors.New("connection lost")
		synctest.Wait()
		names, known, err := n.Topics()
		if !slices.Equal(names, []string{topic}) || !known || err == nil {
			t.Errorf("%v %v %v", names, known, err)
		}
		var late []TopicsEvent
		defer n.Subscribe(func(ev TopicsEvent) { late = append(late, ev) })()
		ns = <-r.namespaces
		ns.push(listed("topic://t/n/y")) // ours went while nobody watched
		r.expect(t, Missing, 1)
		if names, _, err = n.Topics(); !slices.Equal(names, []string{"topic://t/n/y"}) || err != nil {
			t.Errorf("%v %v", names, err)
		}
		if len(late) != 2 || !late[0].Snapshot || !slices.Equal(late[1].Removed, []string{topic}) {
			t.Errorf("a late subscriber heard %+v", late)
		}
		<-r.layouts
	})
}

func TestCachesShareANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, ns := startInNamespace(t)
		defer r.stop()
		other := start(t, Options{})
		defer other.stop()
		s.push(update(3, whole(0, 100)))
		o := <-other.layouts
		o.push(update(3, whole(0, 100)))
		defer r.cache.opts.Namespace.Subscribe(other.cache.onTopics)()
		ns.push(listed(topic))
		ns.push(removed(topic))
		r.expect(t, Missing, 1)
		other.expect(t, Missing, 1)
	})
}
