package pulsar

import (
	"io"
	"net"
)

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
