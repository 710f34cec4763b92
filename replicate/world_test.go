package replicate

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

// world is a model of both clusters around one lane: a source segment, a target
// topic whose layout changes, and a checkpoint topic. Nothing in it happens by
// itself; step picks one of the things that could happen now.
type world struct {
	t   testing.TB
	rng *rand.Rand

	source  []*entry // the whole segment
	acked   int      // entries acknowledged
	given   int      // entries delivered to the present session
	permits int

	layout *reroute.Layout
	pushed *reroute.Layout // as the machine knows it
	nextID uint64
	logs   map[TargetID]*targetLog
	stored []storedMessage // in the order of storing, over all segments

	record     *Record // stored
	writing    []Record
	checkpoint bool // held by the present session
	claimGen   int

	m       *Machine
	pending []func() // what the brokers and the network still owe, in no order
	result  *Result
	lossy   bool     // a fault happened that may double
	watch   *watcher // nil: none
	counts  struct{ entries, reroutes, sessions, clean, present, lost int }
}

type targetLog struct {
	id     TargetID
	sealed bool
	gone   bool // pruned
	size   int64
	rolls  int64   // how often all that was stored was trimmed
	gen    int     // of the producer that holds the name; −1: none
	log    []found // what a scan would find
	inbox  []sent  // on the wire, in order
	owed   []Event // answers on the wire, in order
	closed bool    // the present producer was told that it is closed
}

type sent struct {
	gen  int
	part *part
}

type storedMessage struct {
	key string
	seq int
	at  TargetID
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 17)), logs: map[TargetID]*targetLog{}, nextID: 1}
	w.layout = mustLayout(t, 0, reroute.Segment{ID: 0, Range: reroute.FullRange(), CreatedAtMs: 1, Splits: []uint16{0x8000}})
	w.logs[TargetID{0, 1}] = &targetLog{id: TargetID{0, 1}, gen: -1}
	return w
}

