package pulsartest

import (
	"slices"
	"sort"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// entry is one stored entry. It never changes.
type entry struct {
	n        int64 // how many entries the topic had before it, ever
	at       Position
	metadata []byte
	payload  []byte
	crc      uint32 // of payload
	info     frame.Info
	readable bool // the metadata can be decoded
	marker   bool
}

// newEntry takes the memory of e over.
func newEntry(e *frame.Entry) *entry {
	s := &entry{metadata: e.Metadata, payload: e.Payload, crc: e.PayloadCRC}
	info, err := frame.Scan(s.metadata)
	s.info, s.readable, s.marker = info, err == nil, err == nil && info.HasMarker
	return s
}

// messages is what the entry takes of a consumer's permits (facts 9.2).
func (e *entry) messages() int64 { return int64(max(e.info.NumMessages, 1)) }

// log is a managed ledger. Entries are numbered through all ledgers: start is
// the first that is still there, end the next to come.
type log struct {
	ids        *int64 // the cluster's last ledger
	ledgers    []int64
	entries    []*entry
	start      int64
	next       int64 // entry number in the current ledger
	last       Position
	terminated bool
	nothing    bool // terminated, and without an entry at its last load: no ledger is left
}

func newLog(ids *int64) *log {
	l := &log{ids: ids, last: noPosition()}
	l.roll()
	return l
}

// roll opens a new ledger, as every load of a topic does; of a terminated one, the load
// drops the ledgers without an entry.
func (l *log) roll() {
	if l.terminated {
		l.nothing = len(l.entries) == 0
		return
	}
	*l.ids++
	l.ledgers = append(l.ledgers, *l.ids)
	l.next = 0
}

func (l *log) end() int64 { return l.start + int64(len(l.entries)) }

// append stores e and gives it its position.
func (l *log) append(e *entry) {
	e.n, e.at = l.end(), Position{l.ledgers[len(l.ledgers)-1], l.next}
	l.next++
	l.last = e.at
	l.entries = append(l.entries, e)
}

// get returns entry n, the first one for what is trimmed, nil beyond the end.
func (l *log) get(n int64) *entry {
	n = max(n, l.start)
	if n >= l.end() {
		return nil
	}
	return l.entries[n-l.start]
}

// from is the number of the first entry at or above p.
func (l *log) from(p Position) int64 {
	return l.start + int64(sort.Search(len(l.entries), func(i int) bool { return l.entries[i].at.compare(p) >= 0 }))
}

// after is the number of the first entry above p.
func (l *log) after(p Position) int64 { return l.from(Position{p.Ledger, p.Entry + 1}) }

// before is where a cursor stands that has everything below entry n: at the entry before it, or
// before the first of the oldest ledger there is (5.0.1, observed).
func (l *log) before(n int64) Position {
	switch i := n - 1 - l.start; {
	case i >= 0 && i < int64(len(l.entries)):
		return l.entries[i].at
	case len(l.entries) > 0:
		return Position{l.entries[0].at.Ledger, -1}
	}
	return Position{l.ledgers[len(l.ledgers)-1], -1}
}

// opening is where a reader starts that asks for p, inclusive. In a trimmed ledger that
// is the next one there is; in one that never was, it is silently the earliest. Further
// beyond the end than the very next position it is beyond (P23).
func (l *log) opening(p Position, beyond int64) int64 {
	next := Position{l.last.Ledger, l.last.Entry + 1}
	if current := l.ledgers[len(l.ledgers)-1]; current > l.last.Ledger {
		next = Position{current, 0}
	}
	switch {
	case p.compare(next) > 0:
		return beyond
	case !slices.Contains(l.ledgers, p.Ledger):
		return l.start
	}
	return l.from(p)
}

// trim drops whole ledgers, except the last one, of which every entry is below
// keep.
func (l *log) trim(keep int64) {
	current := l.ledgers[len(l.ledgers)-1]
	if l.terminated && len(l.entries) > 0 {
		current = l.last.Ledger
	}
	cut := 0
	for i, e := range l.entries {
		lastOfLedger := i+1 == len(l.entries) || l.entries[i+1].at.Ledger != e.at.Ledger
		if e.at.Ledger == current || e.n >= keep {
			break
		}
		if lastOfLedger {
			cut = i + 1
		}
	}
	l.entries = slices.Clone(l.entries[cut:])
	l.start += int64(cut)
}
