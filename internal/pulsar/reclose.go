package pulsar

import (
	"slices"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// unclosed is a handle whose close got no answer. What the broker still holds is
// a name that nobody else can take, or a consumer that is elected and deaf.
type unclosed struct {
	build   func(id uint64) *pulsarpb.BaseCommand
	request uint64 // the last one
	due     time.Time
	refused int
}

// closeRefusals: a broker that refuses a close this often does not know the handle.
const closeRefusals = 3

// reclose goes on asking for a close until the broker answers or the connection
// ends.
func (c *conn) reclose(build func(id uint64) *pulsarpb.BaseCommand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	now := time.Now()
	c.open = append(c.open, &unclosed{build: build, due: now})
	c.recloseDue(now)
}

// recloseDue is called with mu held.
func (c *conn) recloseDue(now time.Time) {
	for _, u := range c.open {
		if c.err != nil || now.Before(u.due) {
			continue
		}
		delete(c.calls, u.request)
		u.request, u.due = c.ids.Add(1), now.Add(c.opts.OperationTimeout)
		c.calls[u.request] = &call{want: pulsarpb.BaseCommand_SUCCESS, reply: make(chan result, 1), hook: func(r result) { c.reclosed(u, r) }}
		_ = c.out.command(u.build(u.request)) // only a dead connection refuses it
	}
}

func (c *conn) reclosed(u *unclosed, r result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.err != nil {
		if u.refused++; u.refused < closeRefusals {
			return
		}
	}
	c.open = slices.DeleteFunc(c.open, func(o *unclosed) bool { return o == u })
}
