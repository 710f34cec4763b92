package replicate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geobridge/geobridge/reroute"
)

// topic is a target segment, or the checkpoint topic, as its broker has it.
type topic struct {
	id           TargetID
	sealed, gone bool
	at           Position // of the last entry
	begins       int64    // the first ledger that was not trimmed
	high         Position // the highest floor that a record ever listed
	log          []storedPart
	holders      map[string]*line  // who holds a name
	limbo        map[string][]sent // what producers that are gone had brought to the broker: it may be stored yet
}

// storedPart is one stored part, as a scan would find it.
type storedPart struct {
	lane string
	found
}

// sent is one thing that a producer sends: a part, a record, or, of neither, a barrier.
type sent struct {
	part   *part
	record *Record
}

// line is one PRODUCER: from the client that asked for it to the broker.
type line struct {
	h       *holder
	on      *topic
	gen     int
	op      *operation // the claim that wants it
	wire    []sent     // sent, not with the broker yet
	owed    []Event    // answers, in order, not with the client yet
	claimed bool       // the client has the barrier's receipt
	failed  bool       // the client has heard of its end without
	closing bool       // the client has asked to close it, and forgotten it
	gone    bool       // the broker has forgotten it
}

func newTopic(id TargetID) *topic {
	ledger := int64(100 + 1000*id.Segment)
	return &topic{
		id: id, at: Position{Ledger: ledger, Entry: 0}, begins: ledger, high: noPosition(),
		holders: map[string]*line{}, limbo: map[string][]sent{},
	}
}

func (w *world) add(t *topic) {
	w.logs[t.id] = t
	w.order = append(w.order, t)
}

func (t *topic) next() Position {
	t.at.Entry++
	return t.at
}

var errCut = errors.New("connection lost")

// open is PRODUCER, at the broker: the name is free, or of one that does not
// answer, or busy.
func (w *world) open(h *holder, on *topic, gen int, op *operation) (l *line, busy bool) {
	if other := on.holders[h.seg.lane]; other != nil && !w.shares(on) {
		if !other.h.mute() || other.closing {
			w.counts[busyNames]++
			return nil, true
		}
		w.counts[putOut]++
		w.cut(other)
	}
	l = &line{h: h, on: on, gen: gen, op: op}
	on.holders[h.seg.lane] = l
	w.lines = append(w.lines, l)
	return l, false
}

func (w *world) shares(on *topic) bool {
	return on == w.checkpoint && w.without == unfenced || on != w.checkpoint && w.without == sharedNames
}

// loss is what a client hears of a line that is no more.
func (l *line) loss(w *world, err error) Event {
	if l.on == w.checkpoint {
		return Event{Kind: evCheckpointLost, Gen: l.gen, Err: err}
	}
	return Event{Kind: evDoubt, Target: l.on.id, Gen: l.gen, Err: err}
}

// release lets the name of a line go.
func (l *line) release() {
	if l.on.holders[l.h.seg.lane] == l {
		delete(l.on.holders, l.h.seg.lane)
	}
	l.gone = true
}

// cut ends a line: some of what is on the wire has reached the broker, and may be
// stored at any time until the next barrier; some of the answers have reached the
// client.
func (w *world) cut(l *line) {
	if l.gone {
		return
	}
	w.counts[inDoubt] += len(l.wire)
	w.note("line of %d to %d gen %d is cut, with %d on the wire and %d answers", l.h.in.id, l.on.id.Segment, l.gen, len(l.wire), len(l.owed))
	n, lane := w.rng.IntN(len(l.wire)+1), l.h.seg.lane
	l.on.limbo[lane] = append(l.on.limbo[lane], l.wire[:n]...)
	l.wire, l.owed = nil, l.owed[:w.rng.IntN(len(l.owed)+1)]
	l.release()
	l.owed = append(l.owed, l.loss(w, errCut))
}

// end closes a line as a client does that is polite: all that it sent comes
// first. Nobody listens to the answers.
func (w *world) end(l *line) {
	for len(l.wire) > 0 {
		w.arrive(l)
	}
	l.release()
	l.owed = nil
}

// arrive lets the first thing on the wire reach the broker.
func (w *world) arrive(l *line) {
	s := l.wire[0]
	l.wire = l.wire[1:]
	switch {
	case l.gone || l.on.sealed || l.on.gone:
		l.wire = nil // dropped without an answer, and so is what follows
	case s.part != nil:
		pos := w.store(l.on, l.h.seg.lane, s.part)
		l.owed = append(l.owed, Event{Kind: evReceipt, Target: l.on.id, Gen: l.gen, Seq: s.part.seq, Pos: pos})
	case s.record != nil:
		w.keep(l.h.seg.lane, *s.record)
		w.note("record of %s: %s", l.h.seg.lane, recordText(*s.record))
		l.owed = append(l.owed, Event{Kind: evRecordStored, Gen: l.gen})
	default:
		l.owed = append(l.owed, w.barrier(l))
	}
}

// barrier: nothing that the name sent before lands above it.
func (w *world) barrier(l *line) Event {
	lane := l.h.seg.lane
	for range w.rng.IntN(len(l.on.limbo[lane]) + 1) {
		w.land(l.on, lane)
	}
	if l.on == w.checkpoint {
		if w.without != noRecordBarrier && w.without != unfenced {
			delete(l.on.limbo, lane)
		}
		return Event{Kind: evCheckpointClaimed, Gen: l.gen}
	}
	if w.without != noBarrier {
		delete(l.on.limbo, lane)
	}
	return Event{Kind: evClaimed, Target: l.on.id, Gen: l.gen, Pos: l.on.next()}
}

