package daemon

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Sample is one line of /metrics.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Metrics are the samples of one scrape.
type Metrics []Sample

// Metrics scrapes /metrics.
func (d *Daemon) Metrics(ctx context.Context) (Metrics, error) {
	if d.standIn != nil {
		return nil, nil
	}
	status, body, err := d.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	if status != 200 {
		return nil, fmt.Errorf("/metrics: %d", status)
	}
	return ParseMetrics(body)
}

// ParseMetrics reads the Prometheus text format.
func ParseMetrics(text string) (Metrics, error) {
	var out Metrics
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		sample, err := parseSample(line)
		if err != nil {
			return nil, err
		}
		out = append(out, sample)
	}
	return out, lines.Err()
}

func parseSample(line string) (Sample, error) {
	s := Sample{Labels: map[string]string{}}
	var rest string
	if open := strings.IndexByte(line, '{'); open >= 0 {
		s.Name, rest = line[:open], line[open+1:]
		for !strings.HasPrefix(rest, "}") {
			name, value, found := strings.Cut(rest, "=")
			if !found {
				return s, fmt.Errorf("a metric line %q", line)
			}
			quoted, err := strconv.QuotedPrefix(value)
			if err != nil {
				return s, fmt.Errorf("a metric line %q: %w", line, err)
			}
			plain, err := strconv.Unquote(quoted)
			if err != nil {
				return s, fmt.Errorf("a metric line %q: %w", line, err)
			}
			s.Labels[name] = plain
			rest = strings.TrimPrefix(value[len(quoted):], ",")
		}
		rest = rest[1:]
	} else {
		s.Name, rest, _ = strings.Cut(line, " ")
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return s, fmt.Errorf("a metric line %q", line)
	}
	var err error
	s.Value, err = strconv.ParseFloat(fields[0], 64)
	return s, err
}

// Sum adds up the samples of a metric (named without the geobridge_ prefix)
// whose labels contain the given ones, written "name=value".
func (m Metrics) Sum(name string, labels ...string) float64 {
	total := 0.0
	for _, s := range m {
		if s.Name == "geobridge_"+name && s.matches(labels) {
			total += s.Value
		}
	}
	return total
}

// Has reports whether there is such a sample.
func (m Metrics) Has(name string, labels ...string) bool {
	for _, s := range m {
		if s.Name == "geobridge_"+name && s.matches(labels) {
			return true
		}
	}
	return false
}

func (s Sample) matches(labels []string) bool {
	for _, want := range labels {
		name, value, _ := strings.Cut(want, "=")
		if s.Labels[name] != value {
			return false
		}
	}
	return true
}
