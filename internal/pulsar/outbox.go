package pulsar

import (
	"io"
	"net"
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

// sink writes a run of buffers: vectored on a plain TCP socket, coalesced into
// full records under TLS.
type sink func(*net.Buffers) error

// write is the connection's one writer. It returns when a write fails or done
// is closed.
func (o *outbox) write(done <-chan struct{}, out sink) error {
	w := writer{outbox: o, out: out}
	for {
		select {
		case <-done:
			return nil
		case <-o.wake:
		}
		w.batch = o.swap(w.batch)
		err := w.flush()
		w.batch.reset()
		if err != nil {
			return err
		}
	}
}

// writer holds the buffers of the loop, which are reused from batch to batch.
type writer struct {
	outbox *outbox
	out    sink
	batch  batch
	urgent []byte
	bufs   net.Buffers
	run    net.Buffers // what of bufs a sink has left
}

// flush writes the batch in runs, urgent frames before each.
func (w *writer) flush() error {
	next, start := 0, 0 // first item and head byte not written yet
	for {
		urgent, err := w.outbox.takeUrgent(w.urgent[:0])
		w.urgent = urgent
		if err != nil {
			w.batch.release(next)
			return err
		}
		end := w.gather(next, start)
		if len(w.bufs) == 0 {
			return nil
		}
		w.run = w.bufs
		err = w.out(&w.run)
		if end > next {
			start = w.batch.items[end-1].headEnd
		}
		// Written or not, the kernel or nobody needs the payloads any more.
		for i := next; i < end; i++ {
			w.batch.letGo(i)
		}
		if err != nil {
			w.batch.release(end)
			return err
		}
		if next = end; next == len(w.batch.items) {
			return nil
		}
	}
}

func (b *batch) letGo(i int) {
	if b.items[i].owner != nil {
		b.items[i].owner.Release()
	}
	b.items[i] = item{headEnd: b.items[i].headEnd}
}

// gather fills bufs with the urgent frames and the items from next on, as many
// as one write takes, and returns the first item left. Heads that follow each
// other without a payload go out as one buffer.
func (w *writer) gather(next, start int) int {
	w.bufs = w.bufs[:0]
	if len(w.urgent) > 0 {
		w.bufs = append(w.bufs, w.urgent)
	}
	size, headStart := 0, start
	for next < len(w.batch.items) && size < writeBytes && len(w.bufs) < writeBuffers {
		it := w.batch.items[next]
		next++
		if len(it.payload) > 0 {
			w.bufs = append(w.bufs, w.batch.heads[headStart:it.headEnd], it.payload)
			headStart = it.headEnd
		}
		size += it.headEnd - start + len(it.payload)
		start = it.headEnd
	}
	if headStart < start {
		w.bufs = append(w.bufs, w.batch.heads[headStart:start])
	}
	return next
}

// plainSink writes to a socket; *net.TCPConn does it with writev.
func plainSink(conn net.Conn) sink {
	return func(bufs *net.Buffers) error {
		_, err := bufs.WriteTo(conn)
		return err
	}
}

// coalescingSink copies buffers together before they become TLS records.
func coalescingSink(w io.Writer) sink {
	const record = 16 << 10
	buf := make([]byte, 0, 4*record)
	return func(bufs *net.Buffers) error {
		for _, b := range *bufs {
			for len(b) > 0 {
				n := copy(buf[len(buf):cap(buf)], b)
				buf, b = buf[:len(buf)+n], b[n:]
				if len(buf) < cap(buf) {
					continue
				}
				if _, err := w.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}
		if len(buf) == 0 {
			return nil
		}
		_, err := w.Write(buf)
		buf = buf[:0]
		return err
	}
}
