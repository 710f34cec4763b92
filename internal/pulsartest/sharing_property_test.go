package pulsartest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// sharer is a consumer of a world of them, and what it holds of each bucket.
type sharer struct {
	client
	*consumer
	w    *sharedWorld
	held [3][]int64
}

type sharedWorld struct {
	t       *rapid.T
	topic   *topic
	members []*sharer
	next    int
	done    map[int64]bool // acknowledged
}

func bucketOfEntry(n int64) int { return int(n*7+n/3) % 3 }

func (s *sharer) send(o outgoing) {
	if o.message == nil {
		return
	}
	n, w := o.entry.n, s.w
	b := bucketOfEntry(n)
	if w.done[n] {
		w.t.Fatalf("entry %d was acknowledged", n)
	}
	for _, other := range w.members {
		if other != s && len(other.held[b]) > 0 {
			w.t.Fatalf("bucket %d: %s gets %d while %s holds %v", b, s.name, n, other.name, other.held[b])
		}
	}
	for _, before := range s.held[b] {
		if before >= n {
			w.t.Fatalf("bucket %d: %d comes after %d", b, n, before)
		}
	}
	for i := w.topic.log.start; i < n; i++ {
		if bucketOfEntry(i) == b && !w.done[i] && !slices.Contains(s.held[b], i) {
			w.t.Fatalf("bucket %d: %d comes before %d", b, n, i)
		}
	}
	s.held[b] = append(s.held[b], n)
}

func (w *sharedWorld) join() {
	meta := &pulsarpb.KeySharedMeta{KeySharedMode: pulsarpb.KeySharedMode_STICKY.Enum(), EntryBucketDispatch: proto.Bool(true)}
	for _, b := range bucketsOf([]uint16{100, 200}) {
		meta.HashRanges = append(meta.HashRanges, &pulsarpb.IntRange{Start: proto.Int32(int32(b.start)), End: proto.Int32(int32(b.end))})
	}
	s := &sharer{w: w, consumer: &consumer{id: uint64(w.next), name: fmt.Sprint("c", w.next*7%10)}}
	s.consumer.peer = s
	w.next++
	w.members = append(w.members, s)
	if refused := w.topic.subscription("s", 0).attach(s.consumer, pulsarpb.CommandSubscribe_Key_Shared, meta); refused != nil {
		w.t.Fatal(refused)
	}
}

func (w *sharedWorld) leave(s *sharer) {
	w.members = slices.DeleteFunc(w.members, func(o *sharer) bool { return o == s })
	w.topic.subs["s"].detach(s.consumer)
}

func (w *sharedWorld) flow(s *sharer, n int64) {
	s.permits += n
	w.topic.subs["s"].dispatch()
}

func (w *sharedWorld) ack(s *sharer, b, n int) {
	for _, e := range s.held[b][:n] {
		w.done[e] = true
	}
	acked := s.held[b][:n]
	s.held[b] = slices.Clone(s.held[b][n:])
	for _, e := range acked {
		if refused := w.topic.subs["s"].ack(pulsarpb.CommandAck_Individual, []ackedID{{at: w.topic.log.get(e).at}}); refused != nil {
			w.t.Fatal(refused)
		}
	}
}

func (w *sharedWorld) store(p *producer, messages int32) {
	n := w.topic.log.end()
	metadata, err := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String("p"), SequenceId: proto.Uint64(uint64(n)),
		PublishTime: proto.Uint64(1), EntryHashMin: proto.Uint32(uint32(50 + 100*bucketOfEntry(n))), NumMessagesInBatch: proto.Int32(messages)})
	if err != nil {
		w.t.Fatal(err)
	}
	p.send(frame.SendCommand{SequenceID: uint64(n)}, frame.NewEntry(metadata, nil), nil)
}

// Whoever comes and goes: a bucket is at one consumer at a time, comes in its order, and all of it
// comes.
func TestBucketsKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &sharedWorld{t: t, topic: coreOf(Options{}).addTopic("segment://public/default/t/0000-ffff-0"), done: map[int64]bool{}}
		p := &producer{peer: &client{}, name: "p", topic: w.topic}
		someone := func(t *rapid.T) *sharer {
			if len(w.members) == 0 {
				w.join()
			}
			return w.members[rapid.IntRange(0, len(w.members)-1).Draw(t, "who")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"join":  func(*rapid.T) { w.join() },
			"leave": func(t *rapid.T) { w.leave(someone(t)) },
			"store": func(t *rapid.T) { w.store(p, rapid.Int32Range(1, 3).Draw(t, "messages")) },
			"flow":  func(t *rapid.T) { w.flow(someone(t), rapid.Int64Range(1, 5).Draw(t, "permits")) },
			"ack": func(t *rapid.T) {
				s, b := someone(t), rapid.IntRange(0, 2).Draw(t, "bucket")
				w.ack(s, b, rapid.IntRange(0, len(s.held[b])).Draw(t, "n"))
			},
		})
		if len(w.members) == 0 {
			w.join()
		}
		for int64(len(w.done)) < w.topic.log.end() {
			before := len(w.done)
			for _, s := range w.members {
				w.flow(s, 100)
				for b := range s.held {
					w.ack(s, b, len(s.held[b]))
				}
			}
			if len(w.done) == before {
				t.Fatalf("stuck at %d of %d", before, w.topic.log.end())
			}
		}
	})
}

// Facts 4.1: whole segments in turn; then the ones that have room for it take one more each.
func TestDivide(t *testing.T) {
	one, two, three := &Segment{ID: 1}, &Segment{ID: 2, Splits: bucketSplits(2)}, &Segment{ID: 3, Splits: bucketSplits(3)}
	for _, tt := range []struct {
		segments  []*Segment
		consumers int
		want      string
	}{
		{nil, 2, "- -"},
		{[]*Segment{one, two, three}, 1, "1,2,3"},
		{[]*Segment{one, two, three}, 2, "1,3 2"},
		{[]*Segment{one, two, three}, 3, "1 2 3"},
		{[]*Segment{one, two, three}, 4, "1 2s 2s 3"},
		{[]*Segment{one, two, three}, 5, "1 2s 2s 3s 3s"},
		{[]*Segment{one, two, three}, 7, "1 2s 2s 3s 3s 3s -"},
		{[]*Segment{two, two}, 3, "2s 2s 2"},
	} {
		var consumers, got []string
		for i := range tt.consumers {
			consumers = append(consumers, fmt.Sprint("c", i))
		}
		given := divide(tt.segments, consumers)
		for _, name := range consumers {
			text := ""
			for i, a := range given[name] {
				if i > 0 {
					text += ","
				}
				text += fmt.Sprint(a.segment.ID)
				if a.shared {
					text += "s"
				}
			}
			if text == "" {
				text = "-"
			}
			got = append(got, text)
		}
		if d := cmp.Diff(tt.want, strings.Join(got, " ")); d != "" {
			t.Errorf("%d consumers: %s", tt.consumers, d)
		}
	}
}
