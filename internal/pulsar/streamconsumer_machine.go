package pulsar

import (
	"maps"
	"slices"
)

// streamMachine decides which segments a stream consumer reads, and how: the
// assignment, draining, reopening, permits, and the translation of
// acknowledgements. It is pure; the driver feeds it events and carries out what
// it wants.
//
//	opening ──▶ reading ──▶ draining ──▶ closing ──▶ opening, or gone
//	   │           │            │
//	   └───────────┴────────────┴─────▶ waiting ───▶ opening
type streamMachine struct {
	window   int64
	segments map[uint64]*streamSegment
	openings uint64 // numbers consumers, so that news of a former one is told apart
	delivery uint64
	leaving  bool
	out      []streamEffect
}

type streamSegment struct {
	spec    AssignedSegment  // of the present consumer
	want    *AssignedSegment // nil when it shall go
	state   StreamState
	opening uint64
	failed  int   // times in a row
	err     error // the last failure
	sick    bool  // closes because it failed

	held      []heldEntry // in the order of delivery
	heldCount int64       // messages in held
	granted   int64       // permits that the broker has left; the last entry overdraws
	unsettled int         // acknowledgements without a receipt
	withheld  bool        // something came and was not delivered, since it drains
	lost      error       // the consumer died before its opening was told
}

// heldEntry was delivered and is not acknowledged.
type heldEntry struct {
	id       MessageID
	messages int64
	delivery uint64
}

type streamEffectKind int

const (
	effectOpen streamEffectKind = iota
	effectClose
	effectRetry // after a pause
	effectFlow
	effectAckCumulative
	effectAckIndividual
	effectNews
)

type streamEffect struct {
	kind    streamEffectKind
	segment uint64
	opening uint64
	spec    AssignedSegment // to open
	failed  int             // before the retry
	permits uint32
	ids     []MessageID
	news    StreamSegment
}

func newStreamMachine(window uint32) *streamMachine {
	return &streamMachine{window: int64(window), segments: map[uint64]*streamSegment{}}
}

// take gives what is to be done since the last call, in order.
func (m *streamMachine) take() []streamEffect {
	out := m.out
	m.out = nil
	return out
}

func (m *streamMachine) idle() bool { return len(m.segments) == 0 }

// assign makes the assignment the wanted state; the same one again changes
// nothing.
func (m *streamMachine) assign(a []AssignedSegment) {
	if m.leaving {
		return
	}
	m.aim(a)
}

// leave lets all segments go, drained.
func (m *streamMachine) leave() {
	m.leaving = true
	m.aim(nil)
}

// abandon closes what still drains.
func (m *streamMachine) abandon() {
	for _, id := range slices.Sorted(maps.Keys(m.segments)) {
		if s := m.segments[id]; s.state == StreamReading || s.state == StreamDraining {
			m.close(s)
		}
	}
}

func (m *streamMachine) aim(a []AssignedSegment) {
	want := map[uint64]*AssignedSegment{}
	for i := range a {
		want[a[i].ID] = &a[i]
	}
	for _, id := range slices.Sorted(maps.Keys(m.segments)) {
		m.retarget(m.segments[id], want[id])
		delete(want, id)
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		s := &streamSegment{want: want[id]}
		m.segments[id] = s
		m.open(s)
	}
}

// sameAttachment reports whether a consumer for a serves b: a boundary list
// never changes within a segment's life, but the mode does, and a topic made anew
// uses ids again.
func sameAttachment(a, b *AssignedSegment) bool {
	return b != nil && a.Topic == b.Topic && slices.Equal(a.Buckets, b.Buckets)
}

