package witness

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/geobridge/geobridge/e2e/order"
)

// Produce describes a run of published messages.
type Produce struct {
	URL           string            `json:"url"`
	Topic         string            `json:"topic"`
	Name          string            `json:"name,omitempty"` // producer name
	IDPrefix      string            `json:"idPrefix"`       // ids are <prefix>-0, -1, …
	KeyPrefix     string            `json:"keyPrefix,omitempty"`
	Keys          int               `json:"keys"`
	Count         int               `json:"count"` // 0: until Stop
	Rate          int               `json:"rate"`  // messages per second, 0: as fast as it goes
	Size          int               `json:"size,omitempty"`
	Random        bool              `json:"random,omitempty"`      // values that do not compress
	Compression   string            `json:"compression,omitempty"` // NONE LZ4 ZLIB ZSTD SNAPPY
	BatchMessages int               `json:"batchMessages,omitempty"`
	BatchDelayMs  int               `json:"batchDelayMs,omitempty"`
	KeylessEvery  int               `json:"keylessEvery,omitempty"` // each n-th message has no key
	FirstSeq      int64             `json:"firstSeq,omitempty"`     // of each key, default 1
	PublicKey     string            `json:"publicKey,omitempty"`    // PEM file: encrypt
	Properties    map[string]string `json:"properties,omitempty"`
	Seed          int64             `json:"seed,omitempty"`
}

// Production is a running Produce.
type Production struct {
	*state
	w        *Witness
	id       int64
	receipts int
	failures int
	sinks    []func(m order.Message, receipted bool)
}

// Produce starts publishing. Each sink is told of every message whose fate is
// known, in no particular order, on the reader's goroutine.
func (w *Witness) Produce(ctx context.Context, spec Produce, sinks ...func(m order.Message, receipted bool)) (*Production, error) {
	p := &Production{state: newState(), w: w, sinks: sinks}
	id, err := w.send("produce", spec, p.handle)
	if err != nil {
		return nil, err
	}
	p.id = id
	return p, p.waitReady(ctx)
}

func (p *Production) handle(e event) {
	p.update(func() {
		if p.common(e) {
			return
		}
		for _, item := range e.Items {
			m, err := parseMessage(strings.Fields(item))
			if err != nil {
				p.err = err
				return
			}
			receipted := e.Kind == "sent"
			if receipted {
				p.receipts++
			} else {
				p.failures++
			}
			for _, sink := range p.sinks {
				sink(m, receipted)
			}
		}
	})
}

func parseMessage(fields []string) (order.Message, error) {
	if len(fields) != 3 {
		return order.Message{}, fmt.Errorf("a message in %q", fields)
	}
	seq, err := strconv.ParseInt(fields[2], 10, 64)
	return order.Message{ID: fields[0], Key: fields[1], Seq: seq}, err
}

// Receipts is the number of receipted messages so far.
func (p *Production) Receipts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.receipts
}

// WaitReceipts blocks until n messages are receipted.
func (p *Production) WaitReceipts(ctx context.Context, n int) error {
	return p.wait(ctx, func() bool { return p.receipts >= n }, p.describe)
}

// WaitDone blocks until a run with a Count is over: every message has its
// receipt or has failed.
func (p *Production) WaitDone(ctx context.Context) error {
	return p.wait(ctx, func() bool { return p.done }, p.describe)
}

// Stop publishes no more and waits for the fate of what is in flight.
func (p *Production) Stop(ctx context.Context) error {
	if err := p.w.stop(ctx, p.id); err != nil {
		return err
	}
	return p.WaitDone(ctx)
}

func (p *Production) describe() string {
	return fmt.Sprintf("%d receipts, %d failures", p.receipts, p.failures)
}
