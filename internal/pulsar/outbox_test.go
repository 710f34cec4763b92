package pulsar

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// Whatever is pushed comes out once, in order, whole, and is let go of.
func TestOutboxKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOutbox()
		var want, got bytes.Buffer
		var owners []*frame.Entry
		out := func(bufs *net.Buffers) error {
			if len(*bufs) > writeBuffers+2 {
				t.Fatalf("%d buffers in one write", len(*bufs))
			}
			_, err := bufs.WriteTo(&got)
			return err
		}
		if rapid.Bool().Draw(t, "coalesce") {
			out = coalescingSink(&got)
		}
		w := writer{outbox: o, out: out}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			for range rapid.IntRange(0, 8).Draw(t, "runs") {
				frames := rapid.SampledFrom([]int{1, 1, 1, 3, 600}).Draw(t, "frames")
				size := rapid.SampledFrom([]int{0, 1, 300}).Draw(t, "payload")
				if frames == 1 && rapid.Bool().Draw(t, "large") {
					size = 400_000
				}
				for range frames {
					head, payload := []byte{byte(len(owners)), 'h'}, bytes.Repeat([]byte{byte(len(owners))}, size)
					var owner *frame.Entry
					if size > 0 {
						owner = frame.NewEntry(nil, payload)
						owners = append(owners, owner)
					}
					if err := o.push(payload, owner, func(dst []byte) ([]byte, error) { return append(dst, head...), nil }); err != nil {
						t.Fatal(err)
					}
					want.Write(head)
					want.Write(payload)
				}
			}
			w.batch = o.swap(w.batch)
			if err := w.flush(); err != nil {
				t.Fatal(err)
			}
			w.batch.reset()
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Fatalf("wrote %d bytes, want %d, or others", got.Len(), want.Len())
			}
		}
		for i, owner := range owners {
			if !lastReference(owner) {
				t.Fatalf("payload %d is still held", i)
			}
		}
	})
}

// lastReference drops our reference and tells whether it was the only one.
func lastReference(e *frame.Entry) (last bool) {
	e.Release()
	defer func() { last = recover() != nil }()
	e.Release()
	return
}

func TestOutboxKeepAliveOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		done, writes := make(chan struct{}), make(chan []byte)
		ended := make(chan error)
		go func() {
			ended <- o.write(done, func(bufs *net.Buffers) error {
				var b bytes.Buffer
				_, _ = bufs.WriteTo(&b)
				writes <- b.Bytes()
				return nil
			})
		}()
		big := make([]byte, writeBytes)
		for range 3 {
			if err := o.push(big, nil, func(dst []byte) ([]byte, error) { return append(dst, 'h'), nil }); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the first is being written
		o.keepAlive(false)
		o.keepAlive(false)
		pong, err := frame.AppendCommand(nil, pongCommand())
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range []int{1 + writeBytes, len(pong) + 1 + writeBytes, 1 + writeBytes} {
			if b := <-writes; len(b) != n || i == 1 && !bytes.HasPrefix(b, pong) {
				t.Errorf("write %d of %d bytes, want %d", i, len(b), n)
			}
		}
		close(done)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		o.close(errBrittle)
		if err := o.command(pingCommand()); !errors.Is(err, errBrittle) {
			t.Errorf("push after close: %v", err)
		}
	})
}