func mustLayout(t testing.TB, epoch uint64, segs ...reroute.Segment) *reroute.Layout {
	l, err := reroute.NewLayout("topic://public/default/t", epoch, segs)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// publish appends n entries to the source: batches and single messages of a few keys.
func (w *world) publish(n int) {
	next := map[string]int{}
	for i := range n {
		size := 1 + w.rng.IntN(6)
		var keys []string
		var seqs []int
		for range size {
			key := fmt.Sprintf("key-%d", w.rng.IntN(12))
			next[key]++
			keys, seqs = append(keys, key), append(seqs, next[key])
		}
		w.source = append(w.source, testEntry(w.t, int64(i), keys, seqs))
	}
}

// testEntry is one stored entry; the payload of each message is key=seq.
func testEntry(t testing.TB, pos int64, keys []string, seqs []int) *entry {
	md := &pulsarpb.MessageMetadata{ProducerName: proto.String("app"), SequenceId: proto.Uint64(uint64(pos)), PublishTime: proto.Uint64(1)}
	var payload []byte
	if len(keys) == 1 {
		md.PartitionKey = proto.String(keys[0])
		payload = fmt.Appendf(nil, "%s=%d", keys[0], seqs[0])
	} else {
		md.NumMessagesInBatch = proto.Int32(int32(len(keys)))
		for i, key := range keys {
			body := fmt.Appendf(nil, "%s=%d", key, seqs[i])
			single, err := proto.Marshal(&pulsarpb.SingleMessageMetadata{PartitionKey: proto.String(key), PayloadSize: proto.Int32(int32(len(body)))})
			if err != nil {
				t.Fatal(err)
			}
			payload = binary.BigEndian.AppendUint32(payload, uint32(len(single)))
			payload = append(append(payload, single...), body...)
		}
	}
	metadata, err := proto.Marshal(md)
	if err != nil {
		t.Fatal(err)
	}
	info, err := frame.Scan(metadata)
	if err != nil {
		t.Fatal(err)
	}
	return &entry{pos: Position{Ledger: 7, Entry: pos}, raw: frame.NewEntry(metadata, payload), info: info}
}

// open starts a session that begins where the source was acknowledged.
func (w *world) open() {
	w.m = NewMachine(MachineConfig{
		Rules:       Rules{SourceCluster: "east", TargetCluster: "west", Lane: "geobridge-lane"},
		Source:      reroute.Source{Range: reroute.FullRange(), Proves: true},
		TargetTopic: "topic://public/default/t", MaxSize: 1 << 20, Window: 1 << 20, Tolerate: noPosition(),
		ParentsDone: true,
	})
	if w.watch != nil {
		w.watch.attach(w.m)
	}
	w.counts.sessions++
	w.result, w.pending, w.writing, w.checkpoint = nil, nil, nil, false
	w.given, w.permits, w.pushed = w.acked, 0, w.layout
	for _, l := range w.logs {
		l.owed, l.gen, l.closed = nil, -1, false // what is on the wire may land until the next barrier
	}
	w.do(Event{Kind: evLayout, Layout: w.layout})
	w.do(Event{Kind: evSubscribed})
	w.do(Event{Kind: evActive})
}

// do lets the machine take an event and carries its effects out.
func (w *world) do(ev Event) {
	if w.result != nil {
		return
	}
	if w.watch != nil {
		w.watch.before(ev)
	}
	effects := slices.Clone(w.m.Step(ev))
	if w.watch != nil {
		w.watch.after(ev, effects)
	}
	for _, ef := range effects {
		w.effect(ef)
	}
}

func (w *world) effect(ef Effect) {
	switch ef.Kind {
	case efClaimCheckpoint:
		w.later(func() {
			w.checkpoint, w.claimGen = true, ef.Gen
			ev := Event{Kind: evCheckpointClaimed, Gen: ef.Gen, Begun: true, Pos: Position{Ledger: 7, Entry: int64(w.acked) - 1}}
			if w.record != nil {
				rec := w.record.clone()
				ev.Record = &rec
			}
			w.do(ev)
		})
	case efWriteRecord:
		w.writing = append(w.writing, ef.Record)
	case efFlow:
		w.permits += ef.N
	case efAck:
		w.acked = max(w.acked, int(ef.Pos.Entry)+1)
		w.later(func() { w.do(Event{Kind: evAcked}) })
	case efClaim:
		w.later(func() { w.claim(ef) })
	case efScan:
		w.later(func() { w.scan(ef) })
	case efPresent:
		w.counts.present += ef.N
	case efLook:
		w.t.Fatalf("looks for what is missing in %v, and nothing is", ef.Hole)
	case efEvidenceLost:
		w.counts.lost++
	case efSend:
		l := w.logs[ef.Target]
		l.inbox = append(l.inbox, sent{gen: ef.Gen, part: ef.Part})
	case efDone:
		w.counts.entries++
	case efRerouted:
		w.counts.reroutes += ef.N
	case efClose:
		w.result = &ef.Result
	}
}

func (w *world) later(f func()) { w.pending = append(w.pending, f) }

// claim answers a CLAIM. Closing the old producer first brings its last answers;
// of a dead one, some of what is on the wire lands below the barrier, and no more.
func (w *world) claim(ef Effect) {
	l := w.logs[ef.Target]
	for len(l.inbox) > 0 && l.gen >= 0 {
		w.arrive(l)
	}
	w.land(l, w.rng.IntN(len(l.inbox)+1))
	l.inbox = nil
	for len(l.owed) > 0 {
		w.answer(l)
	}
	if l.gone {
		w.do(Event{Kind: evGone, Target: ef.Target, Gen: ef.Gen, Err: fmt.Errorf("topic not found")})
		if t := w.m.targets[ef.Target]; t != nil && t.state == targetClaiming && ef.Gen == t.gen+1 {
			w.later(func() { w.claim(ef) }) // the driver goes on trying
		}
		return
	}
	if l.sealed {
		w.do(Event{Kind: evEnded, Target: ef.Target, Gen: ef.Gen})
		return
	}
	l.gen, l.closed = ef.Gen, false
	l.size++ // the barrier
	w.do(Event{Kind: evClaimed, Target: ef.Target, Gen: ef.Gen, Pos: l.last(), Seq: 0})
}

// arrive lets the first send on the wire reach the broker.
func (w *world) arrive(l *targetLog) {
	if l.gen < 0 { // of a producer that is gone
		w.land(l, 1)
		return
	}
	s := l.inbox[0]
	l.inbox = l.inbox[1:]
	if l.sealed || l.closed || s.gen != l.gen {
		l.inbox = nil // dropped without an answer, and so is what follows
		return
	}
	pos := w.store(l, s.part)
	l.owed = append(l.owed, Event{Kind: evReceipt, Target: l.id, Gen: s.gen, Seq: s.part.seq, Pos: pos})
}

// last is the position of the last entry.
func (l *targetLog) last() Position {
	return Position{Ledger: int64(100+l.id.Segment) + 1000*l.rolls, Entry: l.size}
}

func (w *world) store(l *targetLog, p *part) Position {
	l.size++
	pos := l.last()
	for _, m := range messagesOf(w.t, p) {
		m.at = l.id
		w.stored = append(w.stored, m)
	}
	l.log = append(l.log, found{source: p.entry.pos, indices: p.indices, total: p.entry.messages(), at: pos})
	return pos
}

// land stores the first n sends of a producer that is gone: nobody hears of it.
func (w *world) land(l *targetLog, n int) {
	for _, s := range l.inbox[:n] {
		if !l.sealed {
			w.store(l, s.part)
		}
	}
	l.inbox = l.inbox[n:]
}

// scan answers with what is stored, as the machine must be able to rely on it.
func (w *world) scan(ef Effect) {
	ev := Event{Kind: evScanned, Target: ef.Target, Gen: ef.Gen, Pos: Position{Ledger: w.logs[ef.Target].last().Ledger, Entry: -1}}
	for _, f := range w.logs[ef.Target].log {
		if f.at.Compare(ef.From) > 0 && (ef.Pos == noPosition() || f.at.Compare(ef.Pos) <= 0) {
			ev.Found = append(ev.Found, f)
		}
	}
	w.do(ev)
}

func (w *world) answer(l *targetLog) {
	ev := l.owed[0]
	l.owed = l.owed[1:]
	w.do(ev)
}

// messagesOf opens what one send carries, as a reader at the target would.
func messagesOf(t testing.TB, p *part) []storedMessage {
	md, payload := p.metadata, p.payload
	if md == nil {
		md, payload = p.entry.raw.Metadata, p.entry.raw.Payload
	}
	info, err := frame.Scan(md)
	if err != nil {
		t.Fatal(err)
	}
	bodies := []string{string(payload)}
	if info.Batch {
		batch, err := frame.Open(&info, md, payload, maxUncompressed)
		if err != nil {
			t.Fatal(err)
		}
		bodies = nil
		for _, m := range batch.Messages {
			bodies = append(bodies, string(m.Payload))
		}
	}
	var out []storedMessage
	for _, b := range bodies {
		key, n, _ := strings.Cut(b, "=")
		seq := 0
		if _, err := fmt.Sscan(n, &seq); err != nil {
			t.Fatal(err)
		}
		out = append(out, storedMessage{key: key, seq: seq})
	}
	return out
}
