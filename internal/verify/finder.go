package verify

import (
	"bytes"
	"slices"
	"sync"
)

// finder narrows ranges to messages: it remembers those of the target, then meets
// the source's with them. Segments of one side may be given at the same time.
type finder struct {
	wanted [ranges]bool
	of     int64          // only one entry in so many
	blocks map[block]bool // only these; nil: all
	lanes  *lanes
	order  *order
	shards [finderShards]finderShard

	mu     sync.Mutex
	limit  int
	faults []fault
	counts FaultCounts
}

const finderShards = 64

// finderShard holds some identities: not those of a range, since a key may be
// what was altered.
type finderShard struct {
	mu     sync.Mutex
	stored map[ident]stored
}

func (f *finder) shard(id ident) *finderShard {
	return &f.shards[uint64(id.pos.Entry+id.pos.Ledger)%finderShards]
}

// stored is a message of the target.
type stored struct {
	sum sum
	at  place
	met bool // the source has it
	n   int
}

// fault is one difference, as it was found.
type fault struct {
	kind   Kind
	id     ident
	key    []byte
	keyed  bool
	places []place
	before standing // out of order: what it should have come before
	fields []string

	entry *content // altered: the source's
	shown *shown
}

// newFinder narrows wanted ranges, of one entry in so many, and names at most
// limit faults.
func newFinder(l *lanes, wanted [ranges]bool, of int64, limit int, o *order) *finder {
	f := &finder{wanted: wanted, of: of, limit: limit, lanes: l, order: o}
	for i := range f.shards {
		f.shards[i].stored = map[ident]stored{}
	}
	return f
}

func (f *finder) wants(m *message) bool {
	return f.wanted[m.rng] && (f.blocks == nil || f.blocks[blockOf(m.ident)]) && (f.of <= 1 || (m.pos.Entry+31*m.pos.Ledger)%f.of == 0)
}

// target takes a message that the target holds.
func (f *finder) target(m *message, at place) {
	if !f.wants(m) {
		return
	}
	s := f.shard(m.ident)
	s.mu.Lock()
	old, twice := s.stored[m.ident]
	if !twice {
		s.stored[m.ident] = stored{sum: m.sum, at: at, n: m.n}
	}
	s.mu.Unlock()
	if twice {
		f.report(fault{kind: Duplicated, places: []place{old.at, at}}, m)
		return
	}
	if before, ok := f.order.see(m, at); !ok {
		f.report(fault{kind: OutOfOrder, places: []place{at}, before: before}, m)
	}
}

// source takes a message that both should hold, once all of the target is known.
func (f *finder) source(m *message) {
	if !f.wants(m) {
		return
	}
	old, there := f.meet(m.ident)
	switch {
	case there && old.sum == m.sum:
	case there:
		f.report(fault{kind: Altered, places: []place{old.at}, entry: m.entry.clone(), shown: m.shown.clone()}, m)
	default:
		// The target's entry may be one that cannot be opened.
		whole, there := f.meet(ident{lane: m.lane, index: wholeEntry, pos: m.pos})
		if !there || m.index == wholeEntry {
			f.report(fault{kind: Lost}, m)
			return
		}
		f.report(fault{kind: Altered, places: []place{whole.at}, fields: []string{"entry, which cannot be opened at the target"}}, m)
	}
}

func (f *finder) meet(id ident) (stored, bool) {
	s := f.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, there := s.stored[id]
	if there {
		old.met = true
		s.stored[id] = old
	}
	return old, there
}

// holds reports whether the target holds a message.
func (f *finder) holds(m *message) bool {
	s := f.shard(m.ident)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.stored[m.ident]
	return there
}

// finish reports what the source does not know.
func (f *finder) finish() {
	for i := range f.shards {
		for id, s := range f.shards[i].stored {
			if !s.met {
				f.report(fault{kind: Unknown, places: []place{s.at}}, &message{ident: id, n: s.n})
			}
		}
	}
	slices.SortFunc(f.faults, func(a, b fault) int {
		switch {
		case f.lanes.less(a.id, b.id):
			return -1
		case f.lanes.less(b.id, a.id):
			return 1
		}
		return int(a.kind) - int(b.kind)
	})
}

func (f *finder) report(x fault, m *message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.add(x.kind, int64(m.n))
	if len(f.faults) >= f.limit {
		return
	}
	x.id = m.ident
	if m.shown != nil {
		x.key, x.keyed = bytes.Clone(m.shown.key.Key), m.shown.key.HasKey
	}
	f.faults = append(f.faults, x)
}

func (c *content) clone() *content {
	return &content{producer: bytes.Clone(c.producer), outer: bytes.Clone(c.outer), whole: c.whole}
}

func (s *shown) clone() *shown {
	out := *s
	for _, b := range []*[]byte{&out.key.Key, &out.key.OrderingKey, &out.properties, &out.payload} {
		*b = bytes.Clone(*b)
	}
	return &out
}

// differingFields names the fields in which a message of the target is not what the
// source holds.
func differingFields(source, target *content, a, b *shown) (names []string) {
	note := func(name string, differs bool) {
		if differs && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	note("payload", !bytes.Equal(a.payload, b.payload))
	note("key", a.key.HasKey != b.key.HasKey || !bytes.Equal(a.key.Key, b.key.Key) || a.keyB64 != b.keyB64 || a.nullKey != b.nullKey)
	note("ordering_key", a.key.HasOrderingKey != b.key.HasOrderingKey || !bytes.Equal(a.key.OrderingKey, b.key.OrderingKey))
	note("properties", !bytes.Equal(a.properties, b.properties))
	note("sequence_id", a.sequence != b.sequence)
	note("event_time", a.event != b.event)
	note("null_value", a.nullValue != b.nullValue)
	note("producer_name", !bytes.Equal(source.producer, target.producer))
	left, right := byField(source.outer), byField(target.outer)
	for num := range left {
		note(fieldName(num), left[num] != right[num])
	}
	for num := range right {
		note(fieldName(num), left[num] != right[num])
	}
	slices.Sort(names)
	return names
}

func byField(outer []byte) map[int]string {
	out := map[int]string{}
	for b := outer; len(b) > 0; {
		f, ok := next(b)
		if !ok {
			out[0] += string(b)
			break
		}
		out[int(f.num)] += string(b[:f.size])
		b = b[f.size:]
	}
	return out
}

func fieldName(num int) string {
	switch num {
	case 2:
		return "sequence_id"
	case 3:
		return "publish_time"
	case 6, 17, 30:
		return "key"
	case 7:
		return "replicate_to"
	case 8, 9:
		return "compression"
	case 11:
		return "num_messages_in_batch"
	case 12:
		return "event_time"
	case 13, 14, 15:
		return "encryption"
	case 18:
		return "ordering_key"
	case 19:
		return "deliver_at_time"
	case 24:
		return "highest_sequence_id"
	case 25:
		return "null_value"
	case 26, 27, 28, 29:
		return "chunk"
	}
	return "other metadata"
}
