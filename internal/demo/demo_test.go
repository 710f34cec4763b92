package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// TestMain uses zstd once: its codec is made by its first use, and a bubble of
// synctest cannot use what another one has made.
func TestMain(m *testing.M) {
	c, err := newCodec(1)
	if err != nil {
		panic(err)
	}
	metadata, payload, err := c.batch([]message{{key: "k"}}, pulsarpb.CompressionType_ZSTD, 1, time.Now())
	if err != nil {
		panic(err)
	}
	info, err := frame.Scan(metadata)
	if err != nil {
		panic(err)
	}
	if _, err := c.open(&info, frame.NewEntry(metadata, payload)); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// play runs a demo in fake time.
func play(t *testing.T, o Options) (v Verdict, out string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		if o.Out == nil {
			o.Out = &b
		}
		if o.For == 0 && o.Stop == nil {
			o.For = 20 * time.Second
		}
		if o.Rate == 0 {
			o.Rate = 300
		}
		var err error
		if v, err = Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		out = b.String()
	})
	return v, out
}

func TestDemo(t *testing.T) {
	v, out := play(t, Options{For: 40 * time.Second, Seed: 7})
	if !regexp.MustCompile(`^OK: 1[12],\d\d\d messages copied through (1\d|2\d) layout changes: 0 lost, 0 out of order, 0 twice; \d+ % of the entries whole, \d+ % split$`).MatchString(v.Line) || !v.OK {
		t.Errorf("verdict %v", v)
	}
	first, _, _ := strings.Cut(out, "\n")
	if first != Title {
		t.Errorf("the first line is %q", first)
	}
	for _, want := range []string{"east: splits ", "west: rebuckets ", " merges ", " prunes drained ", "reader: reader-1 joins", "is killed, and starts again", " leaves",
		"demo: the readers finish", "0:39 published="} {
		if !strings.Contains(out, want) {
			t.Errorf("the lines lack %q:\n%s", want, out)
		}
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(5*time.Second, func() { close(stop) })
		began := time.Now()
		v, err := Run(t.Context(), Options{Stop: stop, Rate: 100, Out: io.Discard})
		if took := time.Since(began); err != nil || !v.OK || took > 10*time.Second {
			t.Errorf("verdict %v, error %v, after %v", v, err, took)
		}
	})
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err := Run(ctx, Options{Rate: 100, Out: io.Discard})
		if took := time.Since(began); !errors.Is(err, ErrInterrupted) || took > 5*time.Second {
			t.Errorf("error %v after %v", err, took)
		}
		time.Sleep(time.Minute) // what Run did not wait for ends, or goleak finds it
	})
}

// TestVerdictCanFail: what goes wrong between the clusters is found.
func TestVerdictCanFail(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"a delivery is lost", Options{westHook: dropDelivery()}, `^FAILED: [56],\d\d\d messages published, 5,\d\d\d copied, .*: \d+ lost \(demo/`},
		{"sends change places", Options{westHook: reorderSends()}, `^FAILED: .* \d+ out of order \(demo/`},
		{"an entry is stored again", Options{backstage: replay}, `^FAILED: .* changes: \d+ twice \(demo/`},
		{"a message comes from nowhere", Options{backstage: forge}, `^FAILED: .* changes: 1 that nobody published \(demo/order-000#987654 `},
		{"a message is damaged", Options{backstage: damage}, `^FAILED: .* changes: .*not as it was published: "order-000 rubbish"`},
		{"west takes nothing", Options{westHook: refuseSends()}, `^FAILED: [56],\d\d\d messages published, 0 copied, .*: [56],\d\d\d lost .* the bridge: not everything was drained`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Seed = 3
			v, _ := play(t, tt.o)
			if v.OK || !regexp.MustCompile(tt.want).MatchString(v.Line) {
				t.Errorf("verdict %v, want %s", v, tt.want)
			}
		})
	}
}

// dropDelivery loses one entry on its way to a reader.
func dropDelivery() func(pulsartest.Command) pulsartest.Action {
	var mu sync.Mutex
	readers := map[handle]bool{}
	seen := 0
	return func(c pulsartest.Command) pulsartest.Action {
		mu.Lock()
		defer mu.Unlock()
		if sub := c.Base.GetSubscribe(); sub.GetSubscription() == subscription {
			readers[handle{c.Conn, sub.GetConsumerId()}] = true
		}
		if c.Sent && c.Message != nil && readers[handle{c.Conn, c.Message.ConsumerID}] {
			if seen++; seen == 100 {
				return pulsartest.Drop()
			}
		}
		return pulsartest.Pass()
	}
}

