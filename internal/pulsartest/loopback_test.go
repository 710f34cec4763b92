package pulsartest_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// The same cluster over TCP and over TLS, without a bubble.
func TestLoopback(t *testing.T) {
	secure := httptest.NewTLSServer(nil) // for its certificate
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	for _, scheme := range []string{"pulsar://", "pulsar+ssl://"} {
		ln := listen()
		cluster := pulsartest.New(pulsartest.Options{Brokers: []string{ln.Addr().String()}})
		if scheme == "pulsar+ssl://" {
			ln = tls.NewListener(ln, &tls.Config{Certificates: secure.TLS.Certificates, MinVersion: tls.VersionTLS12})
		}
		var serving sync.WaitGroup
		serving.Go(func() { _ = cluster.Brokers()[0].Serve(ln) })
		client, err := pulsar.New(pulsar.Options{ServiceURL: scheme + ln.Addr().String(), TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
		if err != nil {
			t.Fatal(err)
		}
		const topic = "persistent://public/default/t"
		w := &awaited{receipts: make(chan pulsar.MessageID, 1)}
		p, err := client.OpenProducer(t.Context(), pulsar.ProducerOptions{Topic: topic, Name: "p"}, w)
		if err != nil {
			t.Fatal(scheme, err)
		}
		if err := p.Send((&producer{Producer: p, r: &rig{t: t}}).keyed("k", "v")); err != nil {
			t.Error(scheme, err)
		}
		if at := <-w.receipts; at.Entry != 0 {
			t.Errorf("%s stored at %v", scheme, at)
		}
		_ = client.Close()
		cluster.Close()
		serving.Wait()
	}
}

type awaited struct {
	notes
	receipts chan pulsar.MessageID
}

func (a *awaited) Receipt(_ uint64, at pulsar.MessageID) { a.receipts <- at }
