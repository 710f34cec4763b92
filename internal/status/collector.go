package status

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// A collector exports the Board's own metrics. Series exist for every known label value from the start and go with
// their mapping, because they are made anew from the Board on each scrape.
type collector struct {
	board    *Board
	revision string

	build, hash, reload, info, lanes, connected *prometheus.Desc
}

// Collector returns the metrics that a Board alone can tell: geobridge_build_info, config_hash,
// config_last_reload_successful, mapping_info, lanes and connected. revision is the source commit, for build_info.
func (b *Board) Collector(revision string) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("geobridge_"+name, help, labels, nil)
	}
	return &collector{
		board: b, revision: revision,
		build:     desc("build_info", "1, with what was built.", "version", "revision", "goversion"),
		hash:      desc("config_hash", "Hash of the running configuration, as a number of 48 bits."),
		reload:    desc("config_last_reload_successful", "1 if the last reload of the configuration was applied."),
		info:      desc("mapping_info", "1, with the clusters of the mapping.", "mapping", "from_cluster", "to_cluster"),
		lanes:     desc("lanes", "Lanes by what they are doing.", "mapping", "state"),
		connected: desc("connected", "1 if the cluster is connected and authenticated to.", "cluster"),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.build, c.hash, c.reload, c.info, c.lanes, c.connected} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	r := c.board.Report()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.build, 1, r.Version, c.revision, runtime.Version())
	gauge(c.hash, hashNumber(r.ConfigHash))
	gauge(c.reload, 1)
	for _, cl := range r.Clusters {
		gauge(c.connected, number(cl.State == Connected), cl.Name)
	}
	for _, m := range r.Mappings {
		gauge(c.info, 1, m.Name, m.From.Cluster, m.To.Cluster)
		count := map[State]int{}
		for _, l := range m.Lanes {
			count[l.State]++
		}
		for _, s := range States() {
			gauge(c.lanes, float64(count[s]), m.Name, string(s))
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// hashNumber reads the first 48 bits of a hash in hex: as many as a float holds exactly, with room to spare.
func hashNumber(hex string) float64 {
	var n float64
	for _, c := range []byte(hex[:min(12, len(hex))]) {
		digit := float64(0)
		switch {
		case '0' <= c && c <= '9':
			digit = float64(c - '0')
		case 'a' <= c && c <= 'f':
			digit = float64(c-'a') + 10
		}
		n = n*16 + digit
	}
	return n
}
