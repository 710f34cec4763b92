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

type consumerRecorder struct {
	recorder
	last Message // of Message, its entry released
}

func (r *consumerRecorder) Message(m Message) {
	r.add(fmt.Sprintf("message %s %q", m.ID, m.Entry.Payload))
	r.mu.Lock()
	r.last = m
	r.mu.Unlock()
	m.Entry.Release()
}
func (r *consumerRecorder) ActiveChanged(active bool) { r.add(fmt.Sprint("active ", active)) }
func (r *consumerRecorder) EndOfTopic()               { r.add("end of topic") }

func failover() SubscribeOptions {
	return SubscribeOptions{Topic: testTopic, Subscription: "s", ConsumerName: "c", Type: Failover, Durable: true, Position: PositionEarliest}
}

func subscribeTest(t *testing.T, r *rig, h ConsumerHandler) *Consumer {
	t.Helper()
	s, err := r.client.Subscribe(t.Context(), failover(), h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func activeChange(consumer uint64, active bool) *pulsarpb.BaseCommand {
	cmd := command(pulsarpb.BaseCommand_ACTIVE_CONSUMER_CHANGE)
	cmd.ActiveConsumerChange = &pulsarpb.CommandActiveConsumerChange{ConsumerId: proto.Uint64(consumer), IsActive: proto.Bool(active)}
	return cmd
}

func TestConsumerEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_SUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
			// The broker elects before it answers.
			c.send(activeChange(f.Command.GetSubscribe().GetConsumerId(), false))
			c.success(f.Command.GetSubscribe().GetRequestId())
		})
		h := &consumerRecorder{}
		s := subscribeTest(t, r, h)
		if err := errors.Join(s.Flow(10), s.Flow(0)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := b.received(pulsarpb.BaseCommand_FLOW); len(got) != 1 || got[0].Command.GetFlow().GetMessagePermits() != 10 {
			t.Errorf("flow %v", got)
		}
		c := b.connections()[1]
		c.send(activeChange(s.id, true))
		c.message(s.id, MessageID{3, 4}, testMetadata(), []byte("x"))
		c.message(s.id+99, MessageID{3, 5}, testMetadata(), []byte("for nobody"))
		end := command(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
		end.ReachedEndOfTopic = &pulsarpb.CommandReachedEndOfTopic{ConsumerId: proto.Uint64(s.id)}
		c.send(end)
		c.closeConsumer(s.id)
		c.message(s.id, MessageID{3, 6}, testMetadata(), []byte("too late"))
		synctest.Wait()
		wantLines(t, h.get(), "active false", "active true", `message 3:4 "x"`, "end of topic", "closed")
		if n, err := h.end(); n != 1 || !errors.Is(err, ErrClosedByBroker) || ClassOf(err) != ClassHandle {
			t.Errorf("closed %d times: %v", n, err)
		}
		if err := s.Flow(1); !errors.Is(err, ErrClosedByBroker) {
			t.Errorf("flow on a dead consumer: %v", err)
		}
		if err := s.Close(t.Context()); err != nil || len(b.received(pulsarpb.BaseCommand_CLOSE_CONSUMER)) != 0 {
			t.Errorf("close of a dead consumer: %v", err)
		}
		got := b.received(pulsarpb.BaseCommand_SUBSCRIBE)[0].Command.GetSubscribe()
		if got.GetSubType() != pulsarpb.CommandSubscribe_Failover || !got.GetDurable() || got.GetForceTopicCreation() ||
			got.GetInitialPosition() != pulsarpb.CommandSubscribe_Earliest || got.GetConsumerName() != "c" {
			t.Errorf("subscribed with %v", got)
		}
	})
}

func TestConsumerDamagedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		h := &consumerRecorder{}
		s := subscribeTest(t, r, h)
		c := b.connections()[1]
		c.message(s.id, MessageID{1, 1}, []byte{0xff}, []byte("x"))
		synctest.Wait()
		if !errors.Is(h.last.Err, frame.ErrMetadata) {
			t.Errorf("undecodable metadata: %v", h.last.Err)
		}
		m := frame.MessageCommand{ConsumerID: s.id, Ledger: 1, Entry: 2, Partition: -1, BatchIndex: -1}
		c.raw(append(frame.AppendMessage(nil, &m, testMetadata(), 1, frame.Checksum(0, []byte("x"))), 'y'))
		synctest.Wait()
		if !errors.Is(h.last.Err, frame.ErrChecksum) {
			t.Errorf("flipped payload: %v", h.last.Err)
		}
		c.message(s.id, MessageID{1, 3}, testMetadata(), []byte("fine"))
		synctest.Wait()
		if h.last.Err != nil || h.last.ID != (MessageID{1, 3}) {
			t.Errorf("after the damage: %v %v", h.last.ID, h.last.Err)
		}
	})
}

