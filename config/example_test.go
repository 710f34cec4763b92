package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func noEnv(string) (string, bool) { return "", false }

func TestExampleLoads(t *testing.T) {
	cfg, errs := Load("example.yaml", noEnv)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if len(cfg.Mappings) != 2 || cfg.Mappings[1].To.Topic != "topic://public/default/orders" {
		t.Errorf("mappings: %+v", cfg.Mappings)
	}
}

// The example shows defaults, so leaving out all that it shows must change nothing.
func TestExampleShowsTheDefaults(t *testing.T) {
	shown, errs := Parse("example", []byte(Example()), noEnv)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	bare, errs := Parse("bare", []byte(`
clusters:
  east: {service_url: "pulsar://east-broker", admin_url: "http://east-broker:8080"}
  west: {service_url: "pulsar://west-broker:6650", admin_url: "http://west-broker:8080/"}
mappings:
  - {name: orders, from: {cluster: east, topic: "topic://public/default/orders"}, to: {cluster: west}}
  - {name: orders-back, from: {cluster: west, topic: "topic://public/default/orders"}, to: {cluster: east}}
`), noEnv)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff(bare, shown); diff != "" {
		t.Errorf("defaults (-) and example (+) differ:\n%s", diff)
	}
	if got := shown.Mappings[0].Subscription; got != "geobridge.geobridge.west.orders" {
		t.Errorf("subscription %q", got)
	}
}

// What the example only shows in comments must load too.
func TestExampleCommentsLoad(t *testing.T) {
	text := Example()
	for _, line := range strings.Split(text, "\n") {
		if key, isKey := strings.CutPrefix(line, "    # "); isKey && strings.Contains(key, ": ") {
			text = strings.Replace(text, line, "    "+key, 1)
		}
	}
	text = strings.Replace(text, "# tls:", "tls:", 1)
	text = strings.Replace(text, "pulsar://east", "pulsar+ssl://east", 1)
	cfg, errs := Parse("commented", []byte(text), noEnv)
	if len(errs) > 0 {
		t.Fatalf("%v\n%s", errs, text)
	}
	if cfg.Clusters["east"].Auth.TokenFile == "" || cfg.Clusters["east"].TLS.CAFile == "" {
		t.Errorf("east: %+v", cfg.Clusters["east"])
	}
}
