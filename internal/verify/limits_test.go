package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/replicate"
)

func kept() pulsartest.Options { return pulsartest.Options{Retention: true, NoAutoScale: true} }

func (w *world) expect(o Options, want Result, source SourceCounts, target TargetCounts) *Report {
	w.T.Helper()
	r := w.verify(o)
	r.Source.Entries, r.Source.Bytes, r.Target.Entries, r.Target.Bytes = 0, 0, 0, 0
	if r.Result != want || r.Source != source || r.Target != target {
		w.T.Errorf("want %v\n%+v\n%+v\ngot %s", want, source, target, describe(r))
	}
	return r
}

// keyed makes n messages of one key each, so that no bound hides any.
func keyed(n int, keys ...string) (all []text) {
	for i := range n {
		all = append(all, text{key: keys[i%len(keys)], body: fmt.Sprintf("body %d", i)})
	}
	return all
}

// oneByOne publishes each message as an entry of its own.
func (w *world) oneByOne(side string, all []text) {
	l := w.layout(side)
	outlets := map[uint64]*outlet{}
	for _, x := range all {
		seg, _, _ := l.Place(x.routing(), nil)
		if outlets[seg.ID] == nil {
			outlets[seg.ID] = w.open(w.Client(side), seg.Topic(topic))
		}
		e := w.single(x, false)
		outlets[seg.ID].send(e.metadata, e.payload)
	}
	for _, o := range outlets {
		o.close()
	}
}

func (w *world) topics(east, west int) {
	w.Must(w.Sides["east"].CreateScalable(topic, east))
	w.Must(w.Sides["west"].CreateScalable(topic, west))
}

// Nothing compared is an answer of its own, with its reason.
func TestNothingCompared(t *testing.T) {
	for name, tc := range map[string]struct {
		act    func(w *world)
		reason string
	}{
		"never bridged": {func(w *world) { w.oneByOne("east", keyed(5, "a")) }, "no lane of this mapping has a record"},
		"both empty": {func(w *world) {
			stop := w.bridging("bucket")
			time.Sleep(time.Minute)
			stop()
		}, "the source holds nothing"},
		"only for others": {func(w *world) {
			stop := w.bridging("bucket")
			out := w.open(w.Client("east"), w.layout("east").Active()[0].Topic(topic))
			e := w.edited(copyOf{raw: w.single(text{key: "a", body: "b"}, false)}, func(m *pulsarpb.MessageMetadata) { m.ReplicatedFrom = proto.String("north") })
			out.send(e.metadata, e.payload)
			out.close()
			w.copied("east")
			stop()
		}, "all that the source holds is not for the target"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, kept(), func(t *testing.T, w *world) {
				w.topics(1, 1)
				tc.act(w)
				if r := w.verify(Options{}); r.Result != NothingCompared || !strings.Contains(r.Reason, tc.reason) {
					t.Error(describe(r))
				}
			})
		})
	}
}

// Each side's own traffic is left out of the other's comparison, and markers and
// replicated messages are not expected.
func TestTwoWay(t *testing.T) {
	inWorld(t, 1, kept(), func(t *testing.T, w *world) {
		w.topics(2, 1)
		stop := w.bridging("bucket")
		w.oneByOne("east", keyed(40, "a", "b", "c"))
		w.oneByOne("west", keyed(30, "a", "x"))
		w.copied("east")
		w.copied("west")
		stop()
		w.expect(Options{Untrimmed: true}, Equal, SourceCounts{Compared: 40, NotForwarded: 30}, TargetCounts{Compared: 40, Foreign: 30})
		r, err := Run(t.Context(), w.mapping("west", "east"), Options{Untrimmed: true})
		if err != nil || r.Result != Equal || r.Source.Compared != 30 || r.Target.Foreign != 40 || r.Source.NotForwarded != 40 {
			t.Errorf("%v %s", err, describe(r))
		}
	})
}

