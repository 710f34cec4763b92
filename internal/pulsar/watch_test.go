package pulsar

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

const testScalable = "topic://public/default/t"

func layoutOf(session, epoch uint64, segs ...*pulsarpb.SegmentInfoProto) *pulsarpb.BaseCommand {
	cmd := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE)
	cmd.ScalableTopicUpdate = &pulsarpb.CommandScalableTopicUpdate{
		SessionId: proto.Uint64(session), ResolvedTopicName: proto.String(testScalable),
		Dag: &pulsarpb.ScalableTopicDAG{
			Epoch: proto.Uint64(epoch), Segments: segs,
			SegmentBrokers:         []*pulsarpb.SegmentBrokerAddress{{SegmentId: proto.Uint64(1), BrokerUrl: proto.String("pulsar://b:1"), BrokerUrlTls: proto.String("pulsar+ssl://b:2")}},
			ControllerBrokerUrl:    proto.String("pulsar://c:1"),
			ControllerBrokerUrlTls: proto.String("pulsar+ssl://c:2"),
		},
	}
	return cmd
}

func segmentOf(id uint64, start, end uint32, splits ...uint32) *pulsarpb.SegmentInfoProto {
	return &pulsarpb.SegmentInfoProto{
		SegmentId: proto.Uint64(id), HashStart: proto.Uint32(start), HashEnd: proto.Uint32(end), State: pulsarpb.SegmentState_ACTIVE.Enum(),
		CreatedAtEpoch: proto.Uint64(0), CreatedAtMs: proto.Uint64(99), EntryBucketSplits: splits,
	}
}

// watching runs a watch until the test stops it.
type watching[T any] struct {
	mu      sync.Mutex
	updates []T
	err     error
	stop    context.CancelFunc
	ended   chan struct{}
}

func watch[T any](t *testing.T, run func(context.Context, func(T)) error) *watching[T] {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching[T]{stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		err := run(ctx, func(u T) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.updates = append(w.updates, u)
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = err
	}()
	return w
}

func (w *watching[T]) end() error {
	w.stop()
	<-w.ended
	return w.err
}

func TestWatchLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP, func(c *fakeConn, f *frame.Frame) {
			c.send(layoutOf(f.Command.GetScalableTopicLookup().GetSessionId(), 3, segmentOf(1, 0, 0xffff, 0x4000, 0x8000)))
		})
		w := watch(t, func(ctx context.Context, f func(LayoutUpdate)) error {
			return r.client.WatchLayout(ctx, testScalable, f)
		})
		synctest.Wait()
		look := b.received(pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP)[0].Command.GetScalableTopicLookup()
		if look.CreateIfMissing == nil || look.GetCreateIfMissing() || look.GetTopic() != testScalable {
			t.Errorf("asked for %v", look)
		}
		c := b.connections()[0]
		c.send(layoutOf(look.GetSessionId()+9, 9)) // not ours
		c.send(layoutOf(look.GetSessionId(), 4, segmentOf(2, 0, 0x7fff), segmentOf(3, 0x8000, 0xffff)))
		synctest.Wait()
		if err := w.end(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if len(w.updates) != 2 {
			t.Fatalf("updates %+v", w.updates)
		}
		u := w.updates[0]
		if u.Topic != testScalable || u.Epoch != 3 || u.ControllerURL != "pulsar://c:1" || u.Brokers[1] != "b:1" {
			t.Errorf("got %+v", u)
		}
		if s := u.Segments[0]; s.ID != 1 || s.HashEnd != 0xffff || s.CreatedAtMs != 99 || !slices.Equal(s.EntryBucketSplits, []uint16{0x4000, 0x8000}) {
			t.Errorf("segment %+v", s)
		}
		synctest.Wait()
		if n := len(b.received(pulsarpb.BaseCommand_SCALABLE_TOPIC_CLOSE)); n != 1 {
			t.Errorf("%d closes of the session", n)
		}
	})
}

