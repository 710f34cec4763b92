package conformance

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// factList names every fact, in order.
func factList() (facts []string) {
	items := func(section string, n int) {
		for i := range n {
			facts = append(facts, fmt.Sprintf("%s.%d", section, i+1))
		}
	}
	bullets := func(section, letters string) {
		for _, l := range letters {
			facts = append(facts, section+string(l))
		}
	}
	items("0", 10)
	bullets("1", "abcdefghi")
	items("2", 8)
	items("3", 6)
	items("4", 8)
	bullets("5", "abcde")
	bullets("6", "abcd")
	bullets("7", "abcdef")
	bullets("8", "ab")
	items("9", 4)
	bullets("10", "abc")
	bullets("11", "abcd")
	facts = append(facts, "12", "13")
	for i := range 40 {
		facts = append(facts, fmt.Sprintf("P%d", i+1))
	}
	return facts
}

// toCome is the excuse of facts whose scenarios are being written.
const toCome = "to come"

// excuses are the facts without a scenario, and why.
func excuses() map[string]string {
	all := map[string]string{
		"0.9": "opens a phantom topic that breaks the metrics of the whole broker until it restarts; geobridge never names topic:// there, and the embedded cluster refuses it",
		"1d":  "about a flag that geobridge never sets",
		"1e":  "about the published protocol file, not the broker",
		"5e":  "what Pulsar's own Java client writes: e2e reads it",
		"6c":  "a rule for clients, drawn from 6a",
		"12":  "throughput of a prototype",
		"2.8": "limits and thresholds of the automatic scaling, which geobridge does not steer",
		"P37": "settings of a test rig",
		"P38": "what Pulsar's own Java client writes: e2e reads it",
		"P39": "what Pulsar's own Java client writes: e2e reads it",
	}
	for _, fact := range []string{
		"0.2", "0.3", "0.4", "0.6", "0.7",
		"3.1", "3.2", "3.3", "3.4", "3.6", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "4.7",
		"4.8", "5a", "5b", "5c", "5d", "6a", "6d", "7a", "7b", "7c", "7d", "7e", "7f", "8a", "8b", "9.1", "9.2",
		"9.3", "9.4", "10a", "10b", "10c", "11a", "11b", "11c", "11d", "P1", "P2", "P3", "P4", "P5", "P6",
		"P7", "P8", "P9", "P10", "P11", "P12", "P13", "P15", "P16", "P17", "P18", "P19", "P20", "P21", "P22",
		"P24", "P25", "P26", "P27", "P28", "P29", "P30", "P31", "P32", "P33", "P34", "P35", "P36", "P40",
	} {
		if !slices.ContainsFunc(scenarios(), func(s Scenario) bool { return slices.Contains(s.Facts, fact) }) {
			all[fact] = toCome
		}
	}
	return all
}

// covered gives the scenarios of each fact.
func covered(all []Scenario) map[string][]string {
	by := map[string][]string{}
	for _, s := range all {
		for _, fact := range s.Facts {
			by[fact] = append(by[fact], s.Name)
		}
	}
	return by
}

func TestFacts(t *testing.T) {
	known, by, excused := factList(), covered(scenarios()), excuses()
	for _, fact := range known {
		switch {
		case len(by[fact]) == 0 && excused[fact] == "":
			t.Errorf("fact %s has neither a scenario nor an excuse", fact)
		case len(by[fact]) > 0 && excused[fact] != "":
			t.Errorf("fact %s has an excuse, and the scenarios %v", fact, by[fact])
		}
	}
	for _, fact := range append(slices.Sorted(maps.Keys(by)), slices.Sorted(maps.Keys(excused))...) {
		if !slices.Contains(known, fact) {
			t.Errorf("there is no fact %q", fact)
		}
	}
	names := map[string]bool{}
	for _, s := range scenarios() {
		if names[s.Name] || !regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`).MatchString(s.Name) || s.Run == nil || len(s.Facts) == 0 {
			t.Errorf("scenario %+v: its name must be its own, of letters, and it needs facts and something to run", s)
		}
		names[s.Name] = true
	}
}

const (
	readme    = "../pulsartest/README.md"
	listBegin = "<!-- written by UPDATE_README=1 go test ./internal/conformance -->\n"
	listEnd   = "<!-- end -->\n"
)

// TestReadme holds the list of scenarios in the README of pulsartest.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), listBegin)
	old, tail, closed := strings.Cut(rest, listEnd)
	if !found || !closed {
		t.Fatalf("%s has no list between %q and %q", readme, listBegin, listEnd)
	}
	want := list()
	if old == want {
		return
	}
	if os.Getenv("UPDATE_README") == "" {
		t.Fatalf("the list in %s is not that of the scenarios: UPDATE_README=1 go test ./internal/conformance", readme)
	}
	if err := os.WriteFile(readme, []byte(head+listBegin+want+listEnd+tail), 0o600); err != nil {
		t.Fatal(err)
	}
}

func list() string {
	all := scenarios()
	var out strings.Builder
	fmt.Fprintf(&out, "%d scenarios run against this package and against real brokers:\n\n| scenario | facts |\n|---|---|\n", len(all))
	for _, s := range all {
		fmt.Fprintf(&out, "| %s | %s |\n", s.Name, strings.Join(s.Facts, ", "))
	}
	fmt.Fprint(&out, "\nFacts without a scenario:\n\n| facts | why |\n|---|---|\n")
	byReason, excused := map[string][]string{}, excuses()
	var order []string
	for _, fact := range factList() {
		reason := excused[fact]
		if reason == "" {
			continue
		}
		if byReason[reason] == nil {
			order = append(order, reason)
		}
		byReason[reason] = append(byReason[reason], fact)
	}
	for _, reason := range order {
		fmt.Fprintf(&out, "| %s | %s |\n", strings.Join(byReason[reason], ", "), reason)
	}
	return out.String()
}
