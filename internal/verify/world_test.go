package verify

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/bridge"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/internal/twosides"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// TestMain uses zstd once: its codec is made by its first use, and a bubble of
// synctest cannot use what another one has made.
func TestMain(m *testing.M) {
	packed, err := frame.Compress(pulsarpb.CompressionType_ZSTD, []byte("x"))
	if err == nil {
		_, err = frame.Decompress(&frame.Info{Compression: pulsarpb.CompressionType_ZSTD, UncompressedSize: 1}, packed, 10)
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const (
	topic        = "topic://public/default/orders"
	checkpoint   = "persistent://public/default/__geobridge.g.checkpoint"
	subscription = "geobridge.g.west.orders"
)

// world is two clusters in memory.
type world struct {
	*twosides.World
	rng     *rand.Rand
	counter uint64
}

// inWorld runs f on fake time.
func inWorld(t *testing.T, seed uint64, o pulsartest.Options, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(twosides.New(t), seed)
		defer w.Close()
		for _, name := range []string{"east", "west"} {
			w.serve(name, o)
		}
		f(t, w)
	})
}

func newWorld(sides *twosides.World, seed uint64) *world {
	return &world{World: sides, rng: rand.New(rand.NewPCG(seed, 1))}
}

func (w *world) serve(name string, o pulsartest.Options) *pulsartest.Cluster {
	o.Cluster = name
	return w.Serve(o)
}

func (w *world) layout(side string) *reroute.Layout {
	w.T.Helper()
	l, err := bridge.Layout(context.Background(), w.Client(side), topic)
	w.Must(err)
	return l
}

// mapping is what is verified: from one side to the other.
func (w *world) mapping(from, to string) Mapping {
	side := func(name string) Side {
		client := w.Client(name)
		return Side{Key: name, Cluster: name, Topic: topic, Client: client,
			Layout: func(ctx context.Context) (*reroute.Layout, error) { return bridge.Layout(ctx, client, topic) }}
	}
	return Mapping{Name: "orders", Subscription: "geobridge.g." + to + ".orders", Source: side(from), Target: side(to),
		CheckpointTopic: checkpoint, ParkingTopic: replicate.ParkingTopic("public/default", "g")}
}

// verify compares east with west.
func (w *world) verify(o Options) *Report {
	w.T.Helper()
	r, err := Run(context.Background(), w.mapping("east", "west"), o)
	w.Must(err)
	return r
}

const configText = `
group: g
instance: i
clusters:
  east: {service_url: "pulsar://east:6650", admin_url: "http://east:8080"}
  west: {service_url: "pulsar://west:6650", admin_url: "http://west:8080"}
mappings:
  - {name: orders, subscription: geobridge.g.west.orders, split: %[1]s, from: {cluster: east, topic: "topic://public/default/orders"}, to: {cluster: west}}
  - {name: back, subscription: geobridge.g.east.orders, split: %[1]s, from: {cluster: west, topic: "topic://public/default/orders"}, to: {cluster: east}}
`

// bridging runs a bridge, both ways; stop drains it.
func (w *world) bridging(split string) (stop func()) {
	w.T.Helper()
	cfg, errs := config.Parse("test.yaml", fmt.Appendf(nil, configText, split), nil)
	if len(errs) > 0 {
		w.T.Fatal(errs)
	}
	pair, err := cfg.SelectPair("")
	w.Must(err)
	board, err := bridge.NewBoard(cfg, pair, "test")
	w.Must(err)
	b, err := bridge.New(cfg, bridge.Options{Pair: pair, Board: board, Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.DiscardHandler), Dial: w.Dial})
	w.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return func() {
		w.T.Helper()
		cancel()
		w.Must(<-done)
	}
}

// copied waits until all of a side has been acknowledged, which follows its record.
func (w *world) copied(from string) {
	w.T.Helper()
	sub := map[string]string{"east": "geobridge.g.west.orders", "west": "geobridge.g.east.orders"}[from]
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) { // fake time
		left := w.Left(from, topic, sub)
		if left == 0 {
			return
		}
		if time.Since(began) > 10*time.Minute {
			w.T.Fatalf("%d entries of %s are not copied", left, from)
		}
	}
}

func (w *world) segments(side string) (names []string) {
	l, err := w.Sides[side].Layout(topic)
	w.Must(err)
	for _, s := range l.Segments {
		names = append(names, s.Topic(topic))
	}
	return names
}

// text is one message of a test.
type text struct {
	key, ordering string // "" for none
	body          string
}

func (x text) routing() reroute.Key {
	return reroute.Key{Key: []byte(x.key), HasKey: x.key != "", OrderingKey: []byte(x.ordering), HasOrderingKey: x.ordering != ""}
}

// texts makes n messages of so many keys; some have none, some an ordering key.
func (w *world) texts(n, keys int) (all []text) {
	for range n {
		w.counter++
		x := text{key: fmt.Sprintf("key-%d", w.rng.IntN(keys)), body: fmt.Sprintf("body %d", w.counter)}
		switch w.rng.IntN(20) {
		case 0:
			x.key = ""
		case 1:
			x.ordering = fmt.Sprintf("o%d", w.rng.IntN(5))
		}
		all = append(all, x)
	}
	return all
}

