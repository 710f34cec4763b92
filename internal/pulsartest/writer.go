package pulsartest

import (
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// write is the writer: it ends with the connection, and ends it when the client
// was mute for two PINGs.
func (c *conn) write() {
	defer c.end()
	tick := time.NewTicker(c.keepAlive())
	defer tick.Stop()
	w := &writer{conn: c}
	for pinged := false; ; {
		select {
		case <-c.done:
			return
		case <-tick.C:
			if silent := !c.seen.Swap(false); silent && pinged {
				return
			}
			pinged = true
			c.send(ping())
		case <-c.wake:
		}
		if !c.running() {
			return
		}
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.mu.Unlock()
		for i := range queue {
			if !w.out(&queue[i]) {
				return
			}
			if queue[i].last {
				w.flush()
				return
			}
		}
		if !w.flush() {
			return
		}
	}
}

func ping() outgoing {
	c := base(pulsarpb.BaseCommand_PING)
	c.Ping = &pulsarpb.CommandPing{}
	return command(c)
}

// writer gathers frames, and obeys the hook.
type writer struct {
	conn *conn
	buf  []byte
	late []held[*outgoing]
}

const flushAt = 64 << 10

func (w *writer) flush() bool {
	if len(w.buf) == 0 {
		return true
	}
	// One who does not read is as mute as one who does not answer.
	_ = w.conn.nc.SetWriteDeadline(time.Now().Add(2 * w.conn.keepAlive())) // Write fails where this does
	_, err := w.conn.nc.Write(w.buf)
	w.buf = w.buf[:0]
	return err == nil
}

func (w *writer) out(o *outgoing) bool {
	switch a := w.conn.judgeSent(o); a.kind {
	case actDrop:
		return true
	case actReorder:
		w.late = append(w.late, held[*outgoing]{o, a.behind})
		return true
	case actCutBefore:
		w.flush()
		return false
	case actCutAfter:
		w.buf = o.append(w.buf)
		w.flush()
		return false
	case actDelay:
		if !w.flush() || !w.conn.pause(a.delay) {
			return false
		}
	}
	w.buf = o.append(w.buf)
	var due []*outgoing
	if w.late, due = passed(w.late); len(due) > 0 {
		for _, o := range due {
			w.buf = o.append(w.buf)
		}
	}
	return len(w.buf) < flushAt || w.flush()
}
