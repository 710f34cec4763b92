package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

type unit struct {
	name string
	n    int64
}

// durationUnits returns the units of Prometheus' durations, in the order in which they must be written.
func durationUnits() []unit {
	return []unit{
		{"y", int64(365 * 24 * time.Hour)}, {"w", int64(7 * 24 * time.Hour)}, {"d", int64(24 * time.Hour)},
		{"h", int64(time.Hour)}, {"m", int64(time.Minute)}, {"s", int64(time.Second)}, {"ms", int64(time.Millisecond)},
	}
}

func sizeUnits() []unit {
	return []unit{{"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3}}
}

// ParseDuration reads a duration as a configuration writes it, like 1h30m or 2d.
func ParseDuration(s string) (time.Duration, error) { return parseDuration(s) }

// parseDuration reads a duration as Prometheus writes it: whole numbers with units, largest first, each once.
func parseDuration(s string) (time.Duration, error) {
	const form = "write it like 500ms, 30s, 5m or 1h30m"
	units, total, rest := durationUnits(), int64(0), s
	for rest != "" {
		n, name, after, ok := numberUnit(rest)
		if !ok {
			return 0, fmt.Errorf("%s is not a duration: %s", quote(s), form)
		}
		at := -1
		for i, u := range units {
			if u.name == name {
				at = i
			}
		}
		if at < 0 {
			return 0, fmt.Errorf("%s is not a duration: %s", quote(s), form)
		}
		if n > (math.MaxInt64-total)/units[at].n {
			return 0, fmt.Errorf("%s is too long a duration", quote(s))
		}
		total += n * units[at].n
		units, rest = units[at+1:], after
	}
	if s == "" {
		return 0, fmt.Errorf("is empty: %s", form)
	}
	return time.Duration(total), nil
}

// parseSize reads a whole number with one unit.
func parseSize(s string) (int64, error) {
	const form = "write a whole number with one of KiB, MiB, GiB, kB, MB, GB, like 256MiB"
	n, name, after, ok := numberUnit(s)
	if ok && after == "" {
		for _, u := range sizeUnits() {
			if u.name != name {
				continue
			}
			if n > math.MaxInt64/u.n {
				return 0, fmt.Errorf("%s is too large", quote(s))
			}
			return n * u.n, nil
		}
	}
	return 0, fmt.Errorf("%s is not a size: %s", quote(s), form)
}

// numberUnit cuts one number and the letters after it off the front of s.
func numberUnit(s string) (n int64, name, rest string, ok bool) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil {
		return 0, "", "", false
	}
	after := s[digits:]
	letters := len(after) - len(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	return n, after[:letters], after[letters:], letters > 0
}

// formatDuration is the inverse of [parseDuration] for whole milliseconds, the finest that a file can hold.
func formatDuration(d time.Duration) string {
	var b strings.Builder
	rest := int64(d)
	for _, u := range durationUnits() {
		if n := rest / u.n; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			rest -= n * u.n
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// formatSize is the inverse of [parseSize]: the largest unit that divides n.
func formatSize(n int64) string {
	for _, u := range sizeUnits() {
		if n > 0 && n%u.n == 0 {
			return fmt.Sprintf("%d%s", n/u.n, u.name)
		}
	}
	return fmt.Sprintf("%dkB", n/1000)
}
