package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/geobridge/geobridge/internal/status"
)

// Time-outs of the server. A scrape of many series over a slow link is the longest that it answers.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	drainTimeout      = 2 * time.Second
	maxHeaderBytes    = 64 << 10
)

// Options is what a [Server] serves.
type Options struct {
	Board    *status.Board
	Gatherer prometheus.Gatherer
	Logger   *slog.Logger
	// AcceptGap lets a mapping go on that holds because something was lost; ErrNoMapping: not served here.
	AcceptGap func(mapping string) error
}

// Server answers /healthz, /readyz, /metrics, /api/v1/status and /, and takes orders.
type Server struct {
	board     *status.Board
	gatherer  prometheus.Gatherer
	logger    *slog.Logger
	acceptGap func(mapping string) error
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	return &Server{board: o.Board, gatherer: o.Gatherer, logger: o.Logger, acceptGap: o.AcceptGap}
}

// Listen opens the address of http.listen, so that a port in use is found before anything else is started.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w", err)
	}
	return ln, nil
}

// Run serves on ln until ctx ends, then lets answers in progress finish for a moment. It closes ln. The error is nil
// if ctx ended.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		s.logger.Debug("HTTP requests were cut off", "error", err)
		if err := srv.Close(); err != nil {
			s.logger.Debug("closing HTTP", "error", err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// Handler routes the paths; other methods than GET and HEAD are refused, but for orders.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { probe(w, s.board.Health()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { probe(w, s.board.Readiness()) })
	mux.HandleFunc("GET /api/v1/status", s.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /{$}", s.index)
	if s.acceptGap != nil {
		mux.HandleFunc("POST /api/v1/mappings/{name}/resume", s.order(s.resume))
	}
	return mux
}

// probe answers 200 or 503, with the lines as the body.
func probe(w http.ResponseWriter, v status.Verdict) {
	plain(w)
	word := "ok"
	if !v.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
		word = "not ok"
	}
	text := word + "\n"
	for _, line := range v.Lines {
		text += line + "\n"
	}
	_, _ = io.WriteString(w, text) // the client has gone; there is nobody to tell
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s.board.Report()); err != nil {
		s.logger.Debug("writing the status", "error", err)
	}
}

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	plain(w)
	r := s.board.Report()
	_, _ = fmt.Fprintf(w, "geobridge %s, %s of group %s, serving %s\n\n/healthz\n/readyz\n/metrics\n/api/v1/status\n",
		r.Version, r.Instance, r.Group, r.Pair)
}
