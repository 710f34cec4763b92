package pulsar

import (
	"sync"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

const (
	// writeBytes and writeBuffers bound one vectored write, so that a PONG
	// overtakes what is queued within that much.
	writeBytes   = 1 << 20
	writeBuffers = 512
	// keepHeads is how much of a head buffer is kept for the next batch.
	keepHeads = 1 << 20
)

// outbox is the queue before a connection's socket. Frames leave in the order
// they came in, except that keep-alive and credentials overtake. Pushing never
// waits; what bounds the queue is what its users allow themselves in flight.
type outbox struct {
	mu     sync.Mutex
	wake   chan struct{} // holds one token while there is something to write
	fill   batch
	urgent []byte // whole frames that overtake
	ping   bool   // a PING is wanted; one is enough
	pong   bool
	err    error // set once closed
}

// batch is a run of frames: their head bytes one after another in one buffer,
// and where each frame's payload comes in.
type batch struct {
	heads []byte
	items []item
}

// item is one frame: its head ends at headEnd in the batch's heads; payload
// and owner are empty for commands.
type item struct {
	headEnd int
	payload []byte
	owner   *frame.Entry
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// command queues a command without payload. Its error means that it will
// certainly not be sent.
func (o *outbox) command(cmd *pulsarpb.BaseCommand) error {
	return o.push(nil, nil, func(dst []byte) ([]byte, error) { return frame.AppendCommand(dst, cmd) })
}

// push queues a frame whose head is written by appendHead, followed by payload.
// The owner, where there is one, is retained until the frame was written or
// dropped.
func (o *outbox) push(payload []byte, owner *frame.Entry, appendHead func(dst []byte) ([]byte, error)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	heads, err := appendHead(o.fill.heads)
	if err != nil {
		return err
	}
	if owner != nil {
		owner.Retain()
	}
	o.fill.heads = heads
	o.fill.items = append(o.fill.items, item{headEnd: len(heads), payload: payload, owner: owner})
	o.signal()
	return nil
}

// overtake queues a command before everything else.
func (o *outbox) overtake(cmd *pulsarpb.BaseCommand) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	urgent, err := frame.AppendCommand(o.urgent, cmd)
	if err != nil {
		return err
	}
	o.urgent = urgent
	o.signal()
	return nil
}

// keepAlive queues a PING or a PONG unless one is queued already.
func (o *outbox) keepAlive(ping bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ping {
		o.ping = true
	} else {
		o.pong = true
	}
	o.signal()
}

// signal is called with mu held.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// close refuses all pushes from now on with err.
func (o *outbox) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

// drop lets go of what was never written. The writer must have ended.
func (o *outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fill.release(0)
	o.fill = batch{}
}

// release lets go of the owners of items from index i on.
func (b *batch) release(i int) {
	for ; i < len(b.items); i++ {
		if b.items[i].owner != nil {
			b.items[i].owner.Release()
		}
		b.items[i] = item{}
	}
}

func (b *batch) reset() {
	b.items = b.items[:0]
	b.heads = b.heads[:0]
	if cap(b.heads) > keepHeads {
		b.heads = nil
	}
}

// takeUrgent appends the frames that overtake.
func (o *outbox) takeUrgent(dst []byte) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	dst = append(dst, o.urgent...)
	o.urgent = o.urgent[:0]
	var err error
	if o.pong {
		dst, err = frame.AppendCommand(dst, pongCommand())
	}
	if o.ping && err == nil {
		dst, err = frame.AppendCommand(dst, pingCommand())
	}
	o.ping, o.pong = false, false
	return dst, err
}

// swap exchanges the queued batch for an empty one.
func (o *outbox) swap(empty batch) batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	full := o.fill
	o.fill = empty
	return full
}

func (b *batch) letGo(i int) {
	if b.items[i].owner != nil {
		b.items[i].owner.Release()
	}
	b.items[i] = item{headEnd: b.items[i].headEnd}
}