var errRefused = errors.New("some refusal of the broker")

// ackResults keeps how acknowledgements ended, by name.
type ackResults struct {
	mu sync.Mutex
	m  map[string][]error
}

func (a *ackResults) done(name string) func(error) {
	return func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.m == nil {
			a.m = map[string][]error{}
		}
		a.m[name] = append(a.m[name], err)
	}
}

// want checks that the acknowledgement ended once, with want; nil is success.
func (a *ackResults) want(t *testing.T, name string, want error) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.m[name]
	if len(got) == 1 && want == errRefused && isServerError(got[0]) {
		return
	}
	if len(got) != 1 || !errors.Is(got[0], want) {
		t.Errorf("%s: ended with %v, want once %v", name, got, want)
	}
}

func (a *ackResults) pending(t *testing.T, name string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.m[name]; len(got) != 0 {
		t.Errorf("%s: ended with %v, want pending", name, got)
	}
}

func TestAckReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.OperationTimeout = testTimeout })
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_ACK, func(*fakeConn, *frame.Frame) {})
		s := subscribeTest(t, r, &consumerRecorder{})
		var acks ackResults
		s.AckCumulative(MessageID{1, 1}, acks.done("first"))
		s.AckIndividual([]MessageID{{1, 2}, {1, 4}}, acks.done("second"))
		s.AckCumulative(MessageID{1, 9}, acks.done("refused"))
		s.AckCumulative(MessageID{1, 10}, nil)
		s.AckIndividual(nil, acks.done("empty"))
		synctest.Wait()
		c, got := b.connections()[1], b.received(pulsarpb.BaseCommand_ACK)
		if len(got) != 4 || len(got[1].Command.GetAck().GetMessageId()) != 2 || got[3].Command.GetAck().RequestId != nil {
			t.Fatalf("sent %v", got)
		}
		request := func(i int) uint64 { return got[i].Command.GetAck().GetRequestId() }
		c.acked(s.id, 1<<60)        // never asked for
		c.acked(s.id+1, request(0)) // not of this consumer
		c.acked(s.id, request(1))   // in any order
		refusal := command(pulsarpb.BaseCommand_ACK_RESPONSE)
		refusal.AckResponse = &pulsarpb.CommandAckResponse{
			ConsumerId: proto.Uint64(s.id), RequestId: proto.Uint64(request(2)),
			Error: pulsarpb.ServerError_UnknownError.Enum(), Message: proto.String("Invalid mark deleted position"),
		}
		c.send(refusal)
		c.acked(s.id, request(1)) // twice is once
		synctest.Wait()
		acks.want(t, "second", nil)
		acks.want(t, "empty", nil)
		acks.pending(t, "first")
		acks.want(t, "refused", errRefused)
		time.Sleep(testTimeout + 2*keeperTick)
		acks.want(t, "first", ErrTimeout)
	})
}

func TestAcksFailWithTheirConsumer(t *testing.T) {
	tests := []struct {
		name string
		end  func(*testing.T, *fakeConn, *Consumer)
		want error
	}{
		{"closed by the broker", func(_ *testing.T, c *fakeConn, s *Consumer) { c.closeConsumer(s.id) }, ErrClosedByBroker},
		{"connection cut", func(_ *testing.T, c *fakeConn, _ *Consumer) { c.nc.Close() }, ErrConnectionLost},
		{"closed here", func(t *testing.T, _ *fakeConn, s *Consumer) {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}, ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				b := r.broker("a:6650")
				b.on(pulsarpb.BaseCommand_ACK, func(*fakeConn, *frame.Frame) {})
				h := &consumerRecorder{}
				s := subscribeTest(t, r, h)
				s.AckCumulative(MessageID{1, 1}, func(err error) { h.add("ack failed") })
				var acks ackResults
				s.AckCumulative(MessageID{1, 2}, acks.done("pending"))
				synctest.Wait()
				tt.end(t, b.connections()[1], s)
				synctest.Wait()
				wantLines(t, h.get(), "ack failed", "closed")
				acks.want(t, "pending", tt.want)
				s.AckCumulative(MessageID{1, 3}, acks.done("later"))
				acks.want(t, "later", ErrNotSent)
				acks.want(t, "later", tt.want)
				if _, err := h.end(); !errors.Is(err, tt.want) {
					t.Errorf("closed with %v", err)
				}
			})
		})
	}
}

func TestAckManyIndividually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		s := subscribeTest(t, r, &consumerRecorder{})
		var acks ackResults
		ids := make([]MessageID, 2*maxAckIDs+1)
		s.AckIndividual(ids, acks.done("all"))
		synctest.Wait()
		acks.want(t, "all", nil)
		if n := len(b.received(pulsarpb.BaseCommand_ACK)); n != 3 {
			t.Errorf("%d frames", n)
		}
	})
}

