package verify

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

type segment = reroute.Segment

func (w *world) message(e raw) *pulsar.Message {
	info, err := frame.Scan(e.metadata)
	w.Must(err)
	return &pulsar.Message{Entry: frame.NewEntry(e.metadata, e.payload), Info: info}
}

// victim picks an entry that is not among the first, and fits. Of the first of a key in
// its lane nothing tells that the target ever held it.
func (w *world) victim(all []copyOf, fits func(frame.Info, content) bool) int {
	w.T.Helper()
	for range 100000 {
		i := len(all)/4 + w.rng.IntN(len(all)/2)
		m := w.message(all[i].raw)
		if c := newOpener("east", maphash.MakeSeed()).open(m); fits(m.Info, c) && w.begun(all, i, c) {
			return i
		}
	}
	w.T.Fatal("no entry fits")
	return 0
}

// begun reports whether the lane has brought every key of an entry before.
func (w *world) begun(all []copyOf, i int, c content) bool {
	missing := map[string]bool{}
	for _, s := range c.messages {
		missing[string(s.key.Key)] = true
	}
	for _, e := range all {
		if e.id.Lane != all[i].id.Lane || e.id.Pos.Compare(all[i].id.Pos) >= 0 {
			continue
		}
		for _, s := range w.open1(e.raw).messages {
			delete(missing, string(s.key.Key))
		}
		if len(missing) == 0 {
			return true
		}
	}
	return false
}

func keyedBatch(in frame.Info, c content) bool {
	return in.Batch && len(c.messages) > 2 && !slices.ContainsFunc(c.messages, func(s shown) bool { return !s.key.HasKey })
}

func plainSingle(in frame.Info, c content) bool {
	return !in.Batch && !in.Encrypted && c.messages[0].key.HasKey
}

func sealedSingle(in frame.Info, c content) bool { return in.Encrypted && c.messages[0].key.HasKey }

// planted is what a test does to the target, and what verify must say of it.
type planted struct {
	name  string
	plant func(w *world, all []copyOf) (forged []copyOf, victim copyOf)
	kind  Kind
	count int64
	check func(f Fault) string
}

func fieldIs(names ...string) func(Fault) string {
	return func(f Fault) string {
		if !slices.Equal(f.Fields, names) || len(f.Target) != 1 {
			return fmt.Sprintf("fields %v, want %v; target %v", f.Fields, names, f.Target)
		}
		return ""
	}
}

// altering plants an edit of one entry.
func altering(name string, fits func(frame.Info, content) bool, edit func(w *world, e copyOf) copyOf, fields ...string) planted {
	return planted{name: name, kind: Altered, count: 1, check: fieldIs(fields...),
		plant: func(w *world, all []copyOf) ([]copyOf, copyOf) {
			i := w.victim(all, fits)
			victim := all[i]
			all[i] = edit(w, victim)
			return all, victim
		}}
}

func outer(f func(*pulsarpb.MessageMetadata)) func(*world, copyOf) copyOf {
	return func(w *world, e copyOf) copyOf { return w.edited(e, f) }
}

func allPlanted() []planted {
	flip := func(_ *world, e copyOf) copyOf {
		e.payload = slices.Clone(e.payload)
		e.payload[len(e.payload)-1] ^= 1
		return e
	}
	uncompressed := func(in frame.Info, c content) bool { return keyedBatch(in, c) && in.Compression == 0 }
	return []planted{
		altering("flipped byte in a batch", uncompressed, flip, "payload"),
		altering("flipped byte of an encrypted message", sealedSingle, flip, "payload"),
		altering("flipped byte of a plain message", plainSingle, flip, "payload"),
		altering("publish time", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.PublishTime = proto.Uint64(3) }), "publish_time"),
		altering("key", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.PartitionKey = proto.String("another") }), "key"),
		altering("no key", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.PartitionKey = nil }), "key"),
		altering("ordering key", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.OrderingKey = []byte("another") }), "ordering_key"),
		altering("sequence id", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.SequenceId = proto.Uint64(1 << 40) }), "sequence_id"),
		altering("event time", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.EventTime = nil }), "event_time"),
		altering("null value", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.NullValue = proto.Bool(true) }), "null_value"),
		altering("producer", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.ProducerName = proto.String("app2@east") }), "producer_name"),
		altering("delivery", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.DeliverAtTime = nil }), "deliver_at_time"),
		altering("encryption", sealedSingle, outer(func(m *pulsarpb.MessageMetadata) { m.EncryptionKeys[0].Value = []byte("x") }), "encryption"),
		altering("property", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.Properties[0].Value = proto.String("x") }), "properties"),
		altering("replicate to", plainSingle, outer(func(m *pulsarpb.MessageMetadata) { m.ReplicateTo = []string{"west"} }), "replicate_to"),
		{name: "a lost entry", kind: Lost, count: 1, plant: func(w *world, all []copyOf) ([]copyOf, copyOf) {
			i := w.victim(all, plainSingle)
			victim := all[i]
			return slices.Delete(all, i, i+1), victim
		}},
		{name: "a lost message of a batch", kind: Lost, count: 1, plant: func(w *world, all []copyOf) ([]copyOf, copyOf) {
			i := w.victim(all, keyedBatch)
			victim := w.part(all[i], 1)
			var rest []int
			for n := range w.open1(all[i].raw).messages {
				if n != 1 {
					rest = append(rest, n)
				}
			}
			all[i] = w.part(all[i], rest...)
			return all, victim
		}},
		{name: "a duplicate, in another packing", kind: Duplicated, count: 1, plant: func(w *world, all []copyOf) ([]copyOf, copyOf) {
			i := w.victim(all, keyedBatch)
			twice := w.part(all[i], 1)
			return slices.Insert(all, i+1+w.rng.IntN(20), twice), twice
		}, check: func(f Fault) string {
			if len(f.Target) != 2 || f.Target[0] == f.Target[1] {
				return fmt.Sprintf("places %v", f.Target)
			}
			return ""
		}},
		{name: "an unknown message", kind: Unknown, count: 1, plant: func(w *world, all []copyOf) ([]copyOf, copyOf) {
			i := w.victim(all, plainSingle)
			forged := all[i]
			forged.id.Total, forged.id.Indices = 9, []int{7}
			return slices.Insert(all, i+1, w.identified(forged)), forged
		}},
		{name: "a swapped pair", kind: OutOfOrder, count: 1, plant: plantSwap, check: func(f Fault) string {
			if f.Before == nil || len(f.Before.Target) != 1 || f.Before.Source.Position.Compare(f.Source.Position) <= 0 {
				return fmt.Sprintf("before %+v", f.Before)
			}
			return ""
		}},
	}
}

