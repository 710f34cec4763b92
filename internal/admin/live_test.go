package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/auth"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// The tests of this file talk to a real broker, in make e2e: LIVE=pulsar://… LIVE_HTTP=http://…,
// and for the rights LIVE_AUTH_HTTP with LIVE_SUPERUSER_TOKEN and LIVE_APP_TOKEN
// (role app, which may produce and consume in public/default).

func liveName() string { return fmt.Sprintf("admin-%d", time.Now().UnixNano()%1e12) }

func live(t *testing.T) (*Client, *pulsar.Client) {
	t.Helper()
	url := os.Getenv("LIVE")
	if url == "" {
		t.Skip("LIVE is not set")
	}
	wire, err := pulsar.New(pulsar.Options{Cluster: "live", ServiceURL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = wire.Close() })
	return newClient(t, Options{URL: os.Getenv("LIVE_HTTP")}), wire
}

type receipts struct{ got chan uint64 }

func (r receipts) Receipt(seq uint64, _ pulsar.MessageID) { r.got <- seq }
func (r receipts) SendError(uint64, error)                {}
func (r receipts) BrokerClosed(error)                     {}
func (r receipts) Closed(error)                           {}

// publish stores n entries.
func publish(t *testing.T, wire *pulsar.Client, topic string, n uint64) {
	t.Helper()
	r := receipts{make(chan uint64, n)}
	p, err := wire.OpenProducer(t.Context(), pulsar.ProducerOptions{Topic: topic, Name: "admin-live"}, r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close(t.Context()) }()
	for seq := range n {
		metadata, _ := proto.Marshal(&pulsarpb.MessageMetadata{ProducerName: proto.String("admin-live"), SequenceId: proto.Uint64(seq),
			PublishTime: proto.Uint64(1), PartitionKey: proto.String("k")})
		if err := p.Send(pulsar.Outgoing{Sequence: seq, Metadata: metadata, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		<-r.got
	}
}

type silent struct{}

func (silent) Message(m pulsar.Message) { m.Entry.Release() }
func (silent) ActiveChanged(bool)       {}
func (silent) EndOfTopic()              {}
func (silent) Closed(error)             {}

func subscribe(t *testing.T, wire *pulsar.Client, topic, sub string, position pulsar.InitialPosition) *pulsar.Consumer {
	t.Helper()
	c, err := wire.Subscribe(t.Context(), pulsar.SubscribeOptions{Topic: topic, Subscription: sub, ConsumerName: "c",
		Type: pulsar.Failover, Durable: true, Position: position}, silent{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// autoScaleOff keeps the layout: idle segments are merged within minutes.
func autoScaleOff(t *testing.T, c *Client, topic string) {
	t.Helper()
	path, err := scalablePath(topic, "autoScalePolicy")
	must(t, c.do(t.Context(), call{op: "keep layout", method: http.MethodPost, path: path, err: err, in: map[string]bool{"enabled": false}}))
}

// Facts 13, 3.5, P16 and P17.
func TestLiveScalable(t *testing.T) {
	c, wire := live(t)
	ctx, topic := t.Context(), "topic://public/default/"+liveName()
	segment := "segment" + topic[len("topic"):] + "/0000-ffff-0"

	if exists, err := c.Exists(ctx, topic); exists || err != nil {
		t.Errorf("before: %v, %v", exists, err)
	}
	for what, err := range map[string]error{
		"record": c.RecordSubscription(ctx, topic, "s"), "skip": c.SkipAll(ctx, topic, "s"), "delete": c.DeleteSubscription(ctx, topic, "s"),
		"stats":   func() error { _, err := c.Subscriptions(ctx, topic); return err }(),
		"segment": func() error { _, err := c.SegmentStats(ctx, topic, 0); return err }(),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of a missing topic: %v", what, err)
		}
	}
	must(t, c.CreateScalable(ctx, topic, 1))
	if err := c.CreateScalable(ctx, topic, 1); !errors.Is(err, ErrConflict) {
		t.Errorf("created twice: %v", err)
	}
	autoScaleOff(t, c, topic)
	if topics, err := c.ScalableTopics(ctx, "public/default"); err != nil || len(topics) == 0 {
		t.Error(topics, err)
	}
	publish(t, wire, segment, 10)

	subscribe(t, wire, segment, "latest-then-record", pulsar.PositionLatest)
	held := subscribe(t, wire, segment, "loose", pulsar.PositionEarliest)
	must(t, c.RecordSubscription(ctx, topic, "latest-then-record"))
	must(t, c.RecordSubscription(ctx, topic, "latest-then-record"))
	must(t, c.RecordSubscription(ctx, topic, "recorded"))
	must(t, c.RecordSubscription(ctx, topic, "guard"))
	must(t, c.SkipAll(ctx, topic, "guard"))
	must(t, c.SkipAll(ctx, topic, "nobody"))
	must(t, c.DeleteSubscription(ctx, topic, "nobody"))

	subs, err := c.Subscriptions(ctx, topic)
	must(t, err)
	type row struct {
		Type              string
		Backlog, Attached int
	}
	got := map[string]row{}
	for name, s := range subs {
		got[name] = row{s.Type, int(s.Backlog), s.Attached()}
	}
	want := map[string]row{"latest-then-record": {TypeStream, 0, 1}, "loose": {TypeQueue, 10, 1}, "recorded": {TypeStream, 10, 0}, "guard": {TypeStream, 0, 0}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("subscriptions (-want +got):\n%s", d)
	}
	stats, err := c.SegmentStats(ctx, topic, 0)
	if err != nil || stats.StorageBytes == 0 || stats.Terminated || stats.CreatedAt.IsZero() || stats.Subscriptions["loose"].Type != "Failover" ||
		len(stats.Subscriptions["loose"].Consumers) != 1 || stats.Subscriptions["loose"].Consumers[0].Name != "c" {
		t.Errorf("%+v, %v", stats, err)
	}

	must(t, c.RecordSubscription(ctx, topic, "loose"))
	must(t, c.DeleteSubscription(ctx, topic, "loose")) // attached: only the record goes
	must(t, c.DeleteSubscription(ctx, topic, "recorded"))
	subs, err = c.Subscriptions(ctx, topic)
	if _, there := subs["recorded"]; there || err != nil || subs["loose"].Type != TypeQueue || subs["loose"].Backlog != 10 {
		t.Errorf("after deletion: %+v, %v", subs, err)
	}
	must(t, held.Close(ctx))
}

func TestLiveRegular(t *testing.T) {
	c, wire := live(t)
	ctx, topic := t.Context(), "persistent://public/default/__"+liveName()
	if _, err := c.RegularSubscriptions(ctx, topic); !errors.Is(err, ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	must(t, c.EnsureRegularTopic(ctx, topic))
	must(t, c.EnsureRegularTopic(ctx, topic))
	must(t, c.EnsureSubscription(ctx, topic, "first", true))
	publish(t, wire, topic, 5)
	must(t, c.EnsureSubscription(ctx, topic, "earliest", true))
	must(t, c.EnsureSubscription(ctx, topic, "latest", false))
	must(t, c.EnsureSubscription(ctx, topic, "first", false)) // exists: stays
	for sub, want := range map[string]int64{"first": 5, "earliest": 5, "latest": 0} {
		consumer := subscribe(t, wire, topic, sub, pulsar.PositionLatest)
		if s, err := consumer.Stats(ctx); err != nil || s.Backlog != want {
			t.Errorf("%s: backlog %d, want %d (%v)", sub, s.Backlog, want, err)
		}
		must(t, consumer.Close(ctx))
	}
	if s, err := c.Compaction(ctx, topic); err != nil || s.State != CompactionNotRun {
		t.Errorf("%+v, %v", s, err)
	}
	must(t, c.CompactTopic(ctx, topic))
	waitFor(t, "compaction", func() bool { s, err := c.Compaction(ctx, topic); return err == nil && s.State == CompactionSuccess })
	if subs, err := c.RegularSubscriptions(ctx, topic); err != nil || len(subs) != 4 { // and __compaction
		t.Errorf("%v, %v", subs, err)
	}
	created := "persistent://public/default/__" + liveName()
	must(t, c.EnsureSubscription(ctx, created, "s", true))
	if subs, err := c.RegularSubscriptions(ctx, created); err != nil || len(subs) != 1 {
		t.Errorf("topic created by its subscription: %v, %v", subs, err)
	}
	missing := "persistent://no/such/__" + liveName()
	if err := c.EnsureRegularTopic(ctx, missing); !errors.Is(err, ErrNotFound) {
		t.Errorf("topic in no namespace: %v", err)
	}
	if err := c.EnsureSubscription(ctx, missing, "s", true); !errors.Is(err, ErrNotFound) {
		t.Errorf("subscription in no namespace: %v", err)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); !done(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no %s", what)
		}
	}
}

func TestLivePolicies(t *testing.T) {
	c, _ := live(t)
	ctx := t.Context()
	if p, err := c.NamespacePolicies(ctx, "public/default"); err != nil || p.RetentionMB != nil || p.TTLSeconds != nil || p.Deduplication != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := c.NamespacePolicies(ctx, "public/nope"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	name, err := c.ClusterName(ctx)
	if err != nil || name == "" || c.clusterLabel(ctx) != name {
		t.Errorf("%q, in metrics %q, %v", name, c.clusterLabel(ctx), err)
	}
	if config, err := c.BrokerConfig(ctx); err != nil || config["maxMessageSize"] == "" || config["ttlDurationDefaultInSeconds"] == "" {
		t.Errorf("%v", err)
	}
}

// Facts P35.
func TestLiveRights(t *testing.T) {
	url := os.Getenv("LIVE_AUTH_HTTP")
	if url == "" {
		t.Skip("LIVE_AUTH_HTTP is not set")
	}
	ctx := t.Context()
	as := func(token string) *Client {
		return newClient(t, Options{URL: url, Auth: auth.NewAuthenticationToken(token)})
	}
	super, app, bad, none := as(os.Getenv("LIVE_SUPERUSER_TOKEN")), as(os.Getenv("LIVE_APP_TOKEN")), as("x.y.z"), newClient(t, Options{URL: url})
	topic, state := "topic://public/default/"+liveName(), "persistent://public/default/__"+liveName()
	must(t, super.CreateScalable(ctx, topic, 1))
	must(t, app.RecordSubscription(ctx, topic, "s"))
	must(t, app.SkipAll(ctx, topic, "s"))
	must(t, app.EnsureSubscription(ctx, state, "hold", true)) // creates the topic
	if subs, err := app.RegularSubscriptions(ctx, state); err != nil || len(subs) != 1 {
		t.Errorf("%v, %v", subs, err)
	}
	if subs, err := app.Subscriptions(ctx, topic); err != nil || subs["s"].Type != TypeStream {
		t.Errorf("%v, %v", subs, err)
	}
	must(t, app.DeleteSubscription(ctx, topic, "s"))
	if err := app.RecordSubscription(ctx, topic+"-missing", "s"); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing topic: %v", err)
	}
	name, err := super.ClusterName(ctx)
	must(t, err)
	if got, err := app.ClusterName(ctx); err != nil || got != name {
		t.Errorf("cluster name %q, %v; want %q", got, err, name)
	}
	_, unknown := app.NamespacePolicies(ctx, "public/default")
	if !errors.Is(unknown, ErrUnknown) {
		t.Errorf("policies: %v", unknown)
	}
	for what, err := range map[string]error{
		"policies": unknown, "create": app.CreateScalable(ctx, topic+"-2", 1), "topic": app.EnsureRegularTopic(ctx, state+"-2"),
		"compact": app.CompactTopic(ctx, state), "bad token": bad.RecordSubscription(ctx, topic, "s"), "no token": none.RecordSubscription(ctx, topic, "s"),
	} {
		if !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%s: %v", what, err)
		}
		t.Log(err)
	}
}
