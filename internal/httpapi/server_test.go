package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/geobridge/geobridge/internal/status"
)

func newServer(now func() time.Time) (*Server, *status.Board) {
	b := status.NewBoard(status.Options{
		Version: "v1", Group: "g", Instance: "i", Pair: "east,west", Now: now,
		Clusters: []status.Cluster{{Name: "east"}}, Mappings: []status.Mapping{{Name: "orders"}},
	})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(b.Collector(""))
	return New(Options{Board: b, Gatherer: reg, Logger: slog.New(slog.DiscardHandler)}), b
}

func TestPaths(t *testing.T) {
	now := time.Unix(0, 0)
	s, b := newServer(func() time.Time { return now })
	ready := func() {
		b.SetCluster("east", status.Connected, "")
		b.SetMapping("orders", status.Waiting, "source topic not found")
	}
	for _, tt := range []struct {
		name, method, path string
		do                 func()
		code               int
		body               string
	}{
		{"healthy", "GET", "/healthz", func() {}, 200, "ok\n"},
		{"not ready", "GET", "/readyz", func() {}, 503, "not ok\ncluster east: connecting\nmapping orders: starting\n"},
		{"ready with a reason", "GET", "/readyz", ready, 200, "ok\nmapping orders: waiting: source topic not found\n"},
		{"head", "HEAD", "/readyz", func() {}, 200, ""},
		{"post", "POST", "/readyz", func() {}, 405, "Method Not Allowed\n"},
		{"unhealthy", "GET", "/healthz", func() { b.Tick("lane x"); now = now.Add(time.Hour) }, 503, "not ok\nlane x has not ticked for 1h0m0s\n"},
		{"stopping", "GET", "/readyz", b.SetStopping, 503, "not ok\nstopping\nmapping orders: waiting: source topic not found\n"},
		{"index", "GET", "/", func() {}, 200, "geobridge v1, i of group g, serving east,west\n\n/healthz\n/readyz\n/metrics\n/api/v1/status\n"},
		{"elsewhere", "GET", "/api", func() {}, 404, "404 page not found\n"},
	} {
		tt.do()
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		body := w.Body.String()
		if tt.method == "HEAD" {
			body = "" // the server drops it, the recorder does not
		}
		if w.Code != tt.code || body != tt.body {
			t.Errorf("%s: %d %q, want %d %q", tt.name, w.Code, body, tt.code, tt.body)
		}
	}
}

func TestStatusAndMetrics(t *testing.T) {
	s, _ := newServer(nil)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/status", nil))
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got["schema"] != 1.0 || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("status: %v, %v, %v", err, got, w.Header())
	}
	w = httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if want := `geobridge_lanes{mapping="orders",state="running"} 0`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("metrics lack %s:\n%s", want, w.Body)
	}
}

func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, _ := newServer(nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ln, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(ctx, ln.Addr().String()); err == nil || !strings.HasPrefix(err.Error(), "http.listen: ") {
		t.Errorf("a port in use: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, ln) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + ln.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if resp.Body.Close(); err != nil || string(body) != "ok\n" {
		t.Errorf("%q, %v", body, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
