package daemon_test

import (
	"testing"

	"github.com/geobridge/geobridge/e2e/daemon"
)

func TestParseMetrics(t *testing.T) {
	m, err := daemon.ParseMetrics(`# HELP geobridge_entries_total finished
# TYPE geobridge_entries_total counter
geobridge_entries_total{mapping="a",outcome="whole",reason="stamp"} 12
geobridge_entries_total{mapping="a",outcome="split",reason="a \"b\", c"} 3
geobridge_memory_limit_bytes 2.68435456e+08
`)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Sum("entries_total", "mapping=a"); got != 15 {
		t.Errorf("sum %v, want 15", got)
	}
	if got := m.Sum("entries_total", `reason=a "b", c`); got != 3 {
		t.Errorf("quoted label: %v, want 3", got)
	}
	if !m.Has("memory_limit_bytes") || m.Has("entries_total", "mapping=b") {
		t.Error("Has is wrong")
	}
}
