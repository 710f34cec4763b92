package witness

import (
	"context"
	"fmt"
	"strings"

	"github.com/geobridge/geobridge/e2e/order"
)

// Consume describes a group of Stream consumers.
type Consume struct {
	URL          string `json:"url"`
	Topic        string `json:"topic"`
	Subscription string `json:"subscription"`
	Consumers    int    `json:"consumers"`
	PrivateKey   string `json:"privateKey,omitempty"` // PEM file: decrypt
}

// Consumption is a running Consume, judged as it goes.
type Consumption struct {
	*state
	w       *Witness
	spec    Consume
	id      int64 // of the command
	opened  int   // how often
	broken  bool  // err is about what came, and stays
	checker *order.Checker
	froms   map[string]int // replicated_from → messages
	shares  map[string]int // consumer → messages
}

// Consume subscribes and reads from the earliest message on.
func (w *Witness) Consume(ctx context.Context, spec Consume) (*Consumption, error) {
	c := &Consumption{state: newState(), w: w, spec: spec, checker: order.New(), froms: map[string]int{}, shares: map[string]int{}}
	return c, c.open(ctx)
}

// open begins to read. What earlier consumers still tell of their end is not of these.
func (c *Consumption) open(ctx context.Context) (err error) {
	var turn int
	c.update(func() {
		c.opened++
		c.ready, turn = false, c.opened
		if !c.broken {
			c.err = nil
		}
	})
	handle := func(e event) {
		c.update(func() {
			if turn == c.opened || e.Kind == "got" || e.Kind == "trouble" {
				c.handle(e)
			}
		})
	}
	if c.id, err = c.w.send("consume", c.spec, handle); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// Name says which consumers these are.
func (c *Consumption) Name() string { return c.spec.Subscription + " on " + c.spec.Topic }

// Reopen closes the consumers and opens others in their place. Neither it nor Stop may be
// called side by side.
func (c *Consumption) Reopen(ctx context.Context) error {
	if err := c.Stop(ctx); err != nil {
		return err
	}
	return c.open(ctx)
}

// handle takes an event; the caller holds the lock.
func (c *Consumption) handle(e event) {
	if c.common(e) {
		return
	}
	for _, item := range e.Items { // consumer position replicatedFrom id key seq
		fields := strings.Fields(item)
		if len(fields) != 6 {
			c.err, c.broken = fmt.Errorf("an arrival in %q", item), true
			return
		}
		m, err := parseMessage(fields[3:])
		if err != nil {
			c.err, c.broken = err, true
			return
		}
		c.checker.Arrived(m, fields[1])
		c.froms[fields[2]]++
		c.shares[fields[0]]++
	}
}

// Expect is a sink for Produce: what it is told has to arrive here.
func (c *Consumption) Expect(m order.Message, receipted bool) {
	c.update(func() {
		if receipted {
			c.checker.Published(m)
		} else {
			c.checker.Maybe(m)
		}
	})
}

// WaitAll blocks until all that was published has arrived.
func (c *Consumption) WaitAll(ctx context.Context) error {
	return c.wait(ctx, func() bool { return c.checker.Waiting() == 0 }, c.describe)
}

// WaitDistinct blocks until n different messages have arrived.
func (c *Consumption) WaitDistinct(ctx context.Context, n int) error {
	return c.wait(ctx, func() bool { return c.checker.Distinct() >= n }, c.describe)
}

// Distinct is the number of different messages that have arrived.
func (c *Consumption) Distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checker.Distinct()
}

// Arrived reports whether the message with that id has arrived.
func (c *Consumption) Arrived(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checker.Copies(id) > 0
}

// Report judges what has arrived so far.
func (c *Consumption) Report() order.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checker.Report()
}

// ReplicatedFrom counts the arrivals by their replicated_from ("-" for none).
func (c *Consumption) ReplicatedFrom() map[string]int { return c.copyOf(c.froms) }

// Shares counts the arrivals by consumer.
func (c *Consumption) Shares() map[string]int { return c.copyOf(c.shares) }

func (c *Consumption) copyOf(m map[string]int) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// Stop closes the consumers.
func (c *Consumption) Stop(ctx context.Context) error { return c.w.stop(ctx, c.id) }

func (c *Consumption) describe() string {
	r := c.checker.Report()
	return fmt.Sprintf("%s; trouble: %v; first missing: %v", r, c.trouble, r.Lost[:min(len(r.Lost), 5)])
}
