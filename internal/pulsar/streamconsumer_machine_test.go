package pulsar

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// line writes an effect as a test wants to read it.
func (e streamEffect) line() string {
	at := fmt.Sprintf("%d/%d", e.segment, e.opening)
	switch e.kind {
	case effectOpen:
		return fmt.Sprintf("open %s buckets=%d", at, len(e.spec.Buckets))
	case effectClose:
		return "close " + at
	case effectRetry:
		return fmt.Sprintf("retry %s failed=%d", at, e.failed)
	case effectFlow:
		return fmt.Sprintf("flow %s %d", at, e.permits)
	case effectAckCumulative:
		return fmt.Sprintf("ack %s to %s", at, e.ids[0])
	case effectAckIndividual:
		return fmt.Sprintf("ack %s each %v", at, e.ids)
	}
	return fmt.Sprintf("%s %s held=%d", e.news.State, at, e.news.Held)
}

func lines(effects []streamEffect) []string {
	var out []string
	for _, e := range effects {
		out = append(out, e.line())
	}
	return out
}

func sole(id uint64) AssignedSegment {
	return AssignedSegment{ID: id, HashEnd: 0xffff, Topic: fmt.Sprintf("segment://public/default/t/0000-ffff-%d", id)}
}

func shared(id uint64) AssignedSegment {
	s := sole(id)
	s.Buckets = []HashRange{{0, 0x7fff}, {0x8000, 0xffff}}
	return s
}

var errDied = errors.New("the consumer died")

type machineStep struct {
	name string
	do   func(*streamMachine)
	want string // effects, by "; "
}

func assigns(a ...AssignedSegment) func(*streamMachine) {
	return func(m *streamMachine) { m.assign(a) }
}

func opens(id, opening uint64, err error) func(*streamMachine) {
	return func(m *streamMachine) { m.opened(id, opening, err) }
}

func closes(id, opening uint64) func(*streamMachine) {
	return func(m *streamMachine) { m.closed(id, opening) }
}

func dies(id, opening uint64) func(*streamMachine) {
	return func(m *streamMachine) { m.died(id, opening, errDied) }
}

func settles(id, opening uint64, err error) func(*streamMachine) {
	return func(m *streamMachine) { m.receipt(id, opening, err) }
}

func comes(id, opening uint64, messages int64, entries ...int64) func(*streamMachine) {
	return func(m *streamMachine) {
		for _, e := range entries {
			m.deliver(id, opening, MessageID{1, e}, messages)
		}
	}
}

func acks(id uint64, entry int64, delivery uint64) func(*streamMachine) {
	return func(m *streamMachine) { m.ack(StreamPosition{id: {ID: MessageID{1, entry}, Delivery: delivery}}) }
}

// reads begins a table: segment 1 is read under opening 1.
func reads(s AssignedSegment) []machineStep {
	return []machineStep{
		{"assigned", assigns(s), fmt.Sprintf("opening 1/1 held=0; open 1/1 buckets=%d", len(s.Buckets))},
		{"opened", opens(1, 1, nil), "reading 1/1 held=0; flow 1/1 8"},
	}
}