// What is not copied yet, and what other mappings copied, is counted and left out.
func TestInFlightAndOthers(t *testing.T) {
	inWorld(t, 1, kept(), func(t *testing.T, w *world) {
		w.topics(1, 1)
		stop := w.bridging("bucket")
		w.oneByOne("east", keyed(40, "a", "b", "c"))
		w.copied("east")
		stop()
		all := w.west()
		w.oneByOne("east", keyed(7, "a"))
		other := all[3]
		other.id.Lane = "geobridge-somebody-elses"
		ahead := all[4] // copied after the record was written
		ahead.id.Pos.Entry = 44
		w.forge(slices.Concat(all, []copyOf{w.identified(other), w.identified(ahead)}), 1)
		w.expect(Options{}, Equal, SourceCounts{Compared: 40, InFlight: 7}, TargetCounts{Compared: 40, Other: 1, InFlight: 1})
	})
}

// A target that lost its beginning compares with what it still holds; where nothing
// was trimmed, that is a loss.
func TestTrimmedTarget(t *testing.T) {
	inWorld(t, 1, kept(), func(t *testing.T, w *world) {
		w.topics(1, 1)
		stop := w.bridging("bucket")
		w.oneByOne("east", keyed(40, "a", "b", "c"))
		w.copied("east")
		stop()
		w.forge(w.west()[15:], 1)
		w.expect(Options{}, Equal, SourceCounts{Compared: 25, Trimmed: 15}, TargetCounts{Compared: 25})
		r := w.expect(Options{Untrimmed: true}, Differs, SourceCounts{Compared: 40}, TargetCounts{Compared: 25})
		if r.Faults != (FaultCounts{Lost: 15}) || len(r.Named) != 15 {
			t.Error(describe(r))
		}
	})
}

// A target of which segments are gone and others begin late.
func TestPrunedTarget(t *testing.T) {
	inWorld(t, 1, pulsartest.Options{NoAutoScale: true}, func(t *testing.T, w *world) {
		w.topics(1, 1)
		stop := w.bridging("bucket")
		first := w.texts(300, 30)
		w.publish("east", first)
		w.copied("east")
		w.Must(w.Sides["west"].Split(topic, 0))
		w.publish("east", w.texts(300, 30))
		w.copied("east")
		time.Sleep(3 * time.Minute) // fake: the guard lets go of the parent
		if n, err := w.Sides["west"].Prune(topic); n == 0 || err != nil {
			t.Fatalf("pruned %d, %v", n, err)
		}
		w.publish("east", w.texts(10, 30))
		w.copied("east")
		stop()
		r := w.verify(Options{})
		if r.Result != Equal || r.Source.Trimmed < 250 || r.Source.Compared < 250 {
			t.Error(describe(r))
		}
	})
}

// A source that lost its beginning compares with what it still holds.
func TestTrimmedSource(t *testing.T) {
	inWorld(t, 1, pulsartest.Options{NoAutoScale: true}, func(t *testing.T, w *world) {
		w.topics(1, 1)
		w.Must(w.Sides["west"].RecordSubscription(topic, "keeps"))
		stop := w.bridging("bucket")
		w.oneByOne("east", keyed(15, "a", "b", "c"))
		w.copied("east")
		w.Sides["east"].Unload(w.segments("east")[0]) // a new ledger; the old one is trimmed when it loads
		w.oneByOne("east", keyed(25, "a", "b", "c"))
		w.copied("east")
		stop()
		w.expect(Options{}, Equal, SourceCounts{Compared: 25}, TargetCounts{Compared: 25, Trimmed: 15})
	})
}

// Sealed segments without an entry have no earliest once they are loaded anew: at the target
// what was trimmed, at the source what nobody wrote to.
func TestEmptySealedSegments(t *testing.T) {
	inWorld(t, 1, pulsartest.Options{NoAutoScale: true}, func(t *testing.T, w *world) {
		w.topics(1, 1)
		stop := w.bridging("bucket")
		w.oneByOne("east", keyed(15, "a", "b", "c"))
		w.copied("east")
		stop()
		source, target := w.Sides["east"], w.Sides["west"]
		old := w.segments("west")[0]
		w.Must(target.SkipAll(topic, replicate.GuardName(subscription)))
		target.Unload(old)
		w.open(w.Client("west"), old).close() // a new ledger, and the old one is trimmed
		w.Must(target.Split(topic, 0))
		target.Unload(old)
		w.Must(source.Split(topic, 0))
		never := w.segments("east")[1]
		w.open(w.Client("east"), never).close()
		w.Must(source.Split(topic, 1))
		source.Unload(never)
		stop = w.bridging("bucket")
		w.oneByOne("east", keyed(25, "a", "b", "c"))
		w.copied("east")
		stop()
		w.expect(Options{}, Equal, SourceCounts{Compared: 25, Trimmed: 15}, TargetCounts{Compared: 25})
	})
}