func toSegment(c pulsartest.Command) bool {
	return c.Type == pulsarpb.BaseCommand_SEND && strings.HasPrefix(c.Topic, "segment://")
}

func reorderSends() func(pulsartest.Command) pulsartest.Action {
	var mu sync.Mutex
	seen := 0
	return func(c pulsartest.Command) pulsartest.Action {
		mu.Lock()
		defer mu.Unlock()
		if toSegment(c) {
			if seen++; seen%10 == 0 {
				return pulsartest.Reorder(1)
			}
		}
		return pulsartest.Pass()
	}
}

func refuseSends() func(pulsartest.Command) pulsartest.Action {
	return func(c pulsartest.Command) pulsartest.Action {
		if toSegment(c) {
			return pulsartest.Drop()
		}
		return pulsartest.Pass()
	}
}

// replay stores an entry of west a second time, as a bridge that forgot would.
func replay(ctx context.Context, s *stage) {
	_ = pause(ctx, 10*time.Second)
	l, _ := s.west.cluster.Layout(topic)
	seg := l.Active()[0]
	entries, _ := s.west.cluster.Entries(seg.Topic(topic))
	for _, e := range entries {
		if e.Info.Batch {
			intrude(ctx, s, seg, e.Metadata, e.Payload)
			return
		}
	}
}

func forge(ctx context.Context, s *stage) {
	c, _ := newCodec(1)
	metadata, payload, _ := c.batch([]message{{key: "order-000", seq: 987654}}, pulsarpb.CompressionType_NONE, 1, time.Now())
	l, _ := s.west.cluster.Layout(topic)
	intrude(ctx, s, l.Active()[0], metadata, payload)
}

func damage(ctx context.Context, s *stage) {
	metadata, _ := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String(producerName + "@east"), SequenceId: proto.Uint64(1),
		PublishTime: proto.Uint64(1), PartitionKey: proto.String("order-000")})
	l, _ := s.west.cluster.Layout(topic)
	intrude(ctx, s, l.Active()[0], metadata, []byte("order-000 rubbish"))
}

// intrude writes to west past the bridge.
func intrude(ctx context.Context, s *stage, seg pulsartest.Segment, metadata, payload []byte) {
	client, err := s.client(s.west)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	o, err := openOutlet(ctx, client, seg.Topic(topic), func([]message) {})
	if err != nil {
		panic(err)
	}
	o.send(outgoing{sequence: 1, messages: make([]message, 1)}, metadata, payload)
	if err := o.await(ctx); err != nil {
		panic(err)
	}
}

// TestTargetIsPruned: nothing keeps drained segments of west, though segments of
// east are pruned as soon as their lanes have acknowledged all. One that stays
// would keep all that came after it.
func TestTargetIsPruned(t *testing.T) {
	most := 0
	v, _ := play(t, Options{For: 3 * time.Minute, Seed: 77, Rate: 100, backstage: func(ctx context.Context, s *stage) {
		for pause(ctx, time.Second) == nil {
			l, _ := s.west.cluster.Layout(topic)
			most = max(most, len(l.Segments))
			_, _ = s.east.cluster.Prune(topic)
		}
	}})
	if !v.OK || most > 20 {
		t.Errorf("%d segments at a time, %v", most, v)
	}
}

// TestUnload: what is in doubt at the source is not published twice.
func TestUnload(t *testing.T) {
	v, _ := play(t, Options{Seed: 5, backstage: func(ctx context.Context, s *stage) {
		for pause(ctx, 3*time.Second) == nil {
			l, _ := s.east.cluster.Layout(topic)
			for _, seg := range l.Active() {
				s.east.cluster.Unload(seg.Topic(topic))
			}
		}
	}})
	if !v.OK {
		t.Error(v)
	}
}

// TestGuests: what a user's own client publishes is copied and not judged.
func TestGuests(t *testing.T) {
	var b bytes.Buffer
	v, _ := play(t, Options{Seed: 6, Out: &b, backstage: func(ctx context.Context, s *stage) {
		client, _ := s.client(s.east)
		defer client.Close()
		l, _ := s.east.cluster.Layout(topic)
		o, err := openOutlet(ctx, client, l.Active()[0].Topic(topic), func([]message) {})
		if err != nil {
			panic(err)
		}
		metadata, _ := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String("mine"), SequenceId: proto.Uint64(1), PublishTime: proto.Uint64(1)})
		o.send(outgoing{sequence: 1, messages: make([]message, 1)}, metadata, []byte("hello"))
		_ = o.await(ctx)
	}})
	if !v.OK {
		t.Error(v)
	}
}

var _ pulsar.ProducerHandler = (*outlet)(nil)