func TestStreamMachine(t *testing.T) {
	tests := []struct {
		name  string
		steps []machineStep
	}{
		{"the same assignment disturbs nothing", append(reads(shared(1)),
			machineStep{"again", assigns(shared(1)), ""},
			machineStep{"a child comes", assigns(shared(1), sole(2)), "opening 2/2 held=0; open 2/2 buckets=0"},
			machineStep{"again, while it opens", assigns(sole(2), shared(1)), ""},
		)},
		{"a sole owner acknowledges cumulatively", append(reads(sole(1)),
			machineStep{"entries", comes(1, 1, 2, 10, 11, 12), ""},
			machineStep{"below all", acks(1, 9, 0), ""},
			machineStep{"between", acks(1, 11, 0), "ack 1/1 to 1:11; flow 1/1 4"},
			machineStep{"beyond what was delivered", acks(1, 99, 0), "ack 1/1 to 1:12; flow 1/1 2"},
			machineStep{"again", acks(1, 99, 0), ""},
			machineStep{"an unknown segment", acks(7, 1, 0), ""},
		)},
		{"a sharer acknowledges one by one", append(reads(shared(1)),
			machineStep{"entries, a dead peer's last", comes(1, 1, 1, 10, 12, 11), ""},
			machineStep{"what was done before it came", acks(1, 12, 2), "ack 1/1 each [1:10 1:12]; flow 1/1 2"},
			machineStep{"the rest", acks(1, 12, 3), "ack 1/1 each [1:11]"},
		)},
		{"a small renewal waits until the broker runs low", append(reads(sole(1)),
			machineStep{"one entry", comes(1, 1, 1, 1), ""},
			machineStep{"acknowledged", acks(1, 1, 0), "ack 1/1 to 1:1"},
			machineStep{"another", comes(1, 1, 1, 2), ""},
			machineStep{"acknowledged too", acks(1, 2, 0), "ack 1/1 to 1:2; flow 1/1 2"},
			machineStep{"a large batch overdraws", comes(1, 1, 20, 3), ""},
			machineStep{"given back", acks(1, 3, 0), "ack 1/1 to 1:3; flow 1/1 20"},
		)},
		{"drains before it flips", append(reads(sole(1)),
			machineStep{"entries", comes(1, 1, 1, 1, 2), ""},
			machineStep{"to be shared", assigns(shared(1)), "draining 1/1 held=2"},
			machineStep{"one more comes", comes(1, 1, 1, 3), ""},
			machineStep{"half", acks(1, 1, 0), "ack 1/1 to 1:1"},
			machineStep{"half confirmed", settles(1, 1, nil), ""},
			machineStep{"all that was delivered, not what was withheld", acks(1, 3, 0), "ack 1/1 to 1:2"},
			machineStep{"confirmed", settles(1, 1, nil), "closing 1/1 held=0; close 1/1"},
			machineStep{"closed", closes(1, 1), "opening 1/2 held=0; open 1/2 buckets=2"},
			machineStep{"late news of the former consumer", dies(1, 1), ""},
			machineStep{"opened", opens(1, 2, nil), "reading 1/2 held=0; flow 1/2 8"},
			machineStep{"an entry of the former consumer", comes(1, 1, 1, 3), ""},
			machineStep{"nothing of it is held", acks(1, 3, 0), ""},
		)},
		{"flips at once when nothing is held", append(reads(sole(1)),
			machineStep{"to be shared", assigns(shared(1)), "draining 1/1 held=0; closing 1/1 held=0; close 1/1"},
			machineStep{"and not, after all", assigns(sole(1)), ""},
			machineStep{"closed", closes(1, 1), "opening 1/2 held=0; open 1/2 buckets=0"},
		)},
		{"a drain is called off", append(reads(sole(1)),
			machineStep{"an entry", comes(1, 1, 1, 1), ""},
			machineStep{"to be shared", assigns(shared(1)), "draining 1/1 held=1"},
			machineStep{"not, after all", assigns(sole(1)), "reading 1/1 held=1"},
			machineStep{"it goes", assigns(), "draining 1/1 held=1"},
			machineStep{"one more comes", comes(1, 1, 1, 2), ""},
			machineStep{"not, after all, too late", assigns(sole(1)), ""},
			machineStep{"acknowledged", acks(1, 2, 0), "ack 1/1 to 1:1"},
			machineStep{"confirmed", settles(1, 1, nil), "closing 1/1 held=0; close 1/1"},
			machineStep{"closed", closes(1, 1), "opening 1/2 held=0; open 1/2 buckets=0"},
		)},
		{"a segment leaves", append(reads(shared(1)),
			machineStep{"an entry", comes(1, 1, 1, 1), ""},
			machineStep{"it goes", assigns(), "draining 1/1 held=1"},
			machineStep{"acknowledged", acks(1, 1, 0), "ack 1/1 each [1:1]"},
			machineStep{"confirmed", settles(1, 1, nil), "closing 1/1 held=0; close 1/1"},
			machineStep{"closed", closes(1, 1), "gone 1/1 held=0"},
		)},
		{"a consumer dies", append(reads(sole(1)),
			machineStep{"entries", comes(1, 1, 1, 1, 2), ""},
			machineStep{"dead", dies(1, 1), "waiting 1/1 held=0; retry 1/1 failed=1"},
			machineStep{"what it held is void", acks(1, 2, 0), ""},
			machineStep{"retry", func(m *streamMachine) { m.retry(1, 1) }, "opening 1/2 held=0; open 1/2 buckets=0"},
			machineStep{"a late retry", func(m *streamMachine) { m.retry(1, 1) }, ""},
			machineStep{"refused", opens(1, 2, errDied), "waiting 1/2 held=0; retry 1/2 failed=2"},
			machineStep{"the mode changes meanwhile", assigns(shared(1)), "opening 1/3 held=0; open 1/3 buckets=2"},
			machineStep{"dead before it is told open", dies(1, 3), ""},
			machineStep{"opened", opens(1, 3, nil), "waiting 1/3 held=0; retry 1/3 failed=1"},
			machineStep{"it goes", assigns(), "gone 1/3 held=0"},
		)},
		{"a consumer dies while it drains", append(reads(shared(1)),
			machineStep{"an entry", comes(1, 1, 1, 1), ""},
			machineStep{"to be sole", assigns(sole(1)), "draining 1/1 held=1"},
			machineStep{"dead", dies(1, 1), "waiting 1/1 held=0; retry 1/1 failed=1"},
			machineStep{"retry", func(m *streamMachine) { m.retry(1, 1) }, "opening 1/2 held=0; open 1/2 buckets=0"},
		)},
		{"the assignment changes while it opens", []machineStep{
			{"assigned", assigns(sole(1)), "opening 1/1 held=0; open 1/1 buckets=0"},
			{"shared", assigns(shared(1)), ""},
			{"opened", opens(1, 1, nil), "closing 1/1 held=0; close 1/1"},
			{"closed", closes(1, 1), "opening 1/2 held=0; open 1/2 buckets=2"},
			{"gone", assigns(), ""},
			{"opened", opens(1, 2, nil), "closing 1/2 held=0; close 1/2"},
			{"closed", closes(1, 2), "gone 1/2 held=0"},
		}},
		{"an acknowledgement fails", append(reads(shared(1)),
			machineStep{"entries", comes(1, 1, 1, 1, 2), ""},
			machineStep{"acknowledged", acks(1, 1, 0), "ack 1/1 each [1:1]"},
			machineStep{"refused", settles(1, 1, errDied), "closing 1/1 held=1; close 1/1"},
			machineStep{"closed", closes(1, 1), "waiting 1/1 held=0; retry 1/1 failed=1"},
		)},
		{"leaves", append(reads(sole(1)),
			machineStep{"two more", assigns(sole(1), sole(2), sole(3)), "opening 2/2 held=0; open 2/2 buckets=0; opening 3/3 held=0; open 3/3 buckets=0"},
			machineStep{"an entry", comes(1, 1, 1, 1), ""},
			machineStep{"one waits", opens(3, 3, errDied), "waiting 3/3 held=0; retry 3/3 failed=1"},
			machineStep{"leave", (*streamMachine).leave, "draining 1/1 held=1; gone 3/3 held=0"},
			machineStep{"assignments count no more", assigns(sole(1)), ""},
			machineStep{"not opened in time", opens(2, 2, errDied), "gone 2/2 held=0"},
			machineStep{"the deadline", (*streamMachine).abandon, "closing 1/1 held=1; close 1/1"},
			machineStep{"closed", closes(1, 1), "gone 1/1 held=0"},
		)},
		{"a topic made anew uses ids again", append(reads(sole(1)),
			machineStep{"another topic", assigns(AssignedSegment{ID: 1, Topic: "segment://public/default/t/0000-7fff-1"}),
				"draining 1/1 held=0; closing 1/1 held=0; close 1/1"},
		)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newStreamMachine(8)
			for _, step := range tt.steps {
				step.do(m)
				if got := strings.Join(lines(m.take()), "; "); got != step.want {
					t.Fatalf("%s:\n got %s\nwant %s", step.name, got, step.want)
				}
			}
		})
	}
}