// What was parked is in the parking topic, and expected nowhere else.
func TestParked(t *testing.T) {
	inWorld(t, 1, kept(), func(t *testing.T, w *world) {
		w.topics(1, 2)
		stop := w.bridging("bucket")
		w.oneByOne("east", keyed(20, "a", "b"))
		e := w.batch(keyed(6, "a", "b", "c", "d", "e"))
		sealed := w.edited(copyOf{raw: e}, func(m *pulsarpb.MessageMetadata) {
			m.EncryptionKeys = []*pulsarpb.EncryptionKeys{{Key: proto.String("k"), Value: []byte("v")}}
		})
		out := w.open(w.Client("east"), w.segments("east")[0])
		out.send(sealed.metadata, sealed.payload)
		out.close()
		w.oneByOne("east", keyed(20, "a", "b"))
		w.copied("east")
		stop()
		w.expect(Options{Untrimmed: true}, Equal, SourceCounts{Compared: 40, Parked: 6}, TargetCounts{Compared: 40})
	})
}

// An encrypted batch that goes whole compares as one, and so does a fault in it.
func TestEncryptedBatch(t *testing.T) {
	inWorld(t, 1, kept(), func(t *testing.T, w *world) {
		w.topics(1, 1)
		w.Must(w.Sides["west"].Rebucket(topic, 0, 1))
		stop := w.bridging("bucket")
		sealed := w.edited(copyOf{raw: w.batch(keyed(6, "a", "b", "c", "d", "e"))}, func(m *pulsarpb.MessageMetadata) {
			m.EncryptionKeys = []*pulsarpb.EncryptionKeys{{Key: proto.String("k"), Value: []byte("v")}}
		})
		out := w.open(w.Client("east"), w.segments("east")[0])
		out.send(sealed.metadata, sealed.payload)
		out.close()
		w.oneByOne("east", keyed(5, "a"))
		w.copied("east")
		stop()
		w.expect(Options{}, Equal, SourceCounts{Compared: 11}, TargetCounts{Compared: 11})
		all := w.west()
		all[0].payload = slices.Clone(all[0].payload)
		all[0].payload[3] ^= 1
		w.forge(all, 1)
		r := w.verify(Options{})
		if r.Result != Differs || r.Faults != (FaultCounts{Altered: 6}) || !slices.Equal(r.Named[0].Fields, []string{"payload"}) || r.Named[0].Source.Index != wholeEntry {
			t.Error(describe(r))
		}
	})
}

// A batch that cannot be opened at the target any more is one altered entry.
func TestUnopenableAtTarget(t *testing.T) {
	inWorld(t, 5, kept(), func(t *testing.T, w *world) {
		all := w.replica(600, 10)
		i := w.victim(all, keyedBatch)
		n := len(w.open1(all[i].raw).messages)
		all[i] = w.edited(all[i], func(m *pulsarpb.MessageMetadata) { m.Compression = pulsarpb.CompressionType_ZSTD.Enum() })
		all[i].payload = []byte("rubbish")
		w.forge(all, 1)
		r := w.verify(Options{})
		if r.Result != Differs || r.Faults != (FaultCounts{Altered: int64(n)}) || r.Named[0].Source.Position != all[i].id.Pos {
			t.Error(describe(r))
		}
	})
}

// Many faults: as many are named as are asked for, and all are counted.
func TestLimit(t *testing.T) {
	inWorld(t, 1, kept(), func(t *testing.T, w *world) {
		w.topics(1, 1)
		stop := w.bridging("bucket")
		w.oneByOne("east", keyed(200, "a", "b", "c", "d"))
		w.copied("east")
		stop()
		all := w.west()
		w.forge(slices.Concat(all[:10], all[60:]), 1)
		for limit, named := range map[int]int{0: 20, 7: 7, -1: 0, 100: 50} {
			if r := w.verify(Options{Limit: limit}); r.Faults != (FaultCounts{Lost: 50}) || len(r.Named) != named {
				t.Errorf("limit %d: %s", limit, describe(r))
			}
		}
		// Narrowing is bounded, too: of a range that is too large, a part is searched.
		r := w.verify(Options{Messages: 20})
		if r.Result != Differs || r.Faults.Lost == 0 || r.Faults.Lost >= 50 {
			t.Error(describe(r))
		}
	})
}

