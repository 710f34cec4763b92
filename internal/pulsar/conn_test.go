package pulsar

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// rotating is a credential that differs each time it is read.
type rotating struct {
	reads atomic.Int64
	err   error
	block chan struct{} // where set, GetData waits for it
}

func (a *rotating) Name() string                                 { return "token" }
func (a *rotating) GetTLSCertificate() (*tls.Certificate, error) { return nil, nil }
func (a *rotating) GetData() ([]byte, error) {
	if a.block != nil {
		<-a.block
	}
	return []byte{'0' + byte(a.reads.Add(1))}, a.err
}

func challenge() *pulsarpb.BaseCommand {
	cmd := command(pulsarpb.BaseCommand_AUTH_CHALLENGE)
	cmd.AuthChallenge = &pulsarpb.CommandAuthChallenge{Challenge: &pulsarpb.AuthData{AuthMethodName: proto.String("token")}}
	return cmd
}

func TestConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Auth = &rotating{} })
		b := r.broker("a:6650")
		info, err := r.client.Connect(t.Context())
		if err != nil || info != (ServerInfo{Broker: "a:6650", Version: "fake", ProtocolVersion: 21, MaxMessageSize: 64 << 10, ScalableTopics: true}) {
			t.Fatalf("got %+v, %v", info, err)
		}
		got := b.received(pulsarpb.BaseCommand_CONNECT)[0].Command.GetConnect()
		want := &pulsarpb.FeatureFlags{SupportsAuthRefresh: proto.Bool(true), SupportsScalableTopics: proto.Bool(true)}
		if !proto.Equal(got.GetFeatureFlags(), want) || got.GetProtocolVersion() != 21 || got.GetAuthMethodName() != "token" || string(got.GetAuthData()) != "1" {
			t.Errorf("connected with %v", got)
		}
	})
}

func TestConnectFails(t *testing.T) {
	tests := []struct {
		name   string
		auth   Auth
		hook   func(*fakeConn, *frame.Frame)
		reason Reason
		class  Class
		want   error
	}{
		{"refused credential", nil, func(c *fakeConn, _ *frame.Frame) { c.refuse(^uint64(0), pulsarpb.ServerError_AuthenticationError) },
			ReasonAuth, ClassAuth, ErrAuthentication},
		{"unreadable credential", &rotating{err: errBrittle}, nil, ReasonAuth, ClassAuth, errBrittle},
		{"not now", nil, func(c *fakeConn, _ *frame.Frame) { c.refuse(^uint64(0), pulsarpb.ServerError_ServiceNotReady) },
			ReasonHandshake, ClassNotReady, ErrNotReady},
		{"hung up", nil, func(c *fakeConn, _ *frame.Frame) { c.nc.Close() }, ReasonHandshake, ClassConnection, ErrConnectionLost},
		{"mute", nil, func(*fakeConn, *frame.Frame) {}, ReasonHandshake, ClassConnection, context.DeadlineExceeded},
		{"another language", nil, func(c *fakeConn, _ *frame.Frame) { c.raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
			ReasonHandshake, ClassConnection, frame.ErrTooLarge},
		{"out of turn", nil, func(c *fakeConn, _ *frame.Frame) { c.send(pongCommand()) }, ReasonProtocol, ClassConnection, ErrProtocol},
		{"endless challenges", &rotating{}, func(c *fakeConn, _ *frame.Frame) { c.send(challenge()) }, ReasonAuth, ClassAuth, ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []Event
				r := newRig(t, func(o *Options) {
					o.Auth = tt.auth
					o.OnEvent = func(e Event) { events = append(events, e) }
				})
				b := r.broker("a:6650")
				if tt.hook != nil {
					b.on(pulsarpb.BaseCommand_CONNECT, tt.hook)
					b.on(pulsarpb.BaseCommand_AUTH_RESPONSE, tt.hook)
				}
				_, err := r.client.Connect(t.Context())
				var ce *ConnectionError
				if !errors.As(err, &ce) || ce.Reason != tt.reason || ClassOf(err) != tt.class || !errors.Is(err, tt.want) {
					t.Errorf("got %v (%s)", err, ClassOf(err))
				}
				if i := len(events) - 1; i < 0 || events[i].Type != EventConnectError || events[i].Reason != tt.reason {
					t.Errorf("events %+v", events)
				}
			})
		})
	}
}

func TestConnectUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		_, err := r.client.Connect(t.Context())
		var ce *ConnectionError
		if !errors.As(err, &ce) || ce.Reason != ReasonDial || !errors.Is(err, errUnreachable) {
			t.Errorf("got %v", err)
		}
		r.broker("a:6650") // it is never too late
		if _, err := r.client.Connect(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// All who ask while a connection is being made share the attempt; one who
// gives up does not end it.
func TestConnectIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		b.on(pulsarpb.BaseCommand_CONNECT, func(c *fakeConn, _ *frame.Frame) {
			time.Sleep(testTimeout)
			c.connected()
		})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var asked sync.WaitGroup
		asked.Go(func() {
			if _, err := r.client.Connect(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("short: %v", err)
			}
		})
		for range 3 {
			asked.Go(func() {
				if _, err := r.client.Connect(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		asked.Wait()
		if n := len(b.connections()); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestCloseWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.broker("a:6650").on(pulsarpb.BaseCommand_CONNECT, func(*fakeConn, *frame.Frame) {})
		var asked sync.WaitGroup
		asked.Go(func() {
			if _, err := r.client.Connect(t.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		r.end()
		asked.Wait()
		if _, err := r.client.Connect(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		var pings, pongs atomic.Int32
		b.on(pulsarpb.BaseCommand_PING, func(c *fakeConn, _ *frame.Frame) {
			pings.Add(1)
			c.send(pongCommand())
		})
		b.on(pulsarpb.BaseCommand_PONG, func(*fakeConn, *frame.Frame) { pongs.Add(1) })
		h := &consumerRecorder{}
		subscribeTest(t, r, h)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := pings.Load(); n < 38 || n > 42 { // two connections
			t.Errorf("%d pings in 10 min", n)
		}
		if n, err := h.end(); n != 0 {
			t.Fatalf("closed: %v", err)
		}
		b.connections()[1].send(pingCommand())
		synctest.Wait()
		if pongs.Load() != 1 {
			t.Error("PING was not answered at once")
		}
		b.on(pulsarpb.BaseCommand_PING, func(*fakeConn, *frame.Frame) {})
		start := time.Now()
		for n := 0; n == 0; n, _ = h.end() {
			time.Sleep(100 * time.Millisecond)
		}
		_, err := h.end()
		var ce *ConnectionError
		if !errors.As(err, &ce) || ce.Reason != ReasonSilence || !errors.Is(err, ErrConnectionLost) {
			t.Errorf("closed with %v", err)
		}
		if took := time.Since(start); took < 55*time.Second || took > 62*time.Second {
			t.Errorf("mute connection ended after %s", took)
		}
	})
}

// A connection that takes no bytes does not hold back a handle's Close, nor its
// own end.
func TestStuckSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		stuck := make(chan struct{})
		b.on(pulsarpb.BaseCommand_SEND, func(*fakeConn, *frame.Frame) { <-stuck })
		h := &producerRecorder{}
		p := openTestProducer(t, r, h)
		for seq := range uint64(50) {
			send(t, p, seq)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		time.Sleep(silenceLimit + 2*time.Second)
		if b.connections()[1] == nil || p.conn.alive() {
			t.Error("the mute connection lives")
		}
		close(stuck)
	})
}

func TestAuthChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := &rotating{}
		r := newRig(t, func(o *Options) { o.Auth = auth })
		b := r.broker("a:6650")
		if _, err := r.client.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			b.connections()[0].send(challenge())
			synctest.Wait()
		}
		var got []string
		for _, f := range b.received(pulsarpb.BaseCommand_AUTH_RESPONSE) {
			a := f.Command.GetAuthResponse()
			got = append(got, a.GetResponse().GetAuthMethodName()+" "+string(a.GetResponse().GetAuthData()))
		}
		if !slices.Equal(got, []string{"token 2", "token 3"}) {
			t.Errorf("answered %q", got)
		}
		// A provider that hangs holds up nothing else.
		auth.block = make(chan struct{})
		b.connections()[0].send(challenge())
		b.connections()[0].send(challenge())
		if _, err := r.client.Lookup(t.Context(), testTopic); err != nil {
			t.Error(err)
		}
		close(auth.block)
		synctest.Wait()
		if n := len(b.received(pulsarpb.BaseCommand_AUTH_RESPONSE)); n != 3 {
			t.Errorf("%d answers", n)
		}
	})
}

// The broker tells why before it hangs up.
func TestCredentialRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		h := &consumerRecorder{}
		subscribeTest(t, r, h)
		c := b.connections()[1]
		c.refuse(12345, pulsarpb.ServerError_TopicNotFound) // late answer to something else
		c.refuse(^uint64(0), pulsarpb.ServerError_AuthenticationError)
		c.nc.Close()
		synctest.Wait()
		_, err := h.end()
		if !errors.Is(err, ErrAuthentication) || errors.Is(err, ErrTopicNotFound) || ClassOf(err) != ClassAuth {
			t.Errorf("closed with %v (%s)", err, ClassOf(err))
		}
	})
}

func TestTokenExpiry(t *testing.T) {
	tests := []struct {
		token string
		want  int64
	}{
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4IiwiZXhwIjoxNzAwMDAwMDAwfQ.sig", 1700000000},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.sig", 0},
		{"opaque", 0}, {"a.b.c", 0}, {"", 0},
	}
	for _, tt := range tests {
		got := tokenExpiry([]byte(tt.token))
		if got.IsZero() != (tt.want == 0) || tt.want != 0 && got.Unix() != tt.want {
			t.Errorf("%q expires %v, want %d", tt.token, got, tt.want)
		}
	}
}

// Junk between good frames neither disturbs nor ends anything.
func TestUnsolicitedCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := r.broker("a:6650")
		h := &producerRecorder{}
		p := openTestProducer(t, r, h)
		c := b.connections()[1]
		values := pulsarpb.BaseCommand_Type(0).Descriptor().Values()
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		order := rand.New(rand.NewPCG(seed, 0)).Perm(values.Len())
		for _, i := range order {
			cmd := command(pulsarpb.BaseCommand_Type(values.Get(i).Number()))
			if cmd.GetType() == pulsarpb.BaseCommand_MESSAGE || cmd.GetType() == pulsarpb.BaseCommand_SEND_RECEIPT || cmd.GetType() == pulsarpb.BaseCommand_SEND {
				continue // these can not be without a body
			}
			c.send(cmd)
		}
		c.message(p.id, MessageID{1, 1}, testMetadata(), nil)
		c.receipt(p.id+1, 1, MessageID{1, 1})
		c.closeConsumer(p.id)
		c.success(77)
		synctest.Wait()
		send(t, p, 1)
		synctest.Wait()
		wantLines(t, h.get(), "receipt 1 7:0")
	})
}
