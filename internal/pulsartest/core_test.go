package pulsartest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Published vectors of MurmurHash3_x86_32 with seed 0.
func TestMurmur(t *testing.T) {
	for text, want := range map[string]uint32{"": 0, "test": 0xba6bd213, "Hello, world!": 0xc0363e43,
		"The quick brown fox jumps over the lazy dog": 0x2e4ff723} {
		if got := murmur([]byte(text)); got != want {
			t.Errorf("%q: %#x, want %#x", text, got, want)
		}
	}
}

// Facts 2.2.
func TestBuckets(t *testing.T) {
	if d := cmp.Diff([]uint16{10922, 21845, 32768, 43690, 54613}, bucketSplits(6)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]uint16{16384, 32768, 49152}, bucketSplits(4)); d != "" {
		t.Error(d)
	}
	if len(bucketSplits(1)) != 0 || len(bucketSplits(0)) != 0 {
		t.Error("one bucket has no boundary")
	}
}

func TestLogTrims(t *testing.T) {
	ids := int64(0)
	l := newLog(&ids)
	for i := range 6 {
		if i == 2 || i == 4 {
			l.roll()
		}
		l.append(&entry{})
	}
	for _, tt := range []struct{ keep, start int64 }{{1, 0}, {2, 2}, {3, 2}, {4, 4}, {6, 4}} {
		l.trim(tt.keep) // whole ledgers, never the current one
		if l.start != tt.start || l.end() != 6 {
			t.Errorf("keep %d: %d to %d, want from %d", tt.keep, l.start, l.end(), tt.start)
		}
	}
	for p, want := range map[Position]int64{{1, 0}: 4, {3, 1}: 5, {3, 2}: 6, {3, 3}: 5, {9, 0}: 5, {-1, -1}: 4} {
		if got := l.opening(p, 5); got != want {
			t.Errorf("opening at %v: %d, want %d", p, got, want)
		}
	}
}

func TestCursorSettles(t *testing.T) {
	ids := int64(0)
	l, c := newLog(&ids), newCursor(0)
	for range 5 {
		l.append(&entry{})
	}
	for _, n := range []int64{3, 1, 1} {
		c.ack(n)
	}
	if c.mark != 0 || c.backlog(l) != 3 {
		t.Errorf("mark %d, backlog %d", c.mark, c.backlog(l))
	}
	c.ack(0)
	if c.mark != 2 || c.backlog(l) != 2 {
		t.Errorf("mark %d, backlog %d", c.mark, c.backlog(l))
	}
	c.ackTo(3)
	if c.mark != 4 || c.backlog(l) != 1 || c.read != 4 {
		t.Errorf("mark %d, backlog %d, read %d", c.mark, c.backlog(l), c.read)
	}
	c.rollBack()
	if c.mark != 0 || c.backlog(l) != 5 || c.read != 0 {
		t.Errorf("after a crash: mark %d, backlog %d, read %d", c.mark, c.backlog(l), c.read)
	}
}
