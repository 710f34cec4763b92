package reroute

// Source is what is known of the source segment an entry was stored in.
// Proves is false where its range tells nothing about the keys in it: a legacy
// segment, or one in which an opened entry held a key from outside the range.
type Source struct {
	Range  HashRange
	Proves bool
}

// SourceOf is the source that the segment itself makes: a legacy one proves
// nothing.
func SourceOf(s *Segment) Source { return Source{Range: s.Range, Proves: !s.Legacy()} }

// Whole is the proof that a batch goes whole without being opened: the source
// segment lies inside one target segment, and the stamp inside one of that
// segment's buckets. A target segment of one bucket needs no stamp, so even an
// encrypted batch goes whole into it. Without the proof it answers nil, false,
// and the entry is to be opened. Not for single-message entries, which are
// routed by their own key: see Place.
func (l *Layout) Whole(src Source, stamp Stamp) (*Segment, bool) {
	if !src.Proves || src.Range.Start > src.Range.End {
		return nil, false
	}
	target := l.ActiveAt(src.Range.Start)
	if !target.Range.Covers(src.Range) {
		return nil, false
	}
	if target.Buckets() == 1 {
		return target, true
	}
	if !stamp.Valid || target.Bucket(stamp.Min) != target.Bucket(stamp.Max) {
		return nil, false
	}
	return target, true
}

// Keyless is the target of an entry's keyless messages: the active segments
// that the source segment overlaps take turns. turn is the caller's count of
// entries, and any number is fine.
func (l *Layout) Keyless(src HashRange, turn uint64) *Segment {
	targets := l.Covering(src)
	if len(targets) == 0 {
		targets = l.active
	}
	return targets[turn%uint64(len(targets))]
}

// Place routes one message: its segment, the bucket in it, and its stamp.
// keyless is where a message without a key goes (see Keyless); nil stands for
// the first active segment.
func (l *Layout) Place(key Key, keyless *Segment) (seg *Segment, bucket int, stamp Stamp) {
	return l.place(key.Hash(), keyless)
}

func (l *Layout) place(h Hash, keyless *Segment) (*Segment, int, Stamp) {
	seg := keyless
	if h.Keyed {
		seg = l.ActiveAt(h.Segment)
	} else if seg == nil {
		seg = l.active[0]
	}
	return seg, seg.Bucket(h.Bucket), Stamp{Min: h.Bucket, Max: h.Bucket, Valid: true}
}

// Part is what of one entry travels on together: messages bound for one bucket
// of one target segment. Indices are positions in the keys given to Cut, in
// ascending order; Stamp is the tightest range of their bucket hashes.
type Part struct {
	Segment *Segment
	Bucket  int
	Indices []int
	Stamp   Stamp
}

// target is the bucket that a part is bound for.
type target struct {
	segment *Segment
	bucket  int
}

// Cut divides an opened entry: one part for each bucket of a target segment
// that any of its messages is bound for, in the order of their first message.
// keys are those of all messages; include selects some by ascending position,
// nil all of them. keyless is as in Place. One part means that the entry, or
// what is included of it, goes whole.
func (l *Layout) Cut(keys []Key, include []int, keyless *Segment) []Part {
	n := len(keys)
	if include != nil {
		n = len(include)
	}
	if n == 0 {
		return nil
	}
	var (
		parts  []Part
		counts []int
		of     = make([]int, n) // part of each included message
		known  map[target]int
	)
	for i := range n {
		seg, bucket, stamp := l.Place(keys[at(include, i)], keyless)
		p, ok := find(parts, known, target{seg, bucket})
		if !ok {
			p = len(parts)
			parts = append(parts, Part{Segment: seg, Bucket: bucket})
			counts = append(counts, 0)
			known = learn(parts, known)
		}
		parts[p].Stamp = parts[p].Stamp.Extend(stamp.Min)
		counts[p]++
		of[i] = p
	}
	indices := make([]int, n)
	for p, rest := 0, indices; p < len(parts); p++ {
		parts[p].Indices, rest = rest[:0:counts[p]], rest[counts[p]:]
	}
	for i, p := range of {
		parts[p].Indices = append(parts[p].Indices, at(include, i))
	}
	return parts
}

func at(include []int, i int) int {
	if include == nil {
		return i
	}
	return include[i]
}

// fewParts is up to how many parts a search from the last one beats a map.
// Almost every entry has fewer: it came from one bucket of the source.
const fewParts = 16

func find(parts []Part, known map[target]int, t target) (int, bool) {
	if known != nil {
		p, ok := known[t]
		return p, ok
	}
	for p := len(parts) - 1; p >= 0; p-- {
		if parts[p].Segment == t.segment && parts[p].Bucket == t.bucket {
			return p, true
		}
	}
	return 0, false
}

// learn keeps the map of known targets up to date after a part was appended.
func learn(parts []Part, known map[target]int) map[target]int {
	if known == nil {
		if len(parts) <= fewParts {
			return nil
		}
		known = make(map[target]int, 2*len(parts))
		for p := range parts {
			known[target{parts[p].Segment, parts[p].Bucket}] = p
		}
		return known
	}
	last := len(parts) - 1
	known[target{parts[last].Segment, parts[last].Bucket}] = last
	return known
}
