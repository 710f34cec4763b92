package pulsar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

type producerRecorder struct{ recorder }

func (r *producerRecorder) Receipt(seq uint64, id MessageID) {
	r.add(fmt.Sprintf("receipt %d %s", seq, id))
}

func (r *producerRecorder) SendError(seq uint64, err error) {
	var s *ServerError
	if !errors.As(err, &s) {
		r.add("untyped: " + err.Error())
		return
	}
	r.add(fmt.Sprintf("error %d %s", seq, s.Code))
}
func (r *producerRecorder) BrokerClosed(err error) {
	r.add("broker closed")
	if !errors.Is(err, ErrClosedByBroker) {
		r.add("untyped: " + err.Error())
	}
}

func openTestProducer(t *testing.T, r *rig, h ProducerHandler) *Producer {
	t.Helper()
	p, err := r.client.OpenProducer(t.Context(), ProducerOptions{Topic: testTopic, Name: "n"}, h)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func send(t *testing.T, p *Producer, sequences ...uint64) {
	t.Helper()
	for _, seq := range sequences {
		if err := p.Send(Outgoing{Sequence: seq, Metadata: testMetadata(), Payload: []byte("hello")}); err != nil {
			t.Fatalf("send %d: %v", seq, err)
		}
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("handler was told\n  %q, want\n  %q", got, want)
	}
}

func TestProducerReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_PRODUCER, func(c *fakeConn, f *frame.Frame) { c.produced(f.Command, "", 41) })
		h := &producerRecorder{}
		p := openTestProducer(t, r, h)
		if p.Name() != "n" || p.LastSequenceID() != 41 || p.MaxMessageSize() != 64<<10 {
			t.Errorf("name %q, last %d, max %d", p.Name(), p.LastSequenceID(), p.MaxMessageSize())
		}
		send(t, p, 42, 43, 44)
		synctest.Wait()
		wantLines(t, h.get(), "receipt 42 7:0", "receipt 43 7:1", "receipt 44 7:2")
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n, err := h.end(); n != 1 || !errors.Is(err, ErrClosed) {
			t.Errorf("closed %d times, %v", n, err)
		}
		if err := p.Send(Outgoing{Metadata: testMetadata()}); !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosed) {
			t.Errorf("send on a closed producer: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
		if n, _ := h.end(); n != 1 {
			t.Errorf("closed %d times", n)
		}
		got := b.received(pulsarpb.BaseCommand_PRODUCER)[0].Command.GetProducer()
		if got.GetTopic() != testTopic || got.GetProducerName() != "n" || !got.GetUserProvidedProducerName() {
			t.Errorf("opened with %v", got)
		}
	})
}

func TestProducerSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_SEND, func(*fakeConn, *frame.Frame) {}) // no answer by itself
		h := &producerRecorder{}
		p := openTestProducer(t, r, h)
		send(t, p, 1, 2, 3, 4)
		synctest.Wait()
		c := b.connections()[1]
		c.receipt(p.id, 1, MessageID{7, 0})
		c.closeProducer(p.id)
		c.sendError(p.id, 4, pulsarpb.ServerError_PersistenceError)
		c.receipt(p.id, 2, MessageID{7, 1}) // later than the close
		c.sendError(p.id, 3, pulsarpb.ServerError_TopicTerminatedError)
		c.closeProducer(p.id) // twice is once
		synctest.Wait()
		wantLines(t, h.get(), "receipt 1 7:0", "broker closed", "error 4 PersistenceError", "receipt 2 7:1", "error 3 TopicTerminatedError")
		err := p.Send(Outgoing{Sequence: 5, Metadata: testMetadata()})
		if !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosedByBroker) {
			t.Errorf("send: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(b.received(pulsarpb.BaseCommand_CLOSE_PRODUCER)); n != 0 {
			t.Errorf("asked %d times to close what the broker had closed", n)
		}
		c.receipt(p.id, 3, MessageID{7, 2}) // nobody is there any more
		synctest.Wait()
		if n, _ := h.end(); n != 1 || h.get()[len(h.get())-1] != "closed" {
			t.Errorf("closed %d times, lines %q", n, h.get())
		}
	})
}

