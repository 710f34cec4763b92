package replicate

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the series that mappings and their lanes produce; the names are
// those of interface.md.
type Metrics struct {
	entries                           *prometheus.CounterVec
	messages, readBytes, writtenBytes *prometheus.CounterVec
	opened, sampled, splitParts       *prometheus.CounterVec
	duplicatesAvoided, reroutes       *prometheus.CounterVec
	claims, depositions, evidenceLost *prometheus.CounterVec
	gaps, ghostReceipts               *prometheus.CounterVec
	layoutChanges                     *prometheus.CounterVec
	unreceipted, lagEntries           *prometheus.GaugeVec
	lastProgress, lastCheckpoint      *prometheus.GaugeVec
	inflight, parked, protected       *prometheus.GaugeVec
	latency                           *prometheus.HistogramVec
	lagSeconds, scanBytes             *prometheus.Desc

	mu       sync.Mutex
	mappings []*mappingMetrics
}

// NewMetrics registers the series with reg.
func NewMetrics(reg prometheus.Registerer, budget *Budget) *Metrics {
	m := &Metrics{}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "geobridge", Name: name, Help: help}, append([]string{"mapping"}, labels...))
		reg.MustRegister(v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "geobridge", Name: name, Help: help}, append([]string{"mapping"}, labels...))
		reg.MustRegister(v)
		return v
	}
	m.entries = counter("entries_total", "Finished source entries, counted once, when complete.", "outcome", "reason")
	m.messages = counter("messages_total", "Messages receipted by the target.")
	m.readBytes = counter("read_bytes_total", "Bytes of entries read from the source.")
	m.writtenBytes = counter("written_bytes_total", "Bytes of entries receipted by the target.")
	m.opened = counter("opened_entries_total", "Entries decompressed to route them.")
	m.sampled = counter("sampled_entries_total", "Entries opened only to check their stamps.")
	m.splitParts = counter("split_parts_total", "Entries published for split ones.")
	m.duplicatesAvoided = counter("duplicates_avoided_total", "Messages found already in the target's log.")
	m.reroutes = counter("reroutes_total", "Parts sent again under a newer layout.")
	m.claims = counter("claims_total", "Producers claimed with a barrier.")
	m.depositions = counter("depositions_total", "Lanes that found a newer epoch.")
	m.evidenceLost = counter("evidence_lost_total", "Recoveries whose evidence was gone.")
	m.gaps = counter("source_gaps_total", "Times that data at the source was gone before it was copied.", "reason")
	m.ghostReceipts = counter("ghost_receipts_total", "Messages that a target topic which was found deleted had receipted since it was last seen to be there.")
	m.layoutChanges = counter("layout_changes_total", "Changes of a topic's layout seen.", "cluster")
	m.unreceipted = gauge("unreceipted_sends", "Sends without their receipt yet.")
	m.lagEntries = gauge("lag_entries", "The source's own backlog figure over all segments.")
	m.lagSeconds = prometheus.NewDesc("geobridge_lag_seconds",
		"Now minus the time up to which all that was published is known to be receipted.", []string{"mapping"}, nil)
	m.scanBytes = prometheus.NewDesc("geobridge_recovery_scan_bytes",
		"Still to read before the lanes in recovery can run: an estimate.", []string{"mapping"}, nil)
	reg.MustRegister(m)
	m.lastProgress = gauge("last_progress_timestamp_seconds", "Last receipt of the target.")
	m.lastCheckpoint = gauge("last_checkpoint_timestamp_seconds", "Last record that has its receipt.")
	m.inflight = gauge("inflight_bytes", "Bytes of source entries held.")
	m.parked = gauge("parked_entries", "Entries parked by this process.")
	m.protected = gauge("protected", "1 if durable.", "what")
	m.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "geobridge", Name: "replication_latency_seconds", Help: "From publication at the source to the target's receipt.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 12),
	}, []string{"mapping"})
	reg.MustRegister(m.latency, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "geobridge", Name: "memory_limit_bytes", Help: "The configured memory_limit.",
	}, func() float64 { return float64(budget.Limit()) }))
	return m
}

// mappingMetrics are the series of one mapping, looked up once.
type mappingMetrics struct {
	all                                      *Metrics
	mapping                                  string
	outcomes                                 map[Outcome]prometheus.Counter
	messages, readBytes, writtenBytes        prometheus.Counter
	openedEntries, splitParts, reroutes      prometheus.Counter
	claims, depositions, duplicatesAvoided   prometheus.Counter
	evidenceLost, ghostReceipts              prometheus.Counter
	gaps                                     map[string]prometheus.Counter
	unreceipted, inflight, parked            prometheus.Gauge
	lastProgress, lastCheckpoint, lagEntries prometheus.Gauge
	latency                                  prometheus.Observer
	readings                                 readings

	mu     sync.Mutex
	copied map[string]int64 // by lane: all that was published up to this time, in ms, is receipted
}