// retarget changes what is wanted of a segment. While it opens or closes, that
// is looked at when it is done.
func (m *streamMachine) retarget(s *streamSegment, want *AssignedSegment) {
	s.want = want
	same := sameAttachment(&s.spec, want)
	switch s.state {
	case StreamWaiting:
		if want == nil {
			m.drop(s)
		} else if !same {
			s.failed = 0
			m.open(s)
		}
	case StreamReading:
		if !same {
			s.withheld = false
			m.enter(s, StreamDraining)
			m.drained(s)
		}
	case StreamDraining:
		// What was withheld would never come again from the same consumer.
		if same && !s.withheld {
			m.enter(s, StreamReading)
			m.permit(s)
		}
	}
}

func (m *streamMachine) open(s *streamSegment) {
	m.openings++
	s.spec, s.opening = *s.want, m.openings
	s.held, s.heldCount, s.granted, s.unsettled = nil, 0, 0, 0
	s.withheld, s.sick, s.lost = false, false, nil
	m.enter(s, StreamOpening)
	m.emit(s, streamEffect{kind: effectOpen, spec: s.spec})
}

// opened tells how an opening ended. It reports whether its consumer is alive
// and the machine's from now on.
func (m *streamMachine) opened(id, opening uint64, err error) bool {
	s := m.find(id, opening)
	if s == nil || s.state != StreamOpening {
		return false
	}
	if err == nil {
		err = s.lost
	}
	switch {
	case err != nil:
		m.fail(s, err)
		return false
	case !sameAttachment(&s.spec, s.want):
		m.close(s)
	default:
		s.err = nil
		m.enter(s, StreamReading)
		m.permit(s)
	}
	return true
}

// died tells that a consumer ended without being asked.
func (m *streamMachine) died(id, opening uint64, err error) {
	s := m.find(id, opening)
	if s == nil {
		return
	}
	switch s.state {
	case StreamOpening:
		s.lost = err
	case StreamReading, StreamDraining:
		m.fail(s, err)
	}
}

// closed tells that a consumer was closed as wanted.
func (m *streamMachine) closed(id, opening uint64) {
	s := m.find(id, opening)
	switch {
	case s == nil || s.state != StreamClosing:
	case s.sick:
		m.fail(s, s.err)
	case s.want == nil:
		m.drop(s)
	default:
		m.open(s)
	}
}

func (m *streamMachine) retry(id, opening uint64) {
	if s := m.find(id, opening); s != nil && s.state == StreamWaiting {
		m.open(s)
	}
}

// fail forgets the consumer, and what it held: that comes again.
func (m *streamMachine) fail(s *streamSegment, err error) {
	s.err, s.sick = err, false
	s.failed++
	s.held, s.heldCount, s.unsettled = nil, 0, 0
	if s.want == nil {
		m.drop(s)
		return
	}
	m.enter(s, StreamWaiting)
	m.emit(s, streamEffect{kind: effectRetry, failed: s.failed})
}

func (m *streamMachine) close(s *streamSegment) {
	m.enter(s, StreamClosing)
	m.emit(s, streamEffect{kind: effectClose})
}

// drained closes a segment that drains and has nothing left.
func (m *streamMachine) drained(s *streamSegment) {
	if s.state == StreamDraining && len(s.held) == 0 && s.unsettled == 0 {
		m.close(s)
	}
}

func (m *streamMachine) drop(s *streamSegment) {
	delete(m.segments, s.spec.ID)
	s.held, s.heldCount = nil, 0
	m.enter(s, StreamGone)
}

func (m *streamMachine) find(id, opening uint64) *streamSegment {
	if s := m.segments[id]; s != nil && s.opening == opening {
		return s
	}
	return nil
}

func (m *streamMachine) enter(s *streamSegment, state StreamState) {
	s.state = state
	news := StreamSegment{Assigned: s.spec, State: state, Held: len(s.held)}
	if state == StreamWaiting || state == StreamGone {
		news.Err = s.err
	}
	m.emit(s, streamEffect{kind: effectNews, news: news})
}

func (m *streamMachine) emit(s *streamSegment, e streamEffect) {
	e.segment, e.opening = s.spec.ID, s.opening
	m.out = append(m.out, e)
}
