package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/internal/status"
	"github.com/geobridge/geobridge/internal/twosides"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const configText = `
group: g
instance: i
clusters:
  east: {service_url: "pulsar://east:6650", admin_url: "http://east:8080", operation_timeout: 5s}
  west: {service_url: "pulsar://west:6650", admin_url: "http://west:8080", operation_timeout: 5s}
mappings:
  - {name: orders, subscription: geobridge.g.west.orders, from: {cluster: east, topic: "topic://public/default/orders"}, to: {cluster: west}%[1]s}
  - {name: bills, subscription: geobridge.g.west.bills, from: {cluster: east, topic: "topic://public/default/bills"}, to: {cluster: west}}
`

// world is two clusters in memory, with two topics that are copied from east to
// west.
type world struct {
	*twosides.World
	// options is more of the configuration of mapping orders.
	options   string
	board     *status.Board         // of who ran last
	crash     atomic.Pointer[crash] // nil: none
	published map[string][]string   // bodies by topic
	producers map[string]*sender
	clients   map[string]*pulsar.Client
}

// inWorld runs f on fake time.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	inThisWorld(t, false, f)
}

// inThisWorld is inWorld where the source may keep nothing that is acknowledged.
func inThisWorld(t *testing.T, trims bool, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: twosides.New(t), published: map[string][]string{}, producers: map[string]*sender{}, clients: map[string]*pulsar.Client{}}
		defer w.Close()
		for _, name := range []string{"east", "west"} {
			c := w.Serve(pulsartest.Options{Cluster: name, Retention: name == "west" || !trims, NoAutoScale: true, Hook: w.judge}, w.crashing)
			w.clients[name] = w.Client(name)
			for topic, segments := range map[string]int{orders: 2, bills: 1} {
				w.Must(c.CreateScalable(topic, segments))
			}
		}
		f(w)
	})
}

const (
	orders = "topic://public/default/orders"
	bills  = "topic://public/default/bills"
)

func (w *world) config() *config.Config {
	w.T.Helper()
	cfg, errs := config.Parse("test.yaml", fmt.Appendf(nil, configText, w.options), nil)
	if len(errs) > 0 {
		w.T.Fatal(errs)
	}
	return cfg
}

// running is a bridge that copies.
type running struct {
	w      *world
	board  *status.Board
	bridge *Bridge
	line   *line
	stop   func()
	kill   func() // what it does afterwards does not get out
}

// run starts an instance.
func (w *world) run() *running {
	w.T.Helper()
	cfg := w.config()
	pair, err := cfg.SelectPair("")
	w.Must(err)
	board, err := NewBoard(cfg, pair, "test")
	w.Must(err)
	w.board = board
	l := &line{w: w}
	b, err := New(cfg, Options{Pair: pair, Board: board, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Dial: l.dial})
	w.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return &running{w: w, board: board, bridge: b, line: l, stop: func() {
		w.T.Helper()
		cancel()
		w.Must(<-done)
	}, kill: func() {
		l.kill()
		cancel()
		<-done
	}}
}

// line is the network as one instance has it.
type line struct {
	w     *world
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := l.w.Dial(ctx, network, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.dead {
		_ = c.Close()
		err = net.ErrClosed
	}
	l.conns = append(l.conns, c)
	return c, err
}

func (l *line) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, c := range l.conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// heal ends what kill began.
func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}

// shows waits until mapping orders shows a reason.
func (r *running) shows(text string) {
	r.w.T.Helper()
	shown := ""
	r.w.eventually(func() bool {
		shown = r.board.Report().Mappings[0].Reason
		return strings.Contains(shown, text)
	}, func() string { return fmt.Sprintf("shows %q, want %q", shown, text) })
}

// notes are what mapping orders has to say of things that are over.
func (r *running) notes() string { return fmt.Sprint(r.board.Report().Mappings[0].Notes) }

// endsWell stops a bridge that has nothing to say of things that are over.
func (r *running) endsWell() {
	r.w.T.Helper()
	if notes := r.notes(); notes != "[]" {
		r.w.T.Error(notes)
	}
	r.stop()
}

// copiedOnce leaves a mapping that has copied n messages more, and is stopped.
func (w *world) copiedOnce(n int) {
	w.T.Helper()
	r := w.run()
	w.publish(orders, n)
	w.copied(orders)
	r.endsWell()
}

// eventually waits on fake time.
func (w *world) eventually(holds func() bool, what func() string) {
	w.T.Helper()
	for began := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			w.T.Fatal(what())
		}
	}
}

// copied waits until nothing of a topic is left to copy.
func (w *world) copied(topic string) {
	w.T.Helper()
	left := int64(0)
	sub := "geobridge.g.west." + topic[strings.LastIndexByte(topic, '/')+1:]
	w.eventually(func() bool {
		left = w.Left("east", topic, sub)
		return left == 0
	}, func() string {
		return fmt.Sprintf("%d entries of %s are not copied: %+v", left, topic, w.board.Report().Mappings)
	})
}

func (w *world) segments(side, topic string) []*reroute.Segment {
	w.T.Helper()
	l, err := Layout(context.Background(), w.clients[side], topic)
	w.Must(err)
	return l.Segments()
}

