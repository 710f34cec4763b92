package ladder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobridge/geobridge/config"
	"github.com/geobridge/geobridge/internal/bridge"
	"github.com/geobridge/geobridge/internal/status"
)

// instance is one geobridge process.
type instance struct {
	w      *world
	name   string
	line   *line
	board  *status.Board
	bridge *bridge.Bridge
	series *prometheus.Registry
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run, once done
}

const configText = `
version: 1
group: g
instance: %s
clusters:
  east: {service_url: "%s", admin_url: "http://%s", connect_timeout: 5s, operation_timeout: 5s}
  west: {service_url: "%s", admin_url: "http://%s", connect_timeout: 5s, operation_timeout: 5s}
mappings:
  - {name: orders, subscription: %s, split: %s, from: {cluster: east, topic: "%s"}, to: {cluster: west, topic: "%s"}%s}
checkpoint_interval: 1s
stall_timeout: 45s
shutdown_timeout: 10s
`

// start runs an instance. A name that ran before is the same process started again.
func (w *world) start(name string) *instance {
	w.t.Helper()
	i := &instance{w: w, name: name, line: &line{w: w, conns: map[*tracked]struct{}{}}, done: make(chan struct{}), series: prometheus.NewRegistry()}
	text := fmt.Sprintf(configText, name, w.east().url(), w.east().admin(), w.west().url(), w.west().admin(), subscription,
		w.plan.split, topicName, topicName, w.options)
	cfg, errs := config.Parse("ladder.yaml", []byte(text), nil)
	if len(errs) > 0 {
		w.fatalf("configuration: %v", errs)
	}
	pair, err := cfg.SelectPair("")
	w.must(err)
	i.board, err = bridge.NewBoard(cfg, pair, "ladder")
	w.must(err)
	b, err := bridge.New(cfg, bridge.Options{
		Pair: pair, Board: i.board, Registerer: i.series, Logger: slog.New(logTo{w, name}), Dial: i.line.dial,
	})
	w.must(err)
	i.bridge = b
	ctx, cancel := context.WithCancel(context.Background())
	i.cancel = cancel
	go func() {
		defer close(i.done)
		i.err = b.Run(ctx)
	}()
	w.instances = append(w.instances, i)
	w.note("instance %s starts", name)
	return i
}

// avoided is how many messages recoveries found stored already, and did not send
// again.
func (i *instance) avoided() float64 { return i.count("duplicates_avoided_total") }

// protected is what geobridge says about it.
func (i *instance) protected(what string) bool { return i.count("protected", what) == 1 }

// count is the sum of a counter's series, or of a gauge's; of those with the label
// value only, if there is one.
func (i *instance) count(name string, value ...string) (n float64) {
	all, err := i.series.Gather()
	i.w.must(err)
	for _, f := range all {
		if f.GetName() == "geobridge_"+name {
			for _, m := range f.GetMetric() {
				wanted := len(value) == 0
				for _, l := range m.GetLabel() {
					wanted = wanted || slices.Contains(value, l.GetValue())
				}
				if !wanted {
					continue
				}
				n += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return n
}

// stop is SIGTERM, and waits for the end.
func (i *instance) stop() {
	i.w.note("instance %s stops", i.name)
	i.cancel()
	<-i.done
	if i.err != nil {
		if !errors.Is(i.err, bridge.ErrNotDrained) {
			i.w.errorf("instance %s ended with %v", i.name, i.err)
		}
		i.w.undrained.count.Add(1)
	}
	i.w.note("instance %s ended: %v", i.name, i.err)
}

// kill is kill -9: nothing of what it does afterwards gets out.
func (i *instance) kill() {
	i.w.note("instance %s is killed", i.name)
	i.line.kill()
	i.cancel()
}

// line is the network as one instance has it.
type line struct {
	w     *world
	mu    sync.Mutex
	dead  bool
	conns map[*tracked]struct{}
}

type tracked struct {
	net.Conn
	line *line
}

func (c *tracked) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}

var errRefused = errors.New("connection refused")

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if l.refuses(addr) {
		return nil, fmt.Errorf("dial %s: %w", addr, errRefused)
	}
	c, err := l.w.net.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t := &tracked{c, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		_ = c.Close()
		return nil, fmt.Errorf("dial %s: %w", addr, errRefused)
	}
	l.conns[t] = struct{}{}
	return t, nil
}

func (l *line) refuses(addr string) bool {
	for _, s := range l.w.sides {
		if addr == s.admin() && s.restDown.Load() {
			return true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *line) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for c := range l.conns {
		_ = c.Conn.Close()
	}
	clear(l.conns)
}

// undrained counts the sessions of lanes that geobridge itself says to have ended
// without bringing what they had begun to its end.
type undrained struct{ count atomic.Int64 }

// logTo writes what an instance logs to the trace.
type logTo struct {
	w    *world
	name string
}

func (l logTo) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l logTo) WithAttrs(attrs []slog.Attr) slog.Handler         { return logWith{l, attrs} }
func (l logTo) WithGroup(string) slog.Handler                    { return l }
func (l logTo) Handle(ctx context.Context, r slog.Record) error {
	return logWith{logTo: l}.Handle(ctx, r)
}

type logWith struct {
	logTo
	attrs []slog.Attr
}

func (l logWith) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logWith{l.logTo, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

func (l logWith) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] %s %s", l.name, r.Level, r.Message)
	add := func(a slog.Attr) bool {
		if a.Key != "mapping" && a.Key != "lane" {
			fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		}
		if a.Key == "clean" && r.Message == "lane opens again" && !a.Value.Bool() {
			l.w.undrained.count.Add(1)
		}
		return true
	}
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.w.note("%s", b.String())
	return nil
}