// TestStreamMachineNeverLoses drives a machine at random against a broker that
// delivers in order and redelivers what was not acknowledged, and an
// application that finishes entries in their order of delivery.
func TestStreamMachineNeverLoses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &machineWorld{m: newStreamMachine(4), acked: map[MessageID]bool{}, done: map[MessageID]bool{}, at: StreamPosition{}}
		n := rapid.IntRange(1, 120).Draw(t, "steps")
		for range n {
			w.step(t, rapid.IntRange(0, 8).Draw(t, "step"))
			w.check(t)
		}
		w.m.leave()
		for range 2000 {
			if w.check(t); w.m.idle() {
				return
			}
			w.step(t, 2+rapid.IntRange(0, 4).Draw(t, "last steps")%5)
		}
		t.Fatalf("never left: %+v", w.m.segments[1])
	})
}

// machineWorld is one segment's broker, its one application, and what goes on
// between them.
type machineWorld struct {
	m       *streamMachine
	open    *streamEffect // asked for and not answered
	close   *streamEffect
	retry   *streamEffect
	live    uint64 // opening of the broker's consumer, 0 none
	shared  bool
	permits int64
	next    int64 // next entry to deliver to this consumer
	acked   map[MessageID]bool
	done    map[MessageID]bool
	inbox   []StreamMessage // delivered to the application, not finished
	unacked int             // receipts to come, of the live consumer
	at      StreamPosition
}

