package keyorder

// maxRuns bounds the segments remembered for a key; the oldest go first.
const maxRuns = 64

// lane is what is known of one key of one source.
type lane struct {
	published, maybe ranges
	seen             ranges
	acked            ranges
	high             stored // the highest number that came first
	recent           []stored
	oldest           int // index in recent, once it is full
	runs             []run
	doubled          bool // there was a second stored copy
	holders          map[string]*holder
}

// stored is a message under its position.
type stored struct {
	seq uint64
	at  Position
}

// run is what of a key has come from one segment.
type run struct {
	segment   string
	low, high uint64   // numbers
	last      Position // the highest
}

// holder is a consumer that was delivered messages of the key.
type holder struct {
	last stored // the latest delivery
	live bool   // last counts: nothing rewound the consumer since
	held []stored
}

// classify tells a redelivery from another stored copy.
func (l *lane) classify(s stored) Verdict {
	if !l.seen.has(s.seq) {
		return First
	}
	known := false
	for _, r := range l.recent {
		if r.seq != s.seq {
			continue
		}
		if r.at == s.at {
			return Redelivery
		}
		known = true
	}
	if known {
		return SecondCopy
	}
	for _, r := range l.runs {
		if r.segment == s.at.Segment && r.low <= s.seq && s.seq <= r.high && s.at.compare(r.last) <= 0 {
			return Redelivery
		}
	}
	if len(l.runs) == maxRuns && s.seq < l.runs[0].low {
		return Redelivery // from before anything that is remembered
	}
	return SecondCopy
}

// remember notes a stored copy that had not come before.
func (l *lane) remember(s stored, recent int) {
	l.seen.add(s.seq)
	if len(l.recent) < recent {
		l.recent = append(l.recent, s)
	} else {
		l.recent[l.oldest] = s
		l.oldest = (l.oldest + 1) % recent
	}
	for i := range l.runs {
		if r := &l.runs[i]; r.segment == s.at.Segment {
			r.low, r.high = min(r.low, s.seq), max(r.high, s.seq)
			if r.last.compare(s.at) < 0 {
				r.last = s.at
			}
			return
		}
	}
	if len(l.runs) == maxRuns {
		l.runs = append(l.runs[:0], l.runs[1:]...)
	}
	l.runs = append(l.runs, run{segment: s.at.Segment, low: s.seq, high: s.seq, last: s.at})
}

// rewinds reports whether a redelivery to h goes back. Within a segment, the
// position tells. From one segment to another the number does, unless the key has
// second copies, whose numbers go back by themselves.
func (l *lane) rewinds(h *holder, s stored) bool {
	switch {
	case !h.live:
		return false
	case h.last.at.Segment == s.at.Segment:
		return s.at.compare(h.last.at) <= 0
	}
	return !l.doubled && s.seq < h.last.seq
}

func (l *lane) holder(consumer string) *holder {
	h := l.holders[consumer]
	if h == nil {
		h = &holder{}
		if l.holders == nil {
			l.holders = map[string]*holder{}
		}
		l.holders[consumer] = h
	}
	return h
}

// ack takes a message, and those of its key before it, off what is held.
func (l *lane) ack(consumer string, seq uint64) {
	h := l.holders[consumer]
	if h == nil {
		return
	}
	rest := h.held[:0]
	for _, s := range h.held {
		if s.seq <= seq {
			l.acked.add(s.seq)
		} else {
			rest = append(rest, s)
		}
	}
	h.held = rest
}

// drop forgets what a consumer holds of a segment, which comes again.
func (h *holder) drop(segment string) {
	if h.last.at.Segment == segment {
		h.live = false
	}
	rest := h.held[:0]
	for _, s := range h.held {
		if s.at.Segment != segment {
			rest = append(rest, s)
		}
	}
	h.held = rest
}
