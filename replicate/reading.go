package replicate

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// reading is how far one reading of a target segment is; the lanes that share it
// hold the same one. The broker tells how many entries there are, markers
// included, and never how large, so bytes are an estimate: by the mean of what
// was read. Before the first entry came, one byte each.
type reading struct {
	entries     atomic.Int64 // in all, by the broker's count near the beginning; 0: not told yet
	read, bytes atomic.Int64
}

func (r *reading) entry(size int) {
	r.read.Add(1)
	r.bytes.Add(int64(size))
}

// left estimates the bytes still to read.
func (r *reading) left() int64 {
	read := r.read.Load()
	return max(r.entries.Load()-read, 0) * max(r.bytes.Load()/max(read, 1), 1)
}

// readings are those that the lanes of a mapping wait for. Safe for concurrent use.
type readings struct {
	mu sync.Mutex
	of map[readingKey]*reading
}

type readingKey struct {
	lane   string
	target TargetID
}

// follow has a lane wait for a reading of a target segment; nil: no longer.
func (rs *readings) follow(lane string, target TargetID, r *reading) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	key := readingKey{lane, target}
	if r == nil {
		delete(rs.of, key)
		return
	}
	if rs.of == nil {
		rs.of = map[readingKey]*reading{}
	}
	rs.of[key] = r
}

// left estimates the bytes still to read, of a reading that lanes share once.
func (rs *readings) left() (n int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	seen := map[*reading]bool{}
	for _, r := range rs.of {
		if !seen[r] {
			seen[r] = true
			n += r.left()
		}
	}
	return n
}

// text says how far the readings are that a lane waits for; empty: not known.
func (rs *readings) text(lane string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var entries, bytes, left int64
	for key, r := range rs.of {
		if key.lane == lane {
			entries, bytes, left = entries+r.entries.Load(), bytes+r.bytes.Load(), left+r.left()
		}
	}
	switch {
	case entries == 0:
		return ""
	case bytes == 0:
		return fmt.Sprintf("0 of %d entries", entries)
	}
	return fmt.Sprintf("%s of %s", sizeText(bytes), sizeText(bytes+left))
}

func sizeText(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