// land stores the first thing that a producer which is gone had brought to the
// broker. Nobody hears of it.
func (w *world) land(on *topic, lane string) {
	s := on.limbo[lane][0]
	on.limbo[lane] = on.limbo[lane][1:]
	switch {
	case on.sealed || on.gone:
	case s.part != nil:
		w.note("late: %d[%s] in %d", s.part.entry.pos.Entry, appendIndices(nil, s.part.indices), on.id.Segment)
		w.counts[lateParts]++
		w.store(on, lane, s.part)
	case s.record != nil:
		w.note("late record of %s: %s", lane, recordText(*s.record))
		w.counts[lateRecords]++
		w.keep(lane, *s.record)
	default:
		on.next() // a barrier that nobody waits for
	}
}

func (w *world) store(on *topic, lane string, p *part) Position {
	pos := on.next()
	for _, m := range messagesOf(w.t, p) {
		m.at = on.id
		w.stored = append(w.stored, m)
	}
	on.log = append(on.log, storedPart{lane, found{source: p.entry.pos, indices: p.indices, total: p.entry.messages(), at: pos}})
	return pos
}

// read is the scan of a range, of which nothing is on its way any more.
func (w *world) read(on *topic, lane string, from, to Position) (all []found, begins Position) {
	for i, s := range on.log {
		if s.lane != lane || s.at.Compare(from) <= 0 || to != noPosition() && s.at.Compare(to) > 0 {
			continue
		}
		switch w.without {
		case noScan:
			continue
		case partNumbers: // as if a part were known by its place in an entry, not by what it holds
			s.indices = []int{i % s.total}
		}
		all = append(all, s.found)
	}
	return all, Position{Ledger: on.begins, Entry: -1}
}

// keep stores a record, and remembers the highest floors, which is how far the
// guard goes where no record lists a segment.
func (w *world) keep(lane string, rec Record) {
	if before := w.records[lane]; w.without == none && rec.Epoch < before.Epoch {
		w.t.Fatalf("%s: a record of epoch %d is stored above one of %d", lane, rec.Epoch, before.Epoch)
	} else if w.without == none && rec.Frontier.Compare(before.Frontier) < 0 && before.Epoch > 0 {
		w.t.Fatalf("%s: a record with the frontier %v is stored above one with %v", lane, rec.Frontier, before.Frontier)
	}
	w.records[lane] = rec
	for _, f := range rec.Floors {
		if t := w.logs[f.TargetID]; t != nil && f.Pos.Compare(t.high) > 0 {
			t.high = f.Pos
		}
	}
}

// trim is the guard's work, and the broker's: of each ledger that the guard has
// passed all is gone, since no application keeps anything.
func (w *world) trim(t *topic) {
	to := t.high
	if low, listed := w.floor(t.id); listed {
		to = low
	}
	if w.without == heedlessGuard {
		to = t.at
	}
	if to = below(to); to.Ledger <= t.begins {
		return
	}
	before := len(t.log)
	w.note("segment %d is trimmed below ledger %d", t.id.Segment, to.Ledger)
	t.begins = to.Ledger
	t.log = slices.DeleteFunc(t.log, func(s storedPart) bool { return s.at.Ledger < t.begins })
	w.counts[trimmed] += before - len(t.log)
}

// floor is the lowest floor of a segment in the records that count: stored, under way,
// or about to be written. The guard looks every few seconds, and twice before it lets
// a segment be pruned: that is taken to be longer than it takes from a claim to the
// receipt of the record that declares it.
func (w *world) floor(id TargetID) (low Position, listed bool) {
	take := func(rec *Record) bool {
		f := rec.floor(id)
		if f != nil && (!listed || f.Pos.Compare(low) < 0) {
			low, listed = f.Pos, true
		}
		return f != nil
	}
	sends := func(all []sent) {
		for _, s := range all {
			if s.record != nil {
				take(s.record)
			}
		}
	}
	for _, s := range w.segments {
		if rec := w.records[s.lane]; !s.gone {
			take(&rec)
		}
		sends(w.checkpoint.limbo[s.lane])
	}
	for _, l := range w.lines {
		if l.on == w.checkpoint {
			sends(l.wire)
		}
	}
	for _, h := range w.holders {
		if !h.dead && !h.deposed() && !take(&h.m.record) && h.targets[id] != nil {
			low, listed = noPosition(), true // it is being claimed
		}
	}
	return low, listed
}

// roll begins a new ledger.
func (t *topic) roll() { t.at = Position{Ledger: t.at.Ledger + 1, Entry: -1} }

// seal ends a segment. What was stored is receipted, then the producers are told.
func (w *world) seal(t *topic) {
	w.note("segment %d is sealed", t.id.Segment)
	t.sealed = true
	clear(t.limbo)
	for _, l := range w.lines {
		if l.on != t || l.gone {
			continue
		}
		l.wire = nil
		l.release()
		for range 1 + w.rng.IntN(3) {
			l.owed = append(l.owed, l.loss(w, fmt.Errorf("closed by the broker")))
		}
	}
}

// remove prunes a sealed segment: it leaves the layout.
func (w *world) remove(t *topic) {
	w.note("segment %d is pruned", t.id.Segment)
	t.gone = true
	var segs []reroute.Segment
	for _, s := range w.layout.Segments() {
		if targetID(s) == t.id {
			continue
		}
		c := *s
		c.Parents = slices.DeleteFunc(slices.Clone(c.Parents), func(p uint64) bool { return p == t.id.Segment })
		segs = append(segs, c)
	}
	w.layout = mustLayout(w.t, w.layout.Epoch+1, segs...)
}
