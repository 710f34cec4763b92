package rig

import (
	"io"
	"net"
	"testing"
	"time"
)

// throughCut is a connection to an echo through a Cut.
func throughCut(t *testing.T) (*Cut, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	cut, err := NewCut(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cut.Close() })
	conn, err := net.Dial("tcp", cut.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return cut, conn
}

func TestCutStallsOneWay(t *testing.T) {
	cut, conn := throughCut(t)
	cut.Stall(Down)
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	// It went up: only then is there something to hold up on the way down.
	if err := Poll(t.Context(), time.Millisecond, func() error {
		if cut.Bytes() < 5 {
			return io.ErrShortWrite
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(buf); err == nil {
		t.Fatalf("%d bytes came through", n)
	}
	cut.Heal()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hello" {
		t.Errorf("after Heal: %q, %v", buf, err)
	}
}

func TestCutSeversInTheMiddle(t *testing.T) {
	cut, conn := throughCut(t)
	cut.SeverAfter(Up, 3)
	if !cut.Lit() {
		t.Error("not lit")
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if all, err := io.ReadAll(conn); err == nil || len(all) > 3 {
		t.Errorf("read %q, %v; want at most 3 bytes and a reset", all, err)
	}
	if cut.Lit() {
		t.Error("lit still")
	}
	if got := cut.Bytes(); got < 3 || got > 6 {
		t.Errorf("%d bytes were carried, want 3 up and at most those down", got)
	}
}
