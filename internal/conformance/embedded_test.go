package conformance

import (
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// embedded is a cluster of pulsartest on loopback.
type embedded struct {
	cluster *pulsartest.Cluster
	admin   *httptest.Server
}

// keepAlive is short, so that a mute client is not waited for long, and long enough for 5 s of P34.
const keepAlive = 6 * time.Second

// grace is short, too.
const grace = 3 * time.Second

// newEmbedded serves a cluster for one scenario.
func newEmbedded(t *testing.T, brokers int, secret []byte) *embedded {
	t.Helper()
	o := pulsartest.Options{KeepAlive: keepAlive, StreamGrace: grace}
	var listeners []net.Listener
	for range brokers {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, ln)
		o.Brokers = append(o.Brokers, ln.Addr().String())
	}
	if secret != nil {
		o.Authenticate = func(method string, data []byte) bool {
			return method == "token" && judge(secret, string(data), time.Now())
		}
		o.Role = func(_ string, data []byte) string { return roleOf(string(data)) }
	}
	e := &embedded{cluster: pulsartest.New(o)}
	var serving sync.WaitGroup
	for n, b := range e.cluster.Brokers() {
		serving.Go(func() { _ = b.Serve(listeners[n]) })
	}
	e.admin = httptest.NewServer(e.cluster.Admin())
	t.Cleanup(func() {
		e.admin.Close()
		e.cluster.Close()
		serving.Wait()
	})
	return e
}

func (e *embedded) Cluster() string          { return e.cluster.Name() }
func (e *embedded) Service(n int) string     { return e.cluster.Brokers()[n].Addr() }
func (e *embedded) Admin(int) string         { return e.admin.URL }
func (e *embedded) Brokers() int             { return len(e.cluster.Brokers()) }
func (e *embedded) Patience() time.Duration  { return 10 * time.Second }
func (e *embedded) KeepAlive() time.Duration { return keepAlive }
func (e *embedded) Grace() time.Duration     { return grace }
func (e *embedded) Kill(_ *T, n int)         { e.cluster.Brokers()[n].Crash() }
func (e *embedded) Restart(_ *T, n int)      { e.cluster.Brokers()[n].Restart() }
func (e *embedded) Pause(_ *T, n int)        { e.cluster.Brokers()[n].Pause() }
func (e *embedded) Resume(_ *T, n int)       { e.cluster.Brokers()[n].Resume() }
func (e *embedded) Expire(t *T, n int, topic string) {
	e.Move(t, topic, 1-n)
}
func (e *embedded) CheckQuotas(*T)                 { e.cluster.CheckQuotas() }
func (e *embedded) CheckCredentials()              { e.cluster.ExpireCredentials() }
func (e *embedded) DeleteIdle(*T)                  { e.cluster.DeleteIdle() }
func (e *embedded) Move(_ *T, topic string, n int) { e.cluster.Move(topic, e.cluster.Brokers()[n]) }

// Prune implements World: the embedded cluster has no such timer.
func (e *embedded) Prune(t *T, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		_, err := e.cluster.Prune(topic)
		t.Must(err)
	}
}

// Quiet implements World: one queue carries all that is sent, so a PONG comes last.
func (e *embedded) Quiet(w *Wire) {
	w.t.Helper()
	if w.ended {
		return
	}
	w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_PING.Enum(), Ping: &pulsarpb.CommandPing{}})
	w.take(func(g Got) bool { return g.Type == pulsarpb.BaseCommand_PONG }, e.Patience())
}

// ReadOn implements World: the embedded cluster reads on before it answers.
func (e *embedded) ReadOn(w *Wire) {
	w.t.Helper()
	e.Quiet(w)
}
