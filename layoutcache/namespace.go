package layoutcache

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/cenkalti/backoff/v4"
)

// TopicsEvent is one message of a namespace watch session: all scalable topics
// there are (Snapshot, Topics), or what came and went. Names are
// topic://tenant/namespace/name.
type TopicsEvent struct {
	Snapshot bool
	Topics   []string
	Added    []string
	Removed  []string
}

// TopicSet is the scalable topics of a namespace. Known is false until a
// snapshot arrived. An unknown namespace is an empty one (facts 2.1).
type TopicSet struct {
	Names map[string]struct{}
	Known bool
}

// FoldTopics applies one event. news is what it changed, as the difference to
// prev, and as a snapshot where nothing was known before; changed is false when
// that is nothing. A name both removed and added in one event was recreated,
// and is in both lists of the news. prev is not modified.
func FoldTopics(prev TopicSet, ev TopicsEvent) (next TopicSet, news TopicsEvent, changed bool) {
	next = TopicSet{Names: maps.Clone(prev.Names), Known: prev.Known || ev.Snapshot}
	if next.Names == nil {
		next.Names = map[string]struct{}{}
	}
	added, removed := ev.Added, ev.Removed
	if ev.Snapshot {
		added, removed = append(slices.Clone(ev.Topics), added...), slices.Clone(removed)
		listed := map[string]struct{}{}
		for _, name := range added {
			listed[name] = struct{}{}
		}
		for name := range prev.Names {
			if _, ok := listed[name]; !ok {
				removed = append(removed, name)
			}
		}
	}
	for _, name := range removed {
		if _, ok := next.Names[name]; ok {
			delete(next.Names, name)
			news.Removed = append(news.Removed, name)
		}
	}
	for _, name := range added {
		if _, ok := next.Names[name]; !ok {
			next.Names[name] = struct{}{}
			news.Added = append(news.Added, name)
		}
	}
	slices.Sort(news.Removed)
	slices.Sort(news.Added)
	if next.Known && !prev.Known {
		return next, TopicsEvent{Snapshot: true, Topics: next.sorted()}, true
	}
	return next, news, len(news.Added)+len(news.Removed) > 0
}

func (t TopicSet) sorted() []string { return slices.Sorted(maps.Keys(t.Names)) }

// NamespaceOptions of a Namespace. Namespace and Watcher are required; the rest
// is as in Options.
type NamespaceOptions struct {
	Namespace string // tenant/namespace
	Watcher   Watcher
	Logger    *slog.Logger
	Backoff   func() backoff.BackOff
}

// Namespace keeps one namespace watch open and hands what it says to any number
// of caches. All methods are safe for concurrent use.
type Namespace struct {
	opts NamespaceOptions
	log  *slog.Logger

	mu     sync.Mutex // held while folding and calling back
	topics TopicSet
	err    error
	subs   subscribers[TopicsEvent]
}

// NewNamespace makes a namespace that knows nothing; Run fills it.
func NewNamespace(o NamespaceOptions) *Namespace {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Backoff == nil {
		o.Backoff = defaultBackoff
	}
	return &Namespace{opts: o, log: o.Logger.With("namespace", o.Namespace)}
}

// Topics are the scalable topics, sorted; known is false until a first session
// said which there are. err is why the list may be out of date: the watch ended
// or was refused, and nil once a session answered.
func (n *Namespace) Topics() (topics []string, known bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.topics.sorted(), n.topics.Known, n.err
}

// Subscribe calls fn with a snapshot, at once if one is known, and then with
// each change, one call at a time and in order; changes that happened between
// two sessions come as differences too. fn must not block, nor call methods of
// the Namespace.
func (n *Namespace) Subscribe(fn func(TopicsEvent)) (cancel func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.topics.Known {
		fn(TopicsEvent{Snapshot: true, Topics: n.topics.sorted()})
	}
	return n.subs.add(fn)
}

// Run keeps the watch open until ctx ends, and then returns nil. It returns an
// error only if a Backoff that was given gives up. Call it once.
func (n *Namespace) Run(ctx context.Context) error {
	l := loop{backoff: n.opts.Backoff(), session: n.session, failed: n.failed}
	return l.run(ctx)
}

func (n *Namespace) session(ctx context.Context) (healthy, again bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	err = n.opts.Watcher.WatchTopics(ctx, n.opts.Namespace, func(ev TopicsEvent) {
		if ctx.Err() == nil {
			healthy = true
			n.fold(ev)
		}
	})
	if err == nil {
		err = errEnded
	}
	return healthy, false, err
}

func (n *Namespace) fold(ev TopicsEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		n.err = nil
		n.log.Info("namespace watch is back")
	}
	next, news, changed := FoldTopics(n.topics, ev)
	n.topics = next
	if changed {
		n.subs.publish(news)
	}
}

func (n *Namespace) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !sameError(n.err, err) {
		n.log.Warn("namespace watch ended", "reason", err)
	}
	n.err = err
}
