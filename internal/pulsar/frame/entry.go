package frame

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Entry is one stored entry: MessageMetadata and payload, as stored. It counts
// references; the last Release gives its memory back to the Pool it came from.
// The slices are read-only and die with the last reference.
type Entry struct {
	Metadata []byte
	Payload  []byte
	// PayloadCRC is the CRC32C of Payload alone, computed once on reading.
	PayloadCRC uint32
	// Checked tells that the entry carried a checksum, and it was right.
	Checked bool
	// BrokerMetadata is the serialized BrokerEntryMetadata in front of the
	// entry, nil if there was none.
	BrokerMetadata []byte

	buf  []byte
	pool *Pool
	refs atomic.Int32
}

// scratchSize is the room behind a pooled entry for its patched metadata.
const scratchSize = 512

// NewEntry makes an entry of built parts, with one reference. It takes the
// slices over and does not pool them.
func NewEntry(metadata, payload []byte) *Entry {
	e := &Entry{Metadata: metadata, Payload: payload, PayloadCRC: Checksum(0, payload)}
	e.refs.Store(1)
	return e
}

// Size is the length of the entry as stored, in bytes.
func (e *Entry) Size() int { return len(e.Metadata) + len(e.Payload) }

// Held is the memory the entry occupies, in bytes: what a byte budget counts.
// It exceeds Size by a quarter at most, and some hundred bytes.
func (e *Entry) Held() int {
	if e.buf == nil {
		return e.Size()
	}
	return cap(e.buf)
}

// Scratch is an empty slice over memory that lives and dies with the entry, nil
// if it has none to spare: AppendPatched into it allocates nothing. It is the
// same memory each time.
func (e *Entry) Scratch() []byte {
	if cap(e.buf)-len(e.buf) < scratchSize {
		return nil
	}
	return e.buf[len(e.buf):len(e.buf):cap(e.buf)]
}

// Retain adds a reference. The caller holds one already.
func (e *Entry) Retain() {
	if e.refs.Add(1) <= 1 {
		panic("frame: Retain of a released entry")
	}
}

// Release drops a reference. Dropping more than were taken panics, since the
// memory may belong to another entry by then.
func (e *Entry) Release() {
	n := e.refs.Add(-1)
	if n < 0 {
		panic("frame: entry released too often")
	}
	if n == 0 && e.pool != nil {
		e.pool.put(e)
	}
}

// Pool keeps the memory of released entries for the next ones, by size: four
// classes to each doubling, from 1 KiB to 16 MiB. The zero Pool is ready, and
// a nil *Pool just allocates. It shrinks with the garbage collector.
type Pool struct {
	classes [classCount]sync.Pool
}

const (
	minClassBits = 10
	maxClassBits = 24
	classCount   = (maxClassBits-minClassBits)*4 + 1
)

// classOf gives the smallest class for n bytes and the bytes it has; -1 if n
// is above all classes.
func classOf(n int) (class, size int) {
	if n <= 1<<minClassBits {
		return 0, 1 << minClassBits
	}
	b := bits.Len(uint(n-1)) - 1 // 2^b < n ≤ 2^(b+1)
	if b >= maxClassBits {
		return -1, n
	}
	quarter := 1 << (b - 2)
	q := (n - 1<<b + quarter - 1) / quarter // 1..4
	return (b-minClassBits)*4 + q, 1<<b + q*quarter
}

// get gives an entry with one reference and a buffer of length n.
func (p *Pool) get(n int) *Entry {
	class, size := classOf(n + scratchSize)
	if p != nil && class >= 0 {
		if e, _ := p.classes[class].Get().(*Entry); e != nil {
			e.buf = e.buf[:n]
			e.refs.Store(1)
			return e
		}
	}
	e := &Entry{buf: make([]byte, n, size)}
	if class >= 0 {
		e.pool = p
	}
	e.refs.Store(1)
	return e
}

func (p *Pool) put(e *Entry) {
	class, _ := classOf(cap(e.buf))
	e.Metadata, e.Payload, e.BrokerMetadata = nil, nil, nil
	e.PayloadCRC, e.Checked = 0, false
	p.classes[class].Put(e)
}