func TestProducerOpenRefused(t *testing.T) {
	tests := []struct {
		code  pulsarpb.ServerError
		want  error
		class Class
	}{
		{pulsarpb.ServerError_ProducerBusy, ErrProducerBusy, ClassBusy},
		{pulsarpb.ServerError_TopicTerminatedError, ErrTopicTerminated, ClassTerminated},
		{pulsarpb.ServerError_TopicNotFound, ErrTopicNotFound, ClassNotFound},
		{pulsarpb.ServerError_ServiceNotReady, ErrNotReady, ClassNotReady},
		{pulsarpb.ServerError_ProducerBlockedQuotaExceededException, ErrQuotaExceeded, ClassQuota},
		{pulsarpb.ServerError_AuthorizationError, ErrAuthorization, ClassAuth},
	}
	for _, tt := range tests {
		t.Run(tt.code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.broker("a:6650").on(pulsarpb.BaseCommand_PRODUCER, func(c *fakeConn, f *frame.Frame) {
					c.refuse(f.Command.GetProducer().GetRequestId(), tt.code)
				})
				h := &producerRecorder{}
				_, err := r.client.OpenProducer(t.Context(), ProducerOptions{Topic: testTopic, Name: "n"}, h)
				if !errors.Is(err, tt.want) || ClassOf(err) != tt.class {
					t.Errorf("got %v (%s), want %v (%s)", err, ClassOf(err), tt.want, tt.class)
				}
				r.end()
				wantLines(t, h.get())
			})
		})
	}
}

// A mute holder of the name delays the answer by 5 s; one that never comes ends
// at the time-out, and the broker is told to forget the producer.
func TestProducerOpenSlow(t *testing.T) {
	tests := []struct {
		name   string
		delay  time.Duration
		ctx    time.Duration
		want   error
		closes int
	}{
		{"held by the broker", 5010 * time.Millisecond, time.Hour, nil, 0},
		{"never", time.Hour, 2 * time.Hour, ErrTimeout, 1},
		{"caller gave up", time.Hour, time.Second, context.DeadlineExceeded, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(o *Options) { o.OperationTimeout = 2 * time.Second })
				b := r.broker("a:6650")
				b.on(pulsarpb.BaseCommand_PRODUCER, func(c *fakeConn, f *frame.Frame) {
					c.broker.net.parts.Go(func() {
						time.Sleep(tt.delay)
						c.produced(f.Command, "", -1)
					})
				})
				ctx, cancel := context.WithTimeout(t.Context(), tt.ctx)
				defer cancel()
				h := &producerRecorder{}
				_, err := r.client.OpenProducer(ctx, ProducerOptions{Topic: testTopic, Name: "n"}, h)
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				synctest.Wait()
				if n := len(b.received(pulsarpb.BaseCommand_CLOSE_PRODUCER)); n != tt.closes {
					t.Errorf("%d CLOSE_PRODUCER, want %d", n, tt.closes)
				}
			})
		})
	}
}

func TestProducerCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.broker("a:6650").on(pulsarpb.BaseCommand_CLOSE_PRODUCER, func(*fakeConn, *frame.Frame) {})
		h := &producerRecorder{}
		p := openTestProducer(t, r, h)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		if n, err := h.end(); n != 1 || !errors.Is(err, ErrClosed) {
			t.Errorf("closed %d times, %v", n, err)
		}
	})
}

// A broker that closes a handle while it is asked to need not answer.
func TestCloseMeetsTheBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_CLOSE_PRODUCER, func(c *fakeConn, f *frame.Frame) {
			c.closeProducer(f.Command.GetCloseProducer().GetProducerId())
		})
		b.on(pulsarpb.BaseCommand_CLOSE_CONSUMER, func(c *fakeConn, f *frame.Frame) {
			c.closeConsumer(f.Command.GetCloseConsumer().GetConsumerId())
		})
		ph, ch := &producerRecorder{}, &consumerRecorder{}
		p, s := openTestProducer(t, r, ph), subscribeTest(t, r, ch)
		start := time.Now()
		if err := errors.Join(p.Close(t.Context()), s.Close(t.Context())); err != nil || time.Since(start) > 0 {
			t.Errorf("closed after %s: %v", time.Since(start), err)
		}
		wantLines(t, ph.get(), "broker closed", "closed")
		wantLines(t, ch.get(), "closed")
	})
}

// eagerProducer uses its producer from within each call.
type eagerProducer struct {
	producerRecorder
	p *Producer
}

func (e *eagerProducer) again() {
	if err := e.p.Send(Outgoing{Sequence: 99, Metadata: testMetadata()}); err != nil && !errors.Is(err, ErrNotSent) {
		e.add(err.Error())
	}
}
func (e *eagerProducer) Receipt(seq uint64, id MessageID) {
	e.producerRecorder.Receipt(seq, id)
	if seq != 99 {
		e.again()
	}
}
func (e *eagerProducer) BrokerClosed(err error) { e.producerRecorder.BrokerClosed(err); e.again() }
func (e *eagerProducer) Closed(err error)       { e.producerRecorder.Closed(err); e.again() }

// eagerConsumer does so with its consumer.
type eagerConsumer struct {
	consumerRecorder
	s *Consumer
}