// A copy as a bridge makes it needs no look at its keys. Where one is needed, few
// keys at a time are followed in more passes, and with the same answer.
func TestManyKeys(t *testing.T) {
	inWorld(t, 2, kept(), func(t *testing.T, w *world) {
		all := w.replica(1500, 300)
		if r := w.verify(Options{Keys: 50}); r.Result != Equal || r.Passes != 1 {
			t.Error(describe(r))
		}
		w.forge(all, 1) // what were segments lies end to end now
		if r := w.verify(Options{Keys: 50}); r.Result != Equal || r.Passes < 4 {
			t.Error(describe(r))
		}
		forged, victim := plantSwap(w, all)
		w.forge(forged, 1)
		r := w.verify(Options{Keys: 50})
		if r.Result != Differs || r.Faults != (FaultCounts{OutOfOrder: 1}) || r.Named[0].Source.Position != victim.id.Pos {
			t.Error(describe(r))
		}
	})
}

// Readers leave nothing behind, and survive an unload; what is not there is an error.
func TestReadersAreGuests(t *testing.T) {
	inWorld(t, 2, kept(), func(t *testing.T, w *world) {
		w.replica(1000, 30)
		for _, side := range []string{"east", "west"} {
			for _, name := range w.segments(side) {
				w.Sides[side].Unload(name)
			}
		}
		r := w.verify(Options{})
		if r.Result != Equal {
			t.Error(describe(r))
		}
		for _, side := range []string{"east", "west"} {
			if names, err := w.Sides[side].Registered(topic, "geobridge"); err != nil || len(names) > 0 {
				t.Errorf("%s: registered %v, %v", side, names, err)
			}
			l, err := w.Sides[side].Layout(topic)
			if err != nil || l.Epoch > 1 {
				t.Errorf("%s: epoch %d, %v", side, l.Epoch, err)
			}
		}
		w.Must(w.Sides["west"].DeleteScalable(topic, true))
		if _, err := Run(context.Background(), w.mapping("east", "west"), Options{}); err == nil || !strings.Contains(err.Error(), "target west: topic "+topic+" does not exist") {
			t.Errorf("error %v", err)
		}
	})
}

// Verify beside a running bridge and live traffic: what moves is left out. So it is if
// time passes, and much is copied, between looking at the source and at the records.
func TestBesideTraffic(t *testing.T) { besideTraffic(t, kept()) }

func TestBesideTrafficSlowly(t *testing.T) {
	o := kept()
	o.Hook = func(c pulsartest.Command) pulsartest.Action {
		if c.Type == pulsarpb.BaseCommand_SUBSCRIBE && !c.Sent && c.Topic == checkpoint &&
			strings.HasPrefix(c.Base.GetSubscribe().GetSubscription(), "geobridge-verify-") {
			return pulsartest.Delay(2 * time.Second)
		}
		return pulsartest.Pass()
	}
	besideTraffic(t, o)
}

func besideTraffic(t *testing.T, o pulsartest.Options) {
	inWorld(t, 9, o, func(t *testing.T, w *world) {
		w.topics(2, 3)
		stop := w.bridging("bucket")
		w.publish("east", w.texts(500, 30))
		m := w.mapping("east", "west")
		quit, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-quit:
					return
				default:
					w.publish("east", w.texts(40, 30))
					time.Sleep(100 * time.Millisecond) // fake time
				}
			}
		}()
		for range 3 {
			time.Sleep(3 * time.Second) // fake time
			r, err := Run(context.Background(), m, Options{})
			if err != nil || r.Result != Equal || r.Faults.Total() > 0 {
				t.Errorf("%v %s", err, describe(r))
			}
		}
		close(quit)
		<-done
		stop()
	})
}
