package replicate

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

// world is the model of both clusters, and of the instances between them. See
// model_test.go.
type world struct {
	t       testing.TB
	rng     *rand.Rand
	shape   shape
	without knockout // the protection that does not work
	faulty  faults   // what may go wrong now
	steps   int
	options []option // of the present step

	// the source
	segments []*segment

	// the target
	layout     *reroute.Layout
	nextID     uint64
	logs       map[TargetID]*topic
	order      []*topic // the same, by id
	checkpoint *topic
	records    map[string]Record // on the checkpoint topic: the newest one of each lane
	lines      []*line           // all producers that somebody, client or broker, still knows
	stored     []storedMessage   // in the order of storing, over all segments

	instances []*instance
	holders   []*holder // sessions that live, and dead ones that a broker does not know to be dead
	crashed   bool
	watch     *watcher // nil: none
	trace     bool
	counts    counts
}

// shape is how large a world is.
type shape struct {
	instances int
	segments  int // of the source: 1, or 3 (one that was split) or 4 (one that was split, and merged again)
	entries   int // in each segment
}

// counts say what a run went through.
type counts map[string]int

type storedMessage struct {
	key string
	seq int
	at  TargetID
}

func newWorld(t testing.TB, seed uint64, sh shape) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 17)), shape: sh,
		logs: map[TargetID]*topic{}, records: map[string]Record{}, checkpoint: newTopic(TargetID{}), counts: counts{},
	}
	first := reroute.Segment{ID: 0, Range: reroute.FullRange(), CreatedAtMs: 1, Splits: []uint16{0x8000}}
	w.layout, w.nextID = mustLayout(t, 0, first), 1
	w.add(newTopic(targetID(&first)))
	w.publish()
	for i := range sh.instances {
		w.instances = append(w.instances, &instance{w: w, id: i, lanes: make([]lane, len(w.segments))})
	}
	return w
}

func mustLayout(t testing.TB, epoch uint64, segs ...reroute.Segment) *reroute.Layout {
	l, err := reroute.NewLayout("topic://public/default/t", epoch, segs)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// publish fills the source: batches and single messages of a few keys, each of
// which goes on in the children of a segment.
func (w *world) publish() {
	full := reroute.FullRange()
	left, right := reroute.HashRange{End: full.End / 2}, reroute.HashRange{Start: full.End/2 + 1, End: full.End}
	dag := []*segment{{rng: full}, {rng: left, parents: []int{0}}, {rng: right, parents: []int{0}}, {rng: full, parents: []int{1, 2}}}
	w.segments = dag[:w.shape.segments]
	next := map[string]int{}
	for i, s := range w.segments {
		s.id, s.lane = i, fmt.Sprintf("geobridge-lane-%d", i)
		for _, p := range s.parents {
			w.segments[p].sealed = true
		}
		for j := range w.shape.instances {
			s.prefer = append(s.prefer, j)
		}
		w.rng.Shuffle(len(s.prefer), func(a, b int) { s.prefer[a], s.prefer[b] = s.prefer[b], s.prefer[a] })
		var own []string
		for k := range 12 {
			if key := fmt.Sprintf("key-%d", k); s.rng.Contains(hashOf(key).Segment) {
				own = append(own, key)
			}
		}
		for n := range w.shape.entries {
			var keys []string
			var seqs []int
			for range 1 + w.rng.IntN(6) {
				key := own[w.rng.IntN(len(own))]
				next[key]++
				keys, seqs = append(keys, key), append(seqs, next[key])
			}
			s.entries = append(s.entries, testEntry(w.t, int64(n), keys, seqs))
		}
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

// check compares what the target holds with what the source held.
func (w *world) check(once bool) {
	want := map[string]int{}
	for _, s := range w.segments {
		for _, e := range s.entries {
			for _, m := range messagesOf(w.t, &part{entry: e}) {
				want[m.key] = max(want[m.key], m.seq)
			}
		}
	}
	last, twice := map[string]int{}, 0
	for _, m := range w.stored {
		switch {
		case m.seq == last[m.key]+1:
			last[m.key] = m.seq
		case m.seq <= last[m.key]:
			twice++
		default:
			w.t.Fatalf("%s: %d came after %d", m.key, m.seq, last[m.key])
		}
	}
	for key, n := range want {
		if last[key] != n {
			w.t.Fatalf("%s: %d of %d arrived", key, last[key], n)
		}
	}
	switch {
	case once && twice > 0:
		w.t.Fatalf("%d messages arrived twice", twice)
	case once && w.counts[lostEvidence] > 0:
		w.t.Fatalf("false alarm: evidence is said to be lost %d times", w.counts[lostEvidence])
	case twice > 0 && w.counts[lostEvidence] == 0:
		w.t.Fatalf("%d messages arrived twice, and nobody says that evidence was lost", twice)
	}
}
