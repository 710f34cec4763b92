package pulsar

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func assigned(epoch uint64, end uint32, buckets ...*pulsarpb.IntRange) *pulsarpb.ScalableConsumerAssignment {
	return &pulsarpb.ScalableConsumerAssignment{LayoutEpoch: proto.Uint64(epoch), Segments: []*pulsarpb.ScalableAssignedSegment{{
		SegmentId: proto.Uint64(1), HashStart: proto.Uint32(0), HashEnd: proto.Uint32(end), SegmentTopic: proto.String(testTopic), BucketRanges: buckets,
	}}}
}

// registers makes a broker the controller, which assigns a.
func (b *fakeBroker) registers(a *pulsarpb.ScalableConsumerAssignment) {
	b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
		reply := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
		reply.ScalableTopicSubscribeResponse = &pulsarpb.CommandScalableTopicSubscribeResponse{RequestId: f.Command.GetScalableTopicSubscribe().RequestId, Assignment: a}
		c.send(reply)
	})
	b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
		c.success(f.Command.GetScalableTopicUnsubscribe().GetRequestId())
	})
}

func streamOptions() StreamOptions {
	return StreamOptions{Topic: testScalable, Subscription: "s", ConsumerName: "c", Controller: "pulsar://ctl:1"}
}

func TestRegisterStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("ctl:1")
		b.registers(assigned(1, 0xffff))
		w := watch(t, func(ctx context.Context, f func(Assignment)) error {
			return r.client.RegisterStream(ctx, streamOptions(), f)
		})
		synctest.Wait()
		push := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_ASSIGNMENT_UPDATE)
		id := b.received(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE)[0].Command.GetScalableTopicSubscribe().ConsumerId
		push.ScalableTopicAssignmentUpdate = &pulsarpb.CommandScalableTopicAssignmentUpdate{
			ConsumerId: id, Assignment: assigned(2, 0xffff, &pulsarpb.IntRange{Start: proto.Int32(0), End: proto.Int32(0xffff)}),
		}
		b.connections()[0].send(push)
		synctest.Wait()
		time.Sleep(reregisterEvery + time.Second)
		if err := w.end(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		plain := Assignment{1, []AssignedSegment{{ID: 1, HashEnd: 0xffff, Topic: testTopic}}}
		shared := Assignment{2, []AssignedSegment{{ID: 1, HashEnd: 0xffff, Topic: testTopic, Buckets: []HashRange{{0, 0xffff}}}}}
		if want := []Assignment{plain, shared, plain}; !reflect.DeepEqual(w.updates, want) {
			t.Errorf("told\n  %+v, want\n  %+v", w.updates, want)
		}
		if n := len(b.received(pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE)); n != 1 {
			t.Errorf("%d goodbyes", n)
		}
	})
}

func TestRegisterStreamFails(t *testing.T) {
	tests := []struct {
		name string
		hook func(*fakeBroker)
		opts func(*StreamOptions)
		want error
	}{
		{"refused", func(b *fakeBroker) {
			b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
				reply := command(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
				reply.ScalableTopicSubscribeResponse = &pulsarpb.CommandScalableTopicSubscribeResponse{
					RequestId: f.Command.GetScalableTopicSubscribe().RequestId, Error: pulsarpb.ServerError_AuthorizationError.Enum(),
				}
				c.send(reply)
			})
		}, nil, ErrAuthorization},
		{"range above 16 bits", func(b *fakeBroker) { b.registers(assigned(1, 1<<16)) }, nil, ErrProtocol},
		{"bucket above 16 bits", func(b *fakeBroker) {
			b.registers(assigned(1, 9, &pulsarpb.IntRange{Start: proto.Int32(0), End: proto.Int32(1 << 16)}))
		}, nil, ErrProtocol},
		{"cut", func(b *fakeBroker) {
			b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE, func(c *fakeConn, _ *frame.Frame) { c.nc.Close() })
		}, nil, ErrConnectionLost},
		{"no name", nil, func(o *StreamOptions) { o.ConsumerName = "" }, ErrInvalidName},
		{"bad controller", nil, func(o *StreamOptions) { o.Controller = "pulsar+ssl://ctl:1" }, ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				b := r.broker("ctl:1")
				b.on(pulsarpb.BaseCommand_SCALABLE_TOPIC_UNSUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
					c.success(f.Command.GetScalableTopicUnsubscribe().GetRequestId())
				})
				if tt.hook != nil {
					tt.hook(b)
				}
				o := streamOptions()
				if tt.opts != nil {
					tt.opts(&o)
				}
				if err := r.client.RegisterStream(t.Context(), o, func(Assignment) {}); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}