func TestWatchLayoutEnds(t *testing.T) {
	session := func(f *frame.Frame) uint64 { return f.Command.GetScalableTopicLookup().GetSessionId() }
	tests := []struct {
		name string
		hook func(*fakeConn, *frame.Frame)
		want error
		told int // updates
	}{
		{"missing", func(c *fakeConn, f *frame.Frame) {
			cmd := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE)
			cmd.ScalableTopicUpdate = &pulsarpb.CommandScalableTopicUpdate{SessionId: proto.Uint64(session(f)), Error: pulsarpb.ServerError_TopicNotFound.Enum()}
			c.send(cmd)
		}, ErrTopicNotFound, 1},
		{"no layout", func(c *fakeConn, f *frame.Frame) {
			cmd := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE)
			cmd.ScalableTopicUpdate = &pulsarpb.CommandScalableTopicUpdate{SessionId: proto.Uint64(session(f))}
			c.send(cmd)
		}, ErrProtocol, 1},
		{"range above 16 bits", func(c *fakeConn, f *frame.Frame) { c.send(layoutOf(session(f), 0, segmentOf(1, 0, 0x10000))) }, ErrProtocol, 1},
		{"splits not ascending", func(c *fakeConn, f *frame.Frame) { c.send(layoutOf(session(f), 0, segmentOf(1, 0, 9, 5, 5))) }, ErrProtocol, 1},
		{"cut after an update", func(c *fakeConn, f *frame.Frame) {
			c.send(layoutOf(session(f), 0))
			c.nc.Close()
		}, ErrConnectionLost, 1},
		{"mute", func(*fakeConn, *frame.Frame) {}, ErrTimeout, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.broker("a:6650").on(pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP, tt.hook)
				told := 0
				if err := r.client.WatchLayout(t.Context(), testScalable, func(LayoutUpdate) { told++ }); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if told != tt.told {
					t.Errorf("told %d times, want %d", told, tt.told)
				}
			})
		})
	}
}

func TestWatchNeedsScalableTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.broker("a:6650").on(pulsarpb.BaseCommand_CONNECT, func(c *fakeConn, _ *frame.Frame) {
			cmd := command(pulsarpb.BaseCommand_CONNECTED)
			cmd.Connected = &pulsarpb.CommandConnected{ServerVersion: proto.String("4.0")}
			c.send(cmd)
		})
		err := r.client.WatchLayout(t.Context(), testScalable, nil)
		if !errors.Is(err, ErrUnsupported) || ClassOf(err) != ClassFatal {
			t.Errorf("layout: %v", err)
		}
		if err := r.client.WatchTopics(t.Context(), "public/default", nil); !errors.Is(err, ErrUnsupported) {
			t.Errorf("topics: %v", err)
		}
	})
}

func TestWatchTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS, func(c *fakeConn, f *frame.Frame) {
			cmd := command(pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_UPDATE)
			m := &pulsarpb.CommandWatchScalableTopicsUpdate{WatchId: f.Command.GetWatchScalableTopics().WatchId}
			cmd.WatchScalableTopicsUpdate = m
			m.Event = &pulsarpb.CommandWatchScalableTopicsUpdate_Snapshot{Snapshot: &pulsarpb.ScalableTopicsSnapshot{Topics: []string{"x", "y"}}}
			c.send(cmd)
			m.Event = &pulsarpb.CommandWatchScalableTopicsUpdate_Diff{Diff: &pulsarpb.ScalableTopicsDiff{Added: []string{"z"}, Removed: []string{"x"}}}
			c.send(cmd)
		})
		w := watch(t, func(ctx context.Context, f func(TopicsUpdate)) error {
			return r.client.WatchTopics(ctx, "public/default", f)
		})
		synctest.Wait()
		if err := w.end(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if len(w.updates) != 2 || !w.updates[0].Snapshot || !slices.Equal(w.updates[0].Topics, []string{"x", "y"}) ||
			w.updates[1].Snapshot || !slices.Equal(w.updates[1].Added, []string{"z"}) || !slices.Equal(w.updates[1].Removed, []string{"x"}) {
			t.Errorf("updates %+v", w.updates)
		}
		if err := r.client.WatchTopics(t.Context(), "public", nil); !errors.Is(err, ErrInvalidName) {
			t.Errorf("malformed namespace: %v", err)
		}
	})
}
