package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	fewestReaders = 1
	mostReaders   = 4
	// turnEvery is the mean time between a reader's coming and another's going.
	turnEvery = 5 * time.Second
)

// crew is the readers at west.
type crew struct {
	stage *stage
	tally *tally
	tell  func(text string)
	rng   *rand.Rand
	parts sync.WaitGroup

	mu      sync.Mutex
	members []*member
}

// member is a reader at work.
type member struct {
	*reader
	leave context.CancelFunc
	done  chan struct{}
}

func newCrew(s *stage, t *tally, seed uint64, tell func(string)) *crew {
	return &crew{stage: s, tally: t, tell: tell, rng: rand.New(rand.NewPCG(seed, 3))}
}

// run begins with two readers; until shift ends, some come, leave, or are killed
// and start again. All go on until ctx ends, and leave then.
func (c *crew) run(ctx, shift context.Context) error {
	defer c.parts.Wait()
	for range 2 {
		if err := c.join(ctx); err != nil {
			return err
		}
	}
	for pause(shift, turnEvery/2+time.Duration(c.rng.Int64N(int64(turnEvery)))) == nil {
		if err := c.turn(ctx); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (c *crew) turn(ctx context.Context) error {
	n := c.count()
	switch p := c.rng.IntN(3); {
	case n <= fewestReaders, p == 0 && n < mostReaders:
		return c.join(ctx)
	case p == 1:
		return c.restart(ctx, c.pick())
	}
	m := c.pick()
	c.tell(m.name + " leaves")
	m.leave()
	<-m.done // nobody may have its name before
	c.gone(m)
	return nil
}

func (c *crew) join(ctx context.Context) error {
	name := c.free()
	c.tell(name + " joins")
	return c.start(ctx, name)
}

// restart kills a reader and starts it anew, as a supervisor would.
func (c *crew) restart(ctx context.Context, m *member) error {
	c.tell(m.name + " is killed, and starts again")
	m.kill()
	<-m.done
	c.gone(m)
	return c.start(ctx, m.name)
}

func (c *crew) start(ctx context.Context, name string) error {
	r, err := newReader(c.stage, name, c.tally)
	if err != nil {
		return err
	}
	m := &member{reader: r, done: make(chan struct{})}
	ctx, m.leave = context.WithCancel(ctx)
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	c.parts.Go(func() {
		defer close(m.done)
		defer m.leave()
		m.run(ctx)
	})
	return nil
}

func (c *crew) gone(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == m })
}

func (c *crew) pick() *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[c.rng.IntN(len(c.members))]
}

func (c *crew) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.members)
}

// free is the first name that nobody at work has.
func (c *crew) free() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := 1; ; n++ {
		name := fmt.Sprintf("reader-%d", n)
		if !slices.ContainsFunc(c.members, func(m *member) bool { return m.name == name }) {
			return name
		}
	}
}