func (w *machineWorld) step(t *rapid.T, n int) {
	switch n {
	case 0:
		w.m.assign([]AssignedSegment{sole(1)})
	case 1:
		w.m.assign([]AssignedSegment{shared(1)})
	case 2:
		w.answer(t)
	case 3:
		if w.live != 0 && w.permits > 0 {
			w.deliver()
		}
	case 4:
		if len(w.inbox) > 0 {
			w.done[w.inbox[0].ID] = true
			w.at.Advance(w.inbox[0])
			w.inbox = w.inbox[1:]
		}
	case 5:
		w.m.ack(maps.Clone(w.at))
	case 6:
		if w.unacked > 0 {
			w.unacked--
			w.m.receipt(1, w.live, nil)
		}
	case 7:
		if w.live != 0 && w.close == nil {
			opening := w.live
			w.live, w.unacked = 0, 0
			w.m.died(1, opening, errDied)
		}
	case 8:
		w.m.assign(nil)
	}
	w.carryOut(t)
}

func (w *machineWorld) answer(t *rapid.T) {
	switch {
	case w.open != nil:
		e := w.open
		w.open = nil
		w.live, w.shared, w.permits, w.unacked = e.opening, len(e.spec.Buckets) > 0, 0, 0
		for w.next = 0; w.acked[MessageID{1, w.next}]; {
			w.next++
		}
		if !w.m.opened(1, e.opening, nil) {
			t.Fatal("a good consumer is not taken")
		}
	case w.close != nil:
		opening := w.close.opening
		w.close, w.live, w.unacked = nil, 0, 0
		w.m.closed(1, opening)
	case w.retry != nil:
		opening := w.retry.opening
		w.retry = nil
		w.m.retry(1, opening)
	}
}

func (w *machineWorld) deliver() {
	for w.acked[MessageID{1, w.next}] {
		w.next++
	}
	id := MessageID{1, w.next}
	w.next++
	w.permits--
	if delivery, ok := w.m.deliver(1, w.live, id, 1); ok {
		w.inbox = append(w.inbox, StreamMessage{Message: Message{ID: id}, Segment: 1, Delivery: delivery})
	}
}

func (w *machineWorld) carryOut(t *rapid.T) {
	for _, e := range w.m.take() {
		switch e.kind {
		case effectOpen:
			if w.live != 0 || w.open != nil {
				t.Fatalf("a second consumer: %s", e.line())
			}
			w.open, w.retry = &e, nil
		case effectClose:
			w.close = &e
			if s := w.m.segments[1]; len(s.held) > 0 {
				t.Fatalf("closes with %d held", len(s.held))
			}
		case effectRetry:
			w.retry = &e
		case effectFlow:
			w.permits += int64(e.permits)
		case effectAckCumulative, effectAckIndividual:
			w.ack(t, e)
		}
	}
}

func (w *machineWorld) ack(t *rapid.T, e streamEffect) {
	if e.opening != w.live || w.shared == (e.kind == effectAckCumulative) {
		t.Fatalf("acknowledges %s; the consumer is %d, shared %v", e.line(), w.live, w.shared)
	}
	w.unacked++
	ids := slices.Clone(e.ids)
	if e.kind == effectAckCumulative {
		ids = nil
		for n := int64(0); n <= e.ids[0].Entry; n++ {
			ids = append(ids, MessageID{1, n})
		}
	}
	for _, id := range ids {
		if !w.done[id] {
			t.Fatalf("acknowledges %s, which the application has not finished", id)
		}
		w.acked[id] = true
	}
}

func (w *machineWorld) check(t *rapid.T) {
	s := w.m.segments[1]
	if s == nil {
		return
	}
	if s.state == StreamReading && (s.granted != w.permits || s.granted+s.heldCount > 4) {
		t.Fatalf("%d permits for %d granted, %d held", w.permits, s.granted, s.heldCount)
	}
}
