package verify

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/internal/twosides"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// bulk publishes n messages of so many keys and bytes to east, in batches of a
// hundred of one bucket, or one by one.
func (w *world) bulk(n, keys, bytes int, batched bool) {
	w.T.Helper()
	l := w.layout("east")
	client := w.Client("east")
	outlets := map[string]*outlet{}
	type bucket struct {
		topic  string
		bucket int
	}
	waiting := map[bucket][]int{}
	body := make([]byte, bytes)
	flush := func(b bucket) {
		o := outlets[b.topic]
		if o == nil {
			o = w.open(client, b.topic)
			outlets[b.topic] = o
		}
		e := w.bulkEntry(waiting[b], keys, body, batched)
		o.send(e.metadata, e.payload)
		waiting[b] = waiting[b][:0]
	}
	most := 1
	if batched {
		most = 100
	}
	for i := range n {
		seg, bu, _ := l.Place(reroute.Key{Key: bulkKey(i, keys), HasKey: true}, nil)
		b := bucket{seg.Topic(topic), bu}
		if waiting[b] = append(waiting[b], i); len(waiting[b]) == most {
			flush(b)
		}
	}
	for b, left := range waiting {
		if len(left) > 0 {
			flush(b)
		}
	}
	for _, o := range outlets {
		o.close()
	}
}

func bulkKey(i, keys int) []byte { return strconv.AppendInt([]byte("key-"), int64(i*7919%keys), 10) }

func (w *world) bulkEntry(all []int, keys int, body []byte, batched bool) raw {
	w.counter++
	md := &pulsarpb.MessageMetadata{ProducerName: proto.String("app"), SequenceId: proto.Uint64(w.counter), PublishTime: proto.Uint64(w.counter)}
	copy(body, strconv.Itoa(all[0]))
	if !batched {
		md.PartitionKey = proto.String(string(bulkKey(all[0], keys)))
		b, err := proto.Marshal(md)
		w.Must(err)
		return raw{b, slices.Clone(body)}
	}
	var plain []byte
	var stamp reroute.Stamp
	for _, i := range all {
		copy(body, strconv.Itoa(i))
		key := bulkKey(i, keys)
		head, err := proto.Marshal(&pulsarpb.SingleMessageMetadata{PayloadSize: proto.Int32(int32(len(body))), PartitionKey: proto.String(string(key)), SequenceId: proto.Uint64(uint64(i))})
		w.Must(err)
		plain = frame.AppendMessageInBatch(plain, head, body)
		stamp = stamp.Extend(reroute.Key{Key: key, HasKey: true}.Hash().Bucket)
	}
	md.NumMessagesInBatch = proto.Int32(int32(len(all)))
	md.EntryHashMin, md.EntryHashMax = proto.Uint32(uint32(stamp.Min)), proto.Uint32(uint32(stamp.Max))
	b, err := proto.Marshal(md)
	w.Must(err)
	return raw{b, plain}
}

// million is a world in which so many messages are copied by a real bridge.
func million(t testing.TB, n, keys, bytes int, batched bool) *world {
	w := newWorld(twosides.OnLoopback(t), 1)
	o := pulsartest.Options{Retention: true, NoAutoScale: true}
	w.Must(w.serve("east", o).CreateScalable(topic, 2))
	w.Must(w.serve("west", o).CreateScalable(topic, 3))
	stop := w.bridging("bucket")
	w.bulk(n, keys, bytes, batched)
	w.copied("east")
	stop()
	return w
}

// readOnly is what merely reading both sides takes: the same readers, and nothing
// done with what they read.
func (w *world) readOnly(m Mapping) time.Duration {
	w.T.Helper()
	began := time.Now()
	c := &comparison{Mapping: m, Options: Options{Progress: &Progress{}}}
	layout, err := m.Source.Layout(context.Background())
	w.Must(err)
	c.lanes = newLanes(layout, func(s *reroute.Segment) replicate.LaneID { return replicate.LaneID{Segment: s.ID} })
	p, err := c.open(context.Background())
	w.Must(err)
	defer p.close()
	done := make(chan error, len(p.source)+len(p.target))
	for _, r := range slices.Concat(p.source, p.target) {
		go func() {
			for {
				m, ok, err := r.next(context.Background())
				if err != nil || !ok {
					done <- err
					return
				}
				m.Entry.Release()
			}
		}()
	}
	for range cap(done) {
		w.Must(<-done)
	}
	return time.Since(began)
}

