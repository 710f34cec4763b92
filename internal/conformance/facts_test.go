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

// excuses are the facts without a scenario, and why.
func excuses() map[string]string {
	all := map[string]string{}
	for _, row := range []struct{ facts, why string }{
		{"0.2 11b P25", "needs a client with transactions; geobridge takes their ids out of all that it sends, and waits behind an open one as at any slow source"},
		{"0.3 9.1", "would ruin the brokers for the other scenarios: a wedged segment writes gigabytes of log; geobridge keeps below the limit, and the embedded cluster wedges as was seen"},
		{"0.9", "opens a phantom topic that breaks the metrics of the whole broker until it restarts; geobridge never names topic:// there, and the embedded cluster refuses it"},
		{"1d 8b", "about a flag that geobridge never sets"},
		{"1e", "about the published protocol file, not the broker"},
		{"2.8", "limits and thresholds of the automatic scaling, which geobridge does not steer"},
		{"5c", "metrics of the broker, which geobridge does not read"},
		{"5e P38 P39", "what Pulsar's own Java client writes: e2e reads it"},
		{"6c", "a rule for clients, drawn from 6a"},
		{"7f", "geobridge opens no exclusive producers"},
		{"10a 10b 10c", "regular topics under a scalable name, and their migration: geobridge bridges scalable topics only"},
		{"11a", "geobridge copies no entry that has a schema version, and asks for no schema"},
		{"11d", "about Pulsar's own replicator"},
		{"12 P26", "speed"},
		{"P22", "geobridge never asks for the last id, since the answer is of no use"},
		{"P30", "the broker looks only every 5 minutes; a guard that a TTL moves is one that skip-all moves, and that has scenarios"},
		{"P37", "settings of a test rig"},
	} {
		for _, fact := range strings.Fields(row.facts) {
			all[fact] = row.why
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
