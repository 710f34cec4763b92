package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	run := func(who string, seconds, cpu float64) result {
		return result{who: who, entries: 4_000, bytes: 400_000_000, wall: time.Duration(seconds * 1e9), cpu: time.Duration(cpu * 1e9)}
	}
	var out strings.Builder
	err := report(&out, []result{run("geobridge", 4, 1), run("geobridge", 5, 1), run("geobridge", 2, 1)},
		[]result{run("java", 8, 10), run("java", 20, 10), run("java", 20, 5)})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"geobridge against java, median of 3 pairs: 4.00 × (2.00–10.00) the entries per second, 0.100 × (0.100–0.200) the CPU time per GB", "1000"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
