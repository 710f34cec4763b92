package verify

import (
	"strings"
	"testing"
)

// The first line says what the answer does not rest on.
func TestHeadlineSaysWhatWasNotCompared(t *testing.T) {
	for _, row := range []struct {
		report Report
		want   string
	}{
		{Report{Result: Equal, Source: SourceCounts{Compared: 3}}, "m: EQUAL: 3 messages in 0 ranges of the key space, in 0.0 s\n"},
		{Report{Result: Equal, Source: SourceCounts{Compared: 1, Trimmed: 2, InFlight: 7}, Target: TargetCounts{Trimmed: 3, Early: 4, InFlight: 90}},
			"in 0.0 s; not compared: 9 trimmed, 7 entries in flight, at most\n"},
		{Report{Result: Equal, Source: SourceCounts{Compared: 1, Parked: 5}, Target: TargetCounts{InFlight: 6, Unreadable: 1}},
			"in 0.0 s; not compared: 6 in flight, 5 parked, 1 damaged entries\n"},
		{Report{Result: Differs, Source: SourceCounts{Compared: 1, Trimmed: 2}, Faults: FaultCounts{Lost: 1}}, ": 1 lost; not compared: 2 trimmed\n"},
	} {
		row.report.Mapping = "m"
		var b strings.Builder
		if err := row.report.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(b.String(), "\n")
		if !strings.Contains(line+"\n", row.want) || !strings.HasPrefix(line, "m: ") {
			t.Errorf("%q; want %q", line, row.want)
		}
	}
}
