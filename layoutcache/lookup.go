package layoutcache

import "context"

// Lookup asks for the layout as it is now, in a session of its own that ends
// with the first answer. A topic that does not exist is an answer too: a
// snapshot in state Missing. Any other failure, a layout that is none included,
// is an error, and nothing is retried.
func Lookup(ctx context.Context, w Watcher, topic string) (*Snapshot, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	start := &Snapshot{Topic: topic}
	snap := start
	err := w.WatchLayout(ctx, topic, func(u Update) {
		if snap == start {
			snap, _ = Fold(start, u)
			end()
		}
	})
	if snap == start {
		if err == nil {
			err = errEnded
		}
		if snap, _ = Fold(start, Update{Err: err}); snap.State == Unknown {
			return nil, err
		}
	}
	if snap.State == Unknown {
		return nil, snap.Err
	}
	return snap, nil
}