// plantSwap exchanges two single messages of one key and lane, between which there
// is no other of that key.
func plantSwap(w *world, all []copyOf) ([]copyOf, copyOf) {
	for {
		i := w.victim(all, plainSingle)
		key := string(w.open1(all[i].raw).messages[0].key.Key)
		for j := i + 1; j < len(all); j++ {
			c := w.open1(all[j].raw)
			if !slices.ContainsFunc(c.messages, func(s shown) bool { return string(s.key.Key) == key }) {
				continue
			}
			if len(c.messages) == 1 && all[j].id.Lane == all[i].id.Lane {
				victim := all[i]
				all[i], all[j] = all[j], all[i]
				return all, victim
			}
			break
		}
	}
}

func TestPlantedFaultsAreNamed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, p := range allPlanted() {
		t.Run(p.name, func(t *testing.T) {
			inWorld(t, seed+uint64(i), pulsartest.Options{Retention: true, NoAutoScale: true}, func(t *testing.T, w *world) {
				forged, victim := p.plant(w, w.replica(1500, 40))
				w.forge(forged, 1)
				r := w.verify(Options{})
				if r.Result != Differs || r.Faults.Total() != p.count || len(r.Named) != int(p.count) {
					t.Fatal(describe(r))
				}
				f := r.Named[0]
				if f.Kind != p.kind || f.Source.Position != victim.id.Pos || f.Source.Segment != w.segmentOf(victim.id) {
					t.Errorf("%+v; want %v of %v", f, p.kind, victim.id.Pos)
				}
				if p.check != nil {
					if wrong := p.check(f); wrong != "" {
						t.Error(wrong)
					}
				}
			})
		})
	}
}

// segmentOf finds the source segment of a lane.
func (w *world) segmentOf(id replicate.Identity) uint64 {
	l := w.layout("east")
	for _, s := range l.Segments() {
		lane := replicate.LaneID{Subscription: subscription, SourceCluster: "east", SourceTopic: topic,
			Segment: s.ID, CreatedAtMs: s.CreatedAtMs, TargetCluster: "west", TargetTopic: topic}
		if lane.Name() == id.Lane {
			return s.ID
		}
	}
	w.T.Fatalf("no lane %s", id.Lane)
	return 0
}

// A forged copy without a fault is equal: of other segments, and in other entries.
func TestForgedCopyIsEqual(t *testing.T) {
	inWorld(t, 3, pulsartest.Options{Retention: true, NoAutoScale: true}, func(t *testing.T, w *world) {
		var again []copyOf
		for _, e := range w.replica(1500, 40) {
			c := w.open1(e.raw)
			if len(c.messages) < 2 {
				again = append(again, e)
				continue
			}
			for i := range c.messages {
				again = append(again, w.part(e, i))
			}
		}
		// What were segments lies end to end now, so lanes do not rise, and keys are looked at.
		w.forge(again, 4)
		if r := w.verify(Options{Untrimmed: true}); r.Result != Equal || r.Source.Compared != 1500 || r.Passes != 2 {
			t.Error(describe(r))
		}
	})
}
