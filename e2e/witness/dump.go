package witness

import (
	"context"
	"encoding/json"
	"fmt"
)

// Entry is one entry as a segment stores it, opened by Pulsar's own decoders.
type Entry struct {
	Position       string            `json:"position"` // ledger:entry
	Producer       string            `json:"producer"`
	Sequence       uint64            `json:"sequence"`
	Published      uint64            `json:"published"` // publish_time, ms
	ReplicatedFrom string            `json:"replicatedFrom"`
	Key            *string           `json:"key"`   // outer partition_key
	Batch          bool              `json:"batch"` // num_messages_in_batch is set
	Count          int               `json:"count"`
	Compression    string            `json:"compression"`
	Uncompressed   int               `json:"uncompressed"`
	HashMin        int               `json:"hashMin"` // −1: not set
	HashMax        int               `json:"hashMax"`
	Encrypted      bool              `json:"encrypted"`
	Txn            bool              `json:"txn"` // a transaction id is set
	Properties     map[string]string `json:"properties"`
	Doubled        string            `json:"doubled"` // a property that is there twice
	Size           int               `json:"size"`    // of the stored payload
	Digest         string            `json:"digest"`  // of the stored payload
	Messages       []StoredMessage   `json:"messages"`
}

// StoredMessage is one message of an Entry; the halves of its key's hash come
// from Pulsar's Murmur3_32Hash.
type StoredMessage struct {
	ID          string  `json:"id"`
	Key         *string `json:"key"`
	SegmentHash int     `json:"segmentHash"`
	BucketHash  int     `json:"bucketHash"`
}

// Tail is a running reader of the stored entries of one segment topic.
type Tail struct {
	*state
	w  *Witness
	id int64
}

// Tail reads the stored entries of one segment topic under a subscription, from where
// that stands. handle gets each entry, one at a time, on the reader's goroutine; what
// was not acknowledged when a connection was lost comes again.
func (w *Witness) Tail(ctx context.Context, url, segmentTopic, subscription string, handle func(Entry)) (*Tail, error) {
	t := &Tail{state: newState(), w: w}
	id, err := w.send("dump", map[string]string{"url": url, "topic": segmentTopic, "subscription": subscription}, func(e event) {
		t.update(func() {
			if t.common(e) {
				return
			}
			var entry Entry
			if err := json.Unmarshal(e.raw, &entry); err != nil {
				t.err = err
				return
			}
			handle(entry)
		})
	})
	if err != nil {
		return nil, err
	}
	t.id = id
	return t, t.waitReady(ctx)
}

// Err is what ended the reader, nil while it reads.
func (t *Tail) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Stop closes the reader; all that it acknowledged has been handled then.
func (t *Tail) Stop(ctx context.Context) error { return t.w.stop(ctx, t.id) }

// Dump reads all stored entries of one segment topic under a subscription of
// its own. backlog tells how much of that subscription is not acknowledged
// yet; it is polled to find the end.
func (w *Witness) Dump(ctx context.Context, url, segmentTopic, subscription string, backlog func(context.Context) (int64, error)) ([]Entry, error) {
	var entries []Entry
	t, err := w.Tail(ctx, url, segmentTopic, subscription, func(e Entry) { entries = append(entries, e) })
	if err == nil {
		err = pollZero(ctx, backlog, t.state)
	}
	if err != nil {
		return nil, fmt.Errorf("dump %s: %w", segmentTopic, err)
	}
	if err := t.Stop(ctx); err != nil {
		return nil, err
	}
	return entries, t.Err()
}
