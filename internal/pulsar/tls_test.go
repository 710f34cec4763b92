package pulsar

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// certificate makes one that signs itself, for clients and servers.
func certificate(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// tlsAuth is authentication by client certificate.
type tlsAuth struct{ cert tls.Certificate }

func (a tlsAuth) Name() string                                 { return "tls" }
func (a tlsAuth) GetData() ([]byte, error)                     { return nil, nil }
func (a tlsAuth) GetTLSCertificate() (*tls.Certificate, error) { return &a.cert, nil }

// secured puts TLS in front of a fake network: of each connection it takes the
// server's side and hands plain bytes on.
func secured(r *rig, server *tls.Config, relays *sync.WaitGroup) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		plain, err := r.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		ours, theirs := net.Pipe()
		secure := tls.Server(theirs, server)
		relay := func(to, from net.Conn) {
			buf := make([]byte, 32<<10)
			for {
				n, err := from.Read(buf)
				if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
					plain.Close()
					theirs.Close()
					return
				}
			}
		}
		relays.Go(func() { relay(secure, plain) })
		relays.Go(func() { relay(plain, secure) })
		return ours, nil
	}
}

func TestTLS(t *testing.T) {
	tests := []struct {
		name   string
		server string // the host its certificate names
		client bool   // whether the client has the certificate asked for
		reason Reason // "" for success
	}{
		{"both known", "a", true, ""},
		{"another host", "b", true, ReasonTLS},
		{"no client certificate", "a", false, ReasonTLS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serverCert, serverPool := certificate(t, tt.server)
				clientCert, clientPool := certificate(t, "client")
				var relays sync.WaitGroup
				defer relays.Wait()
				var expiry time.Time
				r := newRig(t, func(o *Options) {
					o.ServiceURL = "pulsar+ssl://a"
					o.TLS = &tls.Config{RootCAs: serverPool}
					if tt.client {
						o.Auth = tlsAuth{clientCert}
					}
					o.OnEvent = func(e Event) {
						if e.Type == EventCredential && e.CredentialKind == "tls" {
							expiry = e.Expiry
						}
					}
				})
				// TLS 1.2 asks for the client's certificate within the handshake; a
				// later refusal would meet CONNECT on a pipe that holds no byte.
				r.client.opts.Dial = secured(r, &tls.Config{
					Certificates: []tls.Certificate{serverCert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clientPool,
					MaxVersion: tls.VersionTLS12,
				}, &relays)
				b := r.broker("a:6651")
				defer r.end()
				_, err := r.client.Connect(t.Context())
				if tt.reason != "" {
					var ce *ConnectionError
					if !errors.As(err, &ce) || ce.Reason != tt.reason {
						t.Errorf("got %v, want %s", err, tt.reason)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				sendOverTLS(t, r)
				if !expiry.Equal(clientCert.Leaf.NotAfter) {
					t.Errorf("certificate said to expire %s", expiry)
				}
				if got := b.received(pulsarpb.BaseCommand_CONNECT)[0].Command.GetConnect().GetAuthMethodName(); got != "tls" {
					t.Errorf("method %q", got)
				}
			})
		})
	}
}

// sendOverTLS sends more than a record holds, and more than is coalesced.
func sendOverTLS(t *testing.T, r *rig) {
	t.Helper()
	h := &producerRecorder{}
	p := openTestProducer(t, r, h)
	for seq := range uint64(20) {
		if err := p.Send(Outgoing{Sequence: seq, Metadata: testMetadata(), Payload: make([]byte, 20_000)}); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	if n := len(h.get()); n != 20 {
		t.Errorf("%d receipts: %q", n, h.get())
	}
}

func TestNoAnswer(t *testing.T) {
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}
	if got := noAnswer(fmt.Errorf("read: %w", alert)); got != ReasonTLS {
		t.Errorf("alert: %s", got)
	}
	if got := noAnswer(io.ErrUnexpectedEOF); got != ReasonHandshake {
		t.Errorf("end: %s", got)
	}
}