// forMapping starts every series of a mapping at 0.
func (m *Metrics) forMapping(name string, clusters ...string) *mappingMetrics {
	mm := &mappingMetrics{
		all: m, mapping: name, outcomes: map[Outcome]prometheus.Counter{}, gaps: map[string]prometheus.Counter{},
		messages: m.messages.WithLabelValues(name), readBytes: m.readBytes.WithLabelValues(name),
		writtenBytes: m.writtenBytes.WithLabelValues(name), openedEntries: m.opened.WithLabelValues(name),
		splitParts: m.splitParts.WithLabelValues(name), reroutes: m.reroutes.WithLabelValues(name),
		claims: m.claims.WithLabelValues(name), depositions: m.depositions.WithLabelValues(name),
		duplicatesAvoided: m.duplicatesAvoided.WithLabelValues(name), evidenceLost: m.evidenceLost.WithLabelValues(name),
		ghostReceipts: m.ghostReceipts.WithLabelValues(name),
		unreceipted:   m.unreceipted.WithLabelValues(name), inflight: m.inflight.WithLabelValues(name),
		parked: m.parked.WithLabelValues(name), lastProgress: m.lastProgress.WithLabelValues(name),
		lastCheckpoint: m.lastCheckpoint.WithLabelValues(name),
		copied:         map[string]int64{}, lagEntries: m.lagEntries.WithLabelValues(name), latency: m.latency.WithLabelValues(name),
	}
	for _, o := range Outcomes() {
		mm.outcomes[o] = m.entries.WithLabelValues(name, o.Outcome, o.Reason)
	}
	m.sampled.WithLabelValues(name)
	for _, reason := range gapReasons() {
		mm.gaps[reason] = m.gaps.WithLabelValues(name, reason)
	}
	for _, c := range clusters {
		m.layoutChanges.WithLabelValues(name, c)
	}
	for _, what := range protections() {
		m.protected.WithLabelValues(name, what)
	}
	m.mu.Lock()
	m.mappings = append(m.mappings, mm)
	m.mu.Unlock()
	return mm
}

func (m *mappingMetrics) complete(e *entry) {
	if c := m.outcomes[e.outcome]; c != nil {
		c.Inc()
	}
	if e.opened {
		m.openedEntries.Inc()
	}
}

// receipted counts a part that the target has.
func (m *mappingMetrics) receipted(p *part) {
	m.messages.Add(float64(p.messages))
	m.writtenBytes.Add(float64(p.size))
	if !p.whole() {
		m.splitParts.Inc()
	}
	now := time.Now()
	m.lastProgress.Set(seconds(now))
	if e := p.entry; e.bad == nil {
		m.latency.Observe(now.Sub(time.UnixMilli(int64(e.info.PublishTime))).Seconds())
	}
}

func (m *mappingMetrics) setProtected(what string, ok bool) {
	v := 0.0
	if ok {
		v = 1
	}
	m.all.protected.WithLabelValues(m.mapping, what).Set(v)
}

func (m *mappingMetrics) layoutChanged(cluster string) {
	m.all.layoutChanges.WithLabelValues(m.mapping, cluster).Inc()
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// copiedTo: all that was published to the lane's segment up to ms is receipted.
// A publisher's clock that is ahead counts as now.
func (m *mappingMetrics) copiedTo(lane string, ms int64) {
	ms = min(ms, time.Now().UnixMilli())
	m.mu.Lock()
	m.copied[lane] = max(m.copied[lane], ms)
	m.mu.Unlock()
}

// opened starts a lane's lag, unless it goes on from an earlier session.
func (m *mappingMetrics) opened(lane string) {
	m.mu.Lock()
	if _, known := m.copied[lane]; !known {
		m.copied[lane] = time.Now().UnixMilli()
	}
	m.mu.Unlock()
}

// left: the lane is not this instance's any more.
func (m *mappingMetrics) left(lane string) {
	m.mu.Lock()
	delete(m.copied, lane)
	m.mu.Unlock()
}

// lag is that of the lane which is furthest behind, 0 without lanes, in seconds.
func (m *mappingMetrics) lag(now time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	worst := 0.0
	for _, ms := range m.copied {
		worst = max(worst, now.Sub(time.UnixMilli(ms)).Seconds())
	}
	return worst
}

// Describe implements prometheus.Collector, for lag_seconds and recovery_scan_bytes.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.lagSeconds; ch <- m.scanBytes }

// Collect computes them at the time of the scrape.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, mm := range m.mappings {
		ch <- prometheus.MustNewConstMetric(m.lagSeconds, prometheus.GaugeValue, mm.lag(now), mm.mapping)
		ch <- prometheus.MustNewConstMetric(m.scanBytes, prometheus.GaugeValue, float64(mm.readings.left()), mm.mapping)
	}
}