// BenchmarkVerify pairs a comparison with merely reading both sides.
func BenchmarkVerify(b *testing.B) {
	for _, bench := range []struct {
		name           string
		n, keys, bytes int
		batched        bool
	}{
		{"batches of 100 kB", 200_000, 10_000, 1000, true},
		{"batches of 10 kB", 500_000, 10_000, 100, true},
		{"batches of 30 kB", 300_000, 10_000, 300, true},
		{"single messages of 1 kB", 100_000, 10_000, 1000, false},
		{"a million of 500 B", 1_000_000, 100_000, 500, true},
		{"a million of 100 B", 1_000_000, 100_000, 100, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			w := million(b, bench.n, bench.keys, bench.bytes, bench.batched)
			defer w.Close()
			m := w.mapping("east", "west")
			var ratios, work, reads, verifies []float64
			for b.Loop() {
				began := cpu()
				read := w.readOnly(m)
				between := cpu()
				r, err := Run(context.Background(), m, Options{})
				w.Must(err)
				if r.Result != Equal || r.Source.Compared+r.Source.Trimmed != int64(bench.n) {
					b.Fatal(describe(r))
				}
				reads, verifies = append(reads, read.Seconds()), append(verifies, r.Seconds)
				work = append(work, (cpu()-between).Seconds()/(between-began).Seconds())
				ratios = append(ratios, r.Seconds/read.Seconds())
			}
			b.ReportMetric(median(ratios), "verify/read")
			b.ReportMetric(median(work), "verify/read-cpu")
			b.ReportMetric(median(reads)*1e9/float64(bench.n), "read-ns/message")
			b.ReportMetric(median(verifies)*1e9/float64(bench.n), "verify-ns/message")
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// pairs is how often TestMillion compares and merely reads.
const pairs = 5

// TestMillion finds each planted fault among a million messages; it takes minutes
// and gigabytes, and runs where GEOBRIDGE_VERIFY_MESSAGES says how many.
func TestMillion(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("GEOBRIDGE_VERIFY_MESSAGES"))
	if err != nil {
		t.Skip("GEOBRIDGE_VERIFY_MESSAGES=1000000 runs it")
	}
	w := million(t, n, n/10, 500, true)
	defer w.Close()
	m := w.mapping("east", "west")
	var ratios, work []float64
	for range pairs {
		began := cpu()
		read := w.readOnly(m)
		between := cpu()
		r := w.verify(Options{})
		work = append(work, (cpu()-between).Seconds()/(between-began).Seconds())
		if r.Result != Equal || r.Passes != 1 {
			t.Fatal(describe(r))
		}
		ratios = append(ratios, r.Seconds/read.Seconds())
	}
	slices.Sort(ratios)
	t.Logf("equal: median of %d pairs %.2f times merely reading (%.2f–%.2f), %.2f times its CPU time", pairs, median(ratios), ratios[0], ratios[len(ratios)-1], median(work))
	all := w.west()
	for _, name := range []string{"flipped byte in a batch", "a lost message of a batch", "a duplicate, in another packing", "a swapped pair"} {
		t.Run(name, func(t *testing.T) { w.findAmong(t, name, slices.Clone(all)) })
	}
}

func (w *world) findAmong(t *testing.T, name string, all []copyOf) {
	i := slices.IndexFunc(allPlanted(), func(p planted) bool { return p.name == name })
	p := allPlanted()[i]
	if p.kind == OutOfOrder {
		p.plant = swapInBatches
	}
	forged, victim := p.plant(w, all)
	w.forge(forged, 3) // as the bridge's
	runtime.GC()       // of what was forged
	var ratios, work, reads, verifies []float64
	for range pairs {
		began := cpu()
		read := w.readOnly(w.mapping("east", "west"))
		between := cpu()
		r := w.verify(Options{})
		work = append(work, (cpu()-between).Seconds()/(between-began).Seconds())
		if r.Result != Differs || r.Faults.Total() != p.count || r.Named[0].Kind != p.kind || r.Named[0].Source.Position != victim.id.Pos {
			t.Fatal(describe(r))
		}
		reads, verifies = append(reads, read.Seconds()), append(verifies, r.Seconds)
		ratios = append(ratios, r.Seconds/read.Seconds())
	}
	slices.Sort(ratios)
	t.Logf("medians of %d pairs: %.2f s, merely reading %.2f s, %.2f times (%.2f–%.2f), %.2f times its CPU time",
		pairs, median(verifies), median(reads), median(ratios), ratios[0], ratios[len(ratios)-1], median(work))
}

// swapInBatches exchanges two messages of a key that stand in batches.
func swapInBatches(w *world, all []copyOf) ([]copyOf, copyOf) {
	i := w.victim(all, keyedBatch)
	c := w.open1(all[i].raw)
	key := string(c.messages[0].key.Key)
	for j := i + 1; j < len(all); j++ {
		other := w.open1(all[j].raw)
		at := slices.IndexFunc(other.messages, func(s shown) bool { return string(s.key.Key) == key })
		if at < 0 {
			continue
		}
		first, second := w.part(all[i], 0), w.part(all[j], at)
		var restI, restJ []int
		for n := range c.messages {
			if n != 0 {
				restI = append(restI, n)
			}
		}
		for n := range other.messages {
			if n != at {
				restJ = append(restJ, n)
			}
		}
		out := slices.Concat(all[:i], []copyOf{second, w.part(all[i], restI...)}, all[i+1:j], []copyOf{first, w.part(all[j], restJ...)}, all[j+1:])
		return out, first
	}
	return swapInBatches(w, all) // its key's last one: take another
}

// cpu is what the process has used, brokers and all.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