// publish sends n messages of 10 keys to the active segments of the topic at east.
func (w *world) publish(topic string, n int) {
	w.T.Helper()
	l, err := Layout(context.Background(), w.clients["east"], topic)
	w.Must(err)
	for range n {
		at := len(w.published[topic])
		key := fmt.Sprint("key-", at%10)
		body := fmt.Sprint(key, "=", at)
		seg, _, _ := l.Place(reroute.Key{Key: []byte(key), HasKey: true}, nil)
		w.send(seg.Topic(topic), key, body)
		w.published[topic] = append(w.published[topic], body)
	}
}

// send stores one message; on fake time each has a publish time of its own.
// properties are names and values.
func (w *world) send(segment, key, body string, properties ...string) {
	w.T.Helper()
	s := w.producers[segment]
	if s == nil {
		s = &sender{receipts: make(chan pulsar.MessageID, 1)}
		var err error
		s.producer, err = w.clients["east"].OpenProducer(context.Background(), pulsar.ProducerOptions{Topic: segment}, s)
		w.Must(err)
		w.producers[segment] = s
	}
	time.Sleep(time.Millisecond)
	m := &pulsarpb.MessageMetadata{ProducerName: proto.String("app"), SequenceId: proto.Uint64(s.next),
		PublishTime: proto.Uint64(uint64(time.Now().UnixMilli())), PartitionKey: proto.String(key)}
	for i := 0; i < len(properties); i += 2 {
		m.Properties = append(m.Properties, &pulsarpb.KeyValue{Key: &properties[i], Value: &properties[i+1]})
	}
	md, err := proto.Marshal(m)
	w.Must(err)
	w.Must(s.producer.Send(pulsar.Outgoing{Sequence: s.next, NumMessages: 1, Metadata: md, Payload: []byte(body)}))
	s.next++
	s.last = <-s.receipts
}

type sender struct {
	producer *pulsar.Producer
	next     uint64
	receipts chan pulsar.MessageID
	last     pulsar.MessageID
}

func (s *sender) Receipt(_ uint64, at pulsar.MessageID) { s.receipts <- at }
func (s *sender) SendError(_ uint64, err error)         { panic(err) }
func (s *sender) BrokerClosed(error)                    {}
func (s *sender) Closed(error)                          {}

// stored are the messages of a topic at west by key, in the order in which they are
// stored: parents before children.
func (w *world) stored(topic string) map[string][]string {
	w.T.Helper()
	out := map[string][]string{}
	for _, s := range w.segments("west", topic) { // ids rise with time
		all, err := w.Sides["west"].Entries(s.Topic(topic))
		w.Must(err)
		for _, e := range all {
			if !e.Info.HasMarker {
				out[string(e.Info.PartitionKey)] = append(out[string(e.Info.PartitionKey)], string(e.Payload))
			}
		}
	}
	return out
}

// want compares what is stored of a topic with messages, in order of each key.
func (w *world) want(topic string, bodies ...string) {
	w.T.Helper()
	if got, want := w.stored(topic), byKey(bodies); fmt.Sprint(got) != fmt.Sprint(want) {
		w.T.Errorf("%s:\nstored %v\nwant   %v", topic, got, want)
	}
}

// wantLast is want of what was stored last.
func (w *world) wantLast(topic string, bodies ...string) {
	w.T.Helper()
	got, want := w.stored(topic), byKey(bodies)
	for key, all := range got {
		if n := len(want[key]); len(all) >= n && fmt.Sprint(all[len(all)-n:]) == fmt.Sprint(want[key]) {
			continue
		}
		w.T.Errorf("%s: stored %v\nwant at the end %v", topic, all, want[key])
	}
	if len(got) != len(want) {
		w.T.Errorf("%s: stored %d keys, want %d", topic, len(got), len(want))
	}
}

func byKey(bodies []string) map[string][]string {
	out := map[string][]string{}
	for _, body := range bodies {
		key, _, _ := strings.Cut(body, "=")
		out[key] = append(out[key], body)
	}
	return out
}

// twice are the messages up to a place, and then those from a place on.
func (w *world) twice(topic string, upTo, from int) []string {
	all := w.published[topic]
	return slices.Concat(all[:upTo], all[from:])
}

// upkeep is for mapping orders. told hears of each step; it may be nil.
func (w *world) upkeep(told func(string)) (u *replicate.Upkeep, end func()) {
	w.T.Helper()
	cfg := w.config()
	o := w.upkeepOptions(told)
	if x := w.crash.Load(); x != nil {
		o.Dial = x.line.dial
	}
	u, end, err := NewUpkeep(cfg, cfg.Mappings[0], o)
	w.Must(err)
	return u, end
}

func (w *world) upkeepOptions(told func(string)) UpkeepOptions {
	return UpkeepOptions{Logger: slog.New(slog.DiscardHandler), Dial: w.Dial, Tell: func(format string, args ...any) {
		if told != nil {
			told(fmt.Sprintf(format, args...))
		}
	}}
}

// hold opens a producer of that name, as who lives would.
func (w *world) hold(side, topic, name string) *pulsar.Producer {
	w.T.Helper()
	p, err := w.clients[side].OpenProducer(context.Background(), pulsar.ProducerOptions{Topic: topic, Name: name}, &sender{})
	w.Must(err)
	return p
}