func TestSubscribeRefused(t *testing.T) {
	tests := []struct {
		name string
		opts func(*SubscribeOptions)
		code pulsarpb.ServerError
		want error
	}{
		{"busy", nil, pulsarpb.ServerError_ConsumerBusy, ErrConsumerBusy},
		{"missing", nil, pulsarpb.ServerError_TopicNotFound, ErrTopicNotFound},
		{"ranges", nil, pulsarpb.ServerError_ConsumerAssignError, ErrConsumerAssign},
		{"scalable topic", func(o *SubscribeOptions) { o.Topic = "topic://public/default/t" }, 0, ErrInvalidName},
		{"malformed", func(o *SubscribeOptions) { o.Topic = "segment://bad" }, 0, ErrInvalidName},
		{"no subscription", func(o *SubscribeOptions) { o.Subscription = "" }, 0, ErrInvalidName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.broker("a:6650").on(pulsarpb.BaseCommand_SUBSCRIBE, func(c *fakeConn, f *frame.Frame) {
					c.send(activeChange(f.Command.GetSubscribe().GetConsumerId(), true))
					c.refuse(f.Command.GetSubscribe().GetRequestId(), tt.code)
				})
				o := failover()
				if tt.opts != nil {
					tt.opts(&o)
				}
				h := &consumerRecorder{}
				if _, err := r.client.Subscribe(t.Context(), o, h); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				r.end()
				if n, _ := h.end(); n != 0 {
					t.Error("Closed of a consumer that never was")
				}
			})
		})
	}
}

func TestSubscribeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_SUBSCRIBE, func(*fakeConn, *frame.Frame) {})
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		h := &consumerRecorder{}
		if _, err := r.client.Subscribe(ctx, failover(), h); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if n := len(b.received(pulsarpb.BaseCommand_CLOSE_CONSUMER)); n != 1 {
			t.Errorf("%d CLOSE_CONSUMER: the broker may keep the consumer", n)
		}
		r.end()
		wantLines(t, h.get())
	})
}

func TestConsumerStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_CONSUMER_STATS, func(c *fakeConn, f *frame.Frame) {
			reply := command(pulsarpb.BaseCommand_CONSUMER_STATS_RESPONSE)
			reply.ConsumerStatsResponse = &pulsarpb.CommandConsumerStatsResponse{
				RequestId: f.Command.GetConsumerStats().RequestId, MsgBacklog: proto.Uint64(7),
				AvailablePermits: proto.Uint64(^uint64(2)), // −3: overdrawn
			}
			c.send(reply)
		})
		s := subscribeTest(t, r, &consumerRecorder{})
		stats, err := s.Stats(t.Context())
		if err != nil || stats.Backlog != 7 || stats.AvailablePermits != -3 {
			t.Errorf("got %+v, %v", stats, err)
		}
		b.on(pulsarpb.BaseCommand_CONSUMER_STATS, func(c *fakeConn, f *frame.Frame) { c.closeConsumer(s.id) })
		start := time.Now()
		if _, err := s.Stats(t.Context()); !errors.Is(err, ErrClosedByBroker) || time.Since(start) > 0 {
			t.Errorf("stats of a consumer that dies: %v after %s", err, time.Since(start))
		}
	})
}

func TestSubscribeCommand(t *testing.T) {
	start := MessageID{5, 6}
	o := SubscribeOptions{Topic: testTopic, Subscription: "s", Type: KeyShared, Start: &start, ReadCompacted: true, PriorityLevel: 2,
		KeyShared: &KeySharing{Sticky: true, EntryBuckets: true, Ranges: []HashRange{{0, 0x7fff}, {0x8000, 0xffff}}}}
	got := o.command(1, 2).GetSubscribe()
	meta := got.GetKeySharedMeta()
	if got.GetStartMessageId().GetLedgerId() != 5 || got.GetStartMessageId().GetEntryId() != 6 || got.GetDurable() || !got.GetReadCompacted() ||
		meta.GetKeySharedMode() != pulsarpb.KeySharedMode_STICKY || !meta.GetEntryBucketDispatch() || meta.GetHashRanges()[1].GetEnd() != 0xffff {
		t.Errorf("got %v", got)
	}
	earliest := Earliest()
	o.Start = &earliest
	if id := o.command(1, 2).GetSubscribe().GetStartMessageId(); id.GetLedgerId() != ^uint64(0) || id.GetEntryId() != ^uint64(0) {
		t.Errorf("earliest is %v on the wire", id)
	}
}