func (e *eagerConsumer) Message(m Message) {
	e.consumerRecorder.Message(m)
	e.s.AckCumulative(m.ID, func(err error) {
		e.add(fmt.Sprint("acked ", err))
		e.s.AckCumulative(m.ID, nil)
		_ = e.s.Flow(1) // what a dead consumer says to it is no news
	})
}
func (e *eagerConsumer) Closed(err error) {
	e.s.AckIndividual([]MessageID{{1, 1}}, func(err error) {
		if !errors.Is(err, ErrNotSent) {
			e.add("acked after the end")
		}
	})
	e.consumerRecorder.Closed(err)
}

func TestHandlersMayUseTheirHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		ph, ch := &eagerProducer{}, &eagerConsumer{}
		ph.p = openTestProducer(t, r, ph)
		ch.s = subscribeTest(t, r, ch)
		send(t, ph.p, 1)
		synctest.Wait()
		b.connections()[1].closeProducer(ph.p.id)
		b.connections()[2].message(ch.s.id, MessageID{1, 1}, testMetadata(), []byte("x"))
		synctest.Wait()
		b.connections()[1].nc.Close()
		b.connections()[2].nc.Close()
		synctest.Wait()
		wantLines(t, ph.get(), "receipt 1 7:0", "receipt 99 7:1", "broker closed", "closed")
		wantLines(t, ch.get(), `message 1:1 "x"`, "acked <nil>", "closed")
	})
}

// The connection is cut after a silence: what was sent is in doubt, and said to
// be so only by Closed.
func TestProducerSilenceThenCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_SEND, func(*fakeConn, *frame.Frame) {})
		h := &producerRecorder{}
		p := openTestProducer(t, r, h)
		send(t, p, 1, 2)
		synctest.Wait()
		b.connections()[1].nc.Close()
		synctest.Wait()
		wantLines(t, h.get(), "closed")
		_, err := h.end()
		var ce *ConnectionError
		if !errors.As(err, &ce) || ce.Reason != ReasonEOF || ClassOf(err) != ClassConnection {
			t.Errorf("closed with %v", err)
		}
		if err := p.Send(Outgoing{Metadata: testMetadata()}); !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrConnectionLost) {
			t.Errorf("send: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		openTestProducer(t, r, h) // over a new connection
	})
}

func TestProducerTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.broker("a:6650")
		p := openTestProducer(t, r, &producerRecorder{})
		md := testMetadata()
		fits := Outgoing{Metadata: md, Payload: make([]byte, p.MaxEntrySize()-len(md))}
		if err := p.Send(fits); err != nil {
			t.Error(err)
		}
		fits.Payload = make([]byte, len(fits.Payload)+1)
		err := p.Send(fits)
		if !errors.Is(err, ErrTooLarge) || !errors.Is(err, ErrNotSent) || RetryOf(err) != RetryNever {
			t.Errorf("got %v", err)
		}
		if p.MaxEntrySize()+1024 >= p.MaxMessageSize() {
			t.Errorf("margin of %d bytes", p.MaxMessageSize()-p.MaxEntrySize())
		}
	})
}

// brittle is a connection whose writes fail after so many bytes.
type brittle struct {
	net.Conn
	left int
}

var errBrittle = errors.New("write failed midway")

func (b *brittle) Write(p []byte) (int, error) {
	if b.left >= len(p) {
		b.left -= len(p)
		return b.Conn.Write(p)
	}
	n, _ := b.Conn.Write(p[:b.left])
	b.left = 0
	return n, errBrittle
}

func TestProducerWriteFailsMidway(t *testing.T) {
	for _, left := range []int{300, 500, 2000, 5000} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				b := r.broker("a:6650")
				b.wrap = func(c net.Conn) net.Conn { return &brittle{c, left} }
				h := &producerRecorder{}
				p := openTestProducer(t, r, h)
				entry := frame.NewEntry(testMetadata(), make([]byte, 100))
				for seq := range uint64(100) {
					err := p.Send(Outgoing{Sequence: seq, Metadata: entry.Metadata, Payload: entry.Payload, PayloadCRC: entry.PayloadCRC, HasPayloadCRC: true, Owner: entry})
					if err != nil && !errors.Is(err, ErrNotSent) {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if n, err := h.end(); n != 1 || !errors.Is(err, ErrConnectionLost) || !errors.Is(err, errBrittle) {
					t.Errorf("closed %d times: %v", n, err)
				}
				entry.Release() // ours was the last reference:
				defer func() {
					if recover() == nil {
						t.Error("the writer kept a reference")
					}
				}()
				entry.Release()
			})
		})
	}
}