// publish sends messages to the segments of their keys, in batches of many kinds.
func (w *world) publish(side string, all []text) {
	w.T.Helper()
	l := w.layout(side)
	client := w.Client(side)
	outlets := map[uint64]*outlet{}
	type bucket struct {
		segment uint64
		bucket  int
	}
	waiting := map[bucket][]text{}
	var order []bucket
	flush := func(b bucket) {
		o := outlets[b.segment]
		if o == nil {
			o = w.open(client, l.Segment(b.segment).Topic(topic))
			outlets[b.segment] = o
		}
		for _, e := range w.entries(waiting[b]) {
			o.send(e.metadata, e.payload)
		}
		delete(waiting, b)
	}
	for i, x := range all {
		seg, n, _ := l.Place(x.routing(), l.Keyless(reroute.FullRange(), uint64(i/7)))
		b := bucket{seg.ID, n}
		if len(waiting[b]) == 0 {
			order = append(order, b)
		}
		if waiting[b] = append(waiting[b], x); len(waiting[b]) > w.rng.IntN(30) {
			flush(b)
		}
	}
	for _, b := range order {
		flush(b)
	}
	for _, o := range outlets {
		o.close()
	}
}

// raw is an entry to send.
type raw struct{ metadata, payload []byte }

// entries packs messages of one bucket: a batch, plain or encrypted single ones.
func (w *world) entries(all []text) (out []raw) {
	if len(all) == 0 {
		return nil
	}
	if kind := w.rng.IntN(6); kind < 2 {
		for _, x := range all {
			out = append(out, w.single(x, kind == 0))
		}
		return out
	}
	return []raw{w.batch(all)}
}

func (w *world) outer() *pulsarpb.MessageMetadata {
	w.counter++
	return &pulsarpb.MessageMetadata{ProducerName: proto.String("app"), SequenceId: proto.Uint64(w.counter),
		PublishTime: proto.Uint64(1000 + w.counter), EventTime: proto.Uint64(w.counter), DeliverAtTime: proto.Int64(5)}
}

func (w *world) single(x text, encrypted bool) raw {
	md := w.outer()
	if x.key != "" {
		md.PartitionKey = proto.String(x.key)
	}
	if x.ordering != "" {
		md.OrderingKey = []byte(x.ordering)
	}
	md.Properties = []*pulsarpb.KeyValue{{Key: proto.String("p"), Value: proto.String(x.body)}}
	md.UncompressedSize = proto.Uint32(uint32(len(x.body)))
	if encrypted {
		md.EncryptionKeys = []*pulsarpb.EncryptionKeys{{Key: proto.String("k"), Value: []byte("secret")}}
	}
	b, err := proto.Marshal(md)
	w.Must(err)
	return raw{b, []byte(x.body)}
}

func (w *world) batch(all []text) raw {
	codec := []pulsarpb.CompressionType{pulsarpb.CompressionType_NONE, pulsarpb.CompressionType_LZ4, pulsarpb.CompressionType_ZSTD}[w.rng.IntN(3)]
	md := w.outer()
	var plain []byte
	var stamp reroute.Stamp
	for i, x := range all {
		single := &pulsarpb.SingleMessageMetadata{PayloadSize: proto.Int32(int32(len(x.body))), SequenceId: proto.Uint64(w.counter + uint64(i))}
		if x.key != "" {
			single.PartitionKey = proto.String(x.key)
		}
		if x.ordering != "" {
			single.OrderingKey = []byte(x.ordering)
		}
		if i%3 == 0 {
			single.Properties = []*pulsarpb.KeyValue{{Key: proto.String("p"), Value: proto.String(x.body)}}
			single.EventTime = proto.Uint64(77)
		}
		head, err := proto.Marshal(single)
		w.Must(err)
		plain = frame.AppendMessageInBatch(plain, head, []byte(x.body))
		stamp = stamp.Extend(x.routing().Hash().Bucket)
	}
	w.counter += uint64(len(all))
	md.HighestSequenceId = proto.Uint64(w.counter)
	md.NumMessagesInBatch = proto.Int32(int32(len(all)))
	md.UncompressedSize, md.Compression = proto.Uint32(uint32(len(plain))), codec.Enum()
	md.EntryHashMin, md.EntryHashMax = proto.Uint32(uint32(stamp.Min)), proto.Uint32(uint32(stamp.Max))
	payload, err := frame.Compress(codec, plain)
	w.Must(err)
	b, err := proto.Marshal(md)
	w.Must(err)
	return raw{b, payload}
}

// outlet is a raw producer that waits for nothing but the end.
type outlet struct {
	w        *world
	producer *pulsar.Producer
	next     uint64
	receipts chan pulsar.MessageID
	at       []pulsar.MessageID
	sent     int
}

func (w *world) open(client *pulsar.Client, topic string) *outlet {
	w.T.Helper()
	o := &outlet{w: w, receipts: make(chan pulsar.MessageID, 1000)}
	p, err := client.OpenProducer(context.Background(), pulsar.ProducerOptions{Topic: topic}, o)
	w.Must(err)
	o.producer, o.next = p, uint64(p.LastSequenceID()+1)
	return o
}

func (o *outlet) send(metadata, payload []byte) {
	o.w.T.Helper()
	info, err := frame.Scan(metadata)
	o.w.Must(err)
	o.w.Must(o.producer.Send(pulsar.Outgoing{Sequence: o.next, NumMessages: info.NumMessages, Metadata: metadata, Payload: payload, Marker: info.HasMarker}))
	o.next++
	if o.sent++; o.sent-len(o.at) >= cap(o.receipts)/2 {
		o.at = append(o.at, <-o.receipts)
	}
}

// close waits for the receipts, and returns where all was stored.
func (o *outlet) close() []pulsar.MessageID {
	for len(o.at) < o.sent {
		o.at = append(o.at, <-o.receipts)
	}
	o.w.Must(o.producer.Close(context.Background()))
	return o.at
}

func (o *outlet) Receipt(_ uint64, at pulsar.MessageID) { o.receipts <- at }
func (o *outlet) SendError(_ uint64, err error)         { panic(err) }
func (o *outlet) BrokerClosed(error)                    {}
func (o *outlet) Closed(error)                          {}
