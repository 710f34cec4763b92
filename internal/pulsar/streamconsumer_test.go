package pulsar

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// streamRig is a stream consumer at one scripted broker that is everything: the
// service host, the controller and the owner of the segments.
type streamRig struct {
	*rig
	t        *testing.T
	b        *fakeBroker
	consumer *StreamConsumer
	stop     context.CancelFunc
	ended    chan error

	mu    sync.Mutex
	lines []string
	at    StreamPosition
}

func (r *streamRig) Message(m StreamMessage) {
	m.Entry.Release()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("message %d %s #%d", m.Segment, m.ID, m.Delivery))
	r.at.Advance(m)
}

func (r *streamRig) Segment(s StreamSegment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%s %d", s.State, s.Assigned.ID))
}

func newStreamRig(t *testing.T, change func(*fakeBroker)) *streamRig {
	r := &streamRig{rig: newRig(t, nil), t: t, ended: make(chan error, 1), at: StreamPosition{}}
	r.b = r.broker("a:6650")
	r.b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP, func(c *fakeConn, f *frame.Frame) {
		u := layoutOf(f.Command.GetScalableTopicLookup().GetSessionId(), 1, segmentOf(1, 0, 0xffff))
		u.ScalableTopicUpdate.Dag.ControllerBrokerUrl = proto.String("pulsar://a:6650")
		c.send(u)
	})
	r.b.registers(assigned(1, 0xffff))
	if change != nil {
		change(r.b)
	}
	s, err := r.client.NewStreamConsumer(StreamConsumerOptions{
		Topic: testScalable, Subscription: "s", ConsumerName: "c", Window: 10, LeaveTimeout: 5 * time.Second,
	}, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.consumer, r.stop = s, cancel
	go func() { r.ended <- s.Run(ctx) }()
	synctest.Wait()
	return r
}

// assign pushes another assignment.
func (r *streamRig) assign(a *pulsarpb.ScalableConsumerAssignment) {
	r.t.Helper()
	push := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_ASSIGNMENT_UPDATE)
	id := r.b.received(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE)[0].Command.GetScalableTopicSubscribe().ConsumerId
	push.ScalableTopicAssignmentUpdate = &pulsarpb.CommandScalableTopicAssignmentUpdate{ConsumerId: id, Assignment: a}
	r.b.connections()[0].send(push)
	synctest.Wait()
}

// subscribed is the n-th SUBSCRIBE.
func (r *streamRig) subscribed(n int) *pulsarpb.CommandSubscribe {
	r.t.Helper()
	all := r.b.received(pulsarpb.BaseCommand_SUBSCRIBE)
	if len(all) <= n {
		r.t.Fatalf("%d subscribes, want number %d", len(all), n)
	}
	return all[n].Command.GetSubscribe()
}

// last is the connection made last: the consumers' one.
func (r *streamRig) last() *fakeConn {
	all := r.b.connections()
	return all[len(all)-1]
}

func (r *streamRig) message(consumer uint64, id MessageID) {
	r.last().message(consumer, id, testMetadata(), []byte("x"))
	synctest.Wait()
}

func (r *streamRig) ack(want error) {
	r.t.Helper()
	r.mu.Lock()
	at := r.at
	r.mu.Unlock()
	var acks ackResults
	r.consumer.Ack(at, acks.done("ack"))
	synctest.Wait()
	acks.want(r.t, "ack", want)
}

func (r *streamRig) told(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	wantLines(r.t, r.lines, want...)
	r.lines = nil
}

func (r *streamRig) leave(want error) {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; !errors.Is(err, want) {
		r.t.Errorf("ended with %v, want %v", err, want)
	}
}

func twoBuckets() []*pulsarpb.IntRange {
	return []*pulsarpb.IntRange{{Start: proto.Int32(0), End: proto.Int32(0x7fff)}, {Start: proto.Int32(0x8000), End: proto.Int32(0xffff)}}
}

func TestStreamConsumerFlips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStreamRig(t, nil)
		first := r.subscribed(0)
		if first.GetSubType() != pulsarpb.CommandSubscribe_Exclusive || !first.GetDurable() || first.GetKeySharedMeta() != nil ||
			first.GetInitialPosition() != pulsarpb.CommandSubscribe_Earliest || first.GetConsumerName() != "c" {
			t.Errorf("sole owner subscribed with %v", first)
		}
		r.message(first.GetConsumerId(), MessageID{1, 1})
		r.message(first.GetConsumerId(), MessageID{1, 2})
		r.told("opening 1", "reading 1", "message 1 1:1 #1", "message 1 1:2 #2")
		r.assign(assigned(1, 0xffff, twoBuckets()...))
		r.message(first.GetConsumerId(), MessageID{1, 3}) // prefetched, for whoever is next
		r.told("draining 1")
		r.ack(nil)
		r.told("closing 1", "opening 1", "reading 1")
		if a := r.b.received(pulsarpb.BaseCommand_ACK); len(a) != 1 || a[0].Command.GetAck().GetAckType() != pulsarpb.CommandAck_Cumulative ||
			a[0].Command.GetAck().GetMessageId()[0].GetEntryId() != 2 {
			t.Errorf("acknowledged %v", a)
		}
		second := r.subscribed(1)
		meta := second.GetKeySharedMeta()
		if second.GetSubType() != pulsarpb.CommandSubscribe_Key_Shared || meta.GetKeySharedMode() != pulsarpb.KeySharedMode_STICKY ||
			!meta.GetEntryBucketDispatch() || len(meta.GetHashRanges()) != 2 {
			t.Errorf("sharer subscribed with %v", second)
		}
		r.message(second.GetConsumerId(), MessageID{1, 3})
		r.message(second.GetConsumerId(), MessageID{1, 5})
		r.ack(nil)
		a := r.b.received(pulsarpb.BaseCommand_ACK)
		if got := a[len(a)-1].Command.GetAck(); got.GetAckType() != pulsarpb.CommandAck_Individual || len(got.GetMessageId()) != 2 {
			t.Errorf("sharer acknowledged %v", got)
		}
		r.assign(assigned(1, 0xffff, twoBuckets()...))
		r.told("message 1 1:3 #3", "message 1 1:5 #4")
		r.leave(nil)
		r.told("draining 1", "closing 1", "gone 1")
		if n := len(r.b.received(pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE)); n != 1 {
			t.Errorf("%d goodbyes", n)
		}
		var acks ackResults
		r.consumer.Ack(StreamPosition{}, acks.done("late"))
		acks.want(t, "late", ErrClosed)
	})
}

func TestStreamConsumerReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStreamRig(t, nil)
		refusals := 2
		r.b.on(pulsarpb.BaseCommand_SUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
			if refusals--; refusals >= 0 {
				c.refuse(f.Command.GetSubscribe().GetRequestId(), pulsarpb.ServerError_ConsumerBusy)
				return
			}
			c.success(f.Command.GetSubscribe().GetRequestId())
		})
		r.message(r.subscribed(0).GetConsumerId(), MessageID{1, 1})
		r.last().closeConsumer(r.subscribed(0).GetConsumerId())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.told("opening 1", "reading 1", "message 1 1:1 #1", "waiting 1", "opening 1", "waiting 1", "opening 1", "waiting 1", "opening 1", "reading 1")
		r.ack(nil) // of the dead consumer's: nothing to send
		if n := len(r.b.received(pulsarpb.BaseCommand_ACK)); n != 0 {
			t.Errorf("%d acknowledgements of what the new consumer was not given", n)
		}
		r.message(r.subscribed(3).GetConsumerId(), MessageID{1, 1})
		r.ack(nil)
		r.last().nc.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		r.told("message 1 1:1 #2", "waiting 1", "opening 1", "reading 1")
		r.leave(nil)
	})
}

func TestStreamConsumerLeaves(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fakeBroker)
		do     func(*streamRig)
		took   time.Duration
		want   error
	}{
		{"with nothing held", nil, nil, 0, nil},
		{"with entries held: after the deadline", nil, func(r *streamRig) {
			r.message(r.subscribed(0).GetConsumerId(), MessageID{1, 1})
		}, 5 * time.Second, nil},
		{"while a subscribe is not answered", func(b *fakeBroker) {
			b.on(pulsarpb.BaseCommand_SUBSCRIBE, func(*fakeConn, *frame.Frame) {})
		}, nil, 5 * time.Second, nil},
		{"while it waits to try again", func(b *fakeBroker) {
			b.on(pulsarpb.BaseCommand_SUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
				c.refuse(f.Command.GetSubscribe().GetRequestId(), pulsarpb.ServerError_TopicNotFound)
			})
		}, nil, 0, nil},
		{"as the client is closed", nil, func(r *streamRig) { _ = r.client.Close() }, 0, ErrClosed},
		{"as it can never register", func(b *fakeBroker) {
			b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
				reply := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
				reply.ScalableTopicSubscribeResponse = &pulsarpb.CommandScalableTopicSubscribeResponse{
					RequestId: f.Command.GetScalableTopicSubscribe().RequestId, Error: pulsarpb.ServerError_UnsupportedVersionError.Enum(),
				}
				c.send(reply)
			})
		}, nil, 0, ErrUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newStreamRig(t, tt.change)
				if tt.do != nil {
					tt.do(r)
				}
				synctest.Wait()
				began := time.Now()
				r.leave(tt.want)
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// TestStreamConsumerFindsController: the first broker asked is not it, and the
// layout tells which is.
func TestStreamConsumerFindsController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var session uint64
		var watcher *fakeConn
		r := newStreamRig(t, func(b *fakeBroker) {
			b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP, func(c *fakeConn, f *frame.Frame) {
				session, watcher = f.Command.GetScalableTopicLookup().GetSessionId(), c
				u := layoutOf(session, 1, segmentOf(1, 0, 0xffff))
				u.ScalableTopicUpdate.Dag.ControllerBrokerUrl = nil
				c.send(u)
			})
			b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
				reply := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
				reply.ScalableTopicSubscribeResponse = &pulsarpb.CommandScalableTopicSubscribeResponse{
					RequestId: f.Command.GetScalableTopicSubscribe().RequestId, Error: pulsarpb.ServerError_UnknownError.Enum(),
					Message: proto.String("This broker is not the leader for topic: t"),
				}
				c.send(reply)
			})
		})
		r.told()
		other := r.broker("c:1")
		other.registers(assigned(1, 0xffff))
		watcher.send(layoutOf(session, 1, segmentOf(1, 0, 0xffff)))
		synctest.Wait()
		r.told("opening 1", "reading 1")
		r.leave(nil)
	})
}

func TestStreamConsumerOptions(t *testing.T) {
	r := newRig(t, nil)
	for _, o := range []StreamConsumerOptions{
		{Subscription: "s", ConsumerName: "c"},
		{Topic: "topic://bad", Subscription: "s", ConsumerName: "c"},
		{Topic: testScalable, ConsumerName: "c"},
		{Topic: testScalable, Subscription: "s"},
	} {
		if _, err := r.client.NewStreamConsumer(o, nil); !errors.Is(err, ErrInvalidName) {
			t.Errorf("%+v: got %v, want %v", o, err, ErrInvalidName)
		}
	}
}
