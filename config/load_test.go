package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// base is a good configuration that the rows of the tables change in one place each.
const base = `version: 1
group: geobridge
clusters:
  east: {service_url: "pulsar://e:6650", admin_url: "http://e:8080"}
  west:
    service_url: "pulsar://w:6650"
    admin_url: "http://w:8080"
mappings:
  - name: orders
    from: {cluster: east, topic: "topic://public/default/orders"}
    to: {cluster: west}
  - name: back
    from: {cluster: west, topic: "topic://public/default/orders"}
    to: {cluster: east}
`

// A row replaces old by new in base (old "" appends), and wants these errors; "f.yaml:" is understood.
type row struct {
	name, old, new string
	want           []string
}

func testEnv(name string) (string, bool) {
	v, ok := map[string]string{"HOST": "w", "EMPTY": "", "TOKEN": "s3cret", "DOLLAR": "$HOST"}[name]
	return v, ok
}

func (r row) text() string {
	if r.old == "" {
		return base + r.new
	}
	return strings.Replace(base, r.old, r.new, 1)
}

func runRows(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if !strings.Contains(base, r.old) {
				t.Fatalf("base has no %q", r.old)
			}
			_, errs := Parse("f.yaml", []byte(r.text()), testEnv)
			var got []string
			for _, e := range errs {
				got = append(got, strings.TrimPrefix(e.Error(), "f.yaml:"))
			}
			if diff := cmp.Diff(r.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s\nof\n%s", diff, r.text())
			}
		})
	}
}

func TestForm(t *testing.T) {
	runRows(t, []row{
		{"good", "", "", nil},
		{"unknown key, near", "group:", "gruop:", []string{`2:1: unknown key "gruop": did you mean "group"?`}},
		{"unknown key, far", "version: 1", "zzz: 1", []string{`1:1: unknown key "zzz": known here are checkpoint_interval, clusters, defaults, group, http, instance, log, mappings, memory_limit, shutdown_timeout, stall_timeout, state, version`}},
		{"duplicate key", "group: geobridge", "version: 1", []string{`2:1: duplicate key "version", first given in line 1: remove one`}},
		{"duplicate key deep", "to: {cluster: west}", "to: {cluster: west, cluster: west}", []string{`11:25: mappings[0].to: duplicate key "cluster", first given in line 11: remove one`}},
		{"extension ignored", "", "x-note: {any: [thing]}\n", nil},
		{"extension below the top", "to: {cluster: west}", "to: {cluster: west, x-a: 1}", []string{`11:25: mappings[0].to: unknown key "x-a": known here are cluster, topic`}},
		{"version", "version: 1", "version: 2", []string{`1:10: version: 2 is not a version this geobridge reads: it reads 1`}},
		{"version as text", "version: 1", `version: "1"`, []string{`1:10: version: must be a whole number, without quotes, not text`}},
		{"text wanted", "group: geobridge", "group: 12", []string{`2:8: group: must be text, not a number: put it in quotes if it is meant so`}},
		{"list for text", "group: geobridge", "group: [a]", []string{`2:8: group: must be text, not a list`}},
		{"text for mapping", "to: {cluster: west}", "to: west", []string{
			`11:9: mappings[0].to: must be a mapping of keys to values, not text`,
			`11:9: mappings[0].to.cluster: is required: the clusters are east, west`}},
		{"key not a word", "", "[a]: b\n", []string{`15:1: a key must be a word, not a list`}},
		{"merge key", "", "state: {<<: {namespace: a/b}}\n", []string{`15:9: state: merge keys (<<) are refused: use defaults, or write the keys out`}},
		{"second document", "", "---\na: b\n", []string{`15:1: a second YAML document: only one is read, remove the other`}},
		{"not YAML", "group: geobridge", "group: [", []string{`2:1: not YAML: did not find expected ',' or ']'`}},
		{"tab", "group: geobridge", "\tgroup: x", []string{`2:1: not YAML: found a tab character that violates indentation`}},
		{"group", "group: geobridge", "group: a.b", []string{`2:8: group: "a.b" must be 1 to 63 letters, digits, _ and -`}},
		{"group empty", "group: geobridge", `group: ""`, []string{`2:8: group: must not be empty: remove the key for its default, "geobridge"`}},
		{"group blank", "group: geobridge", `group:`, nil},
		{"instance", "", "instance: a b\n", []string{`15:11: instance: "a b" must be up to 200 letters, digits, dots, _ and -`}},
		{"no mappings", base[strings.Index(base, "mappings:"):], "", []string{`1:1: mappings: is required: list what to copy, or write [] for nothing yet`}},
		{"mappings empty", base[strings.Index(base, "mappings:"):], "mappings: []\n", nil},
		{"mappings blank", base[strings.Index(base, "mappings:"):], "mappings:\n", nil},
		{"mappings not a list", base[strings.Index(base, "mappings:"):], "mappings: {a: b}\n", []string{`8:11: mappings: must be a list, not a mapping`}},
		{"no clusters", "clusters:", "x-clusters:", []string{
			`1:1: clusters: is required: name two or more`,
			`10:21: mappings[0].from.cluster: unknown cluster "east": there are no clusters`,
			`11:19: mappings[0].to.cluster: unknown cluster "west": there are no clusters`,
			`13:21: mappings[1].from.cluster: unknown cluster "west": there are no clusters`,
			`14:19: mappings[1].to.cluster: unknown cluster "east": there are no clusters`}},
		{"listen", "", "http: {listen: 9464}\n", []string{`15:16: http.listen: must be text, not a number: put it in quotes if it is meant so`}},
		{"listen, no port", "", "http: {listen: localhost}\n", []string{`15:16: http.listen: "localhost" is not host:port: write 127.0.0.1:9464, or :9464 for every interface`}},
		{"namespace", "", "state: {namespace: a}\n", []string{`15:20: state.namespace: "a" must be tenant/namespace`}},
		{"log", "", "log: {level: loud, format: xml}\n", []string{
			`15:14: log.level: "loud" must be debug, info, warn or error`, `15:28: log.format: "xml" must be text or json`}},
		{"not yet", "", "create_target: {}\nmetrics: {detail: topic}\nhttp: {token_file: a, tls: {}, pprof: false}\n", []string{
			`15:1: "create_target" is not yet supported by this version: remove it`,
			`16:1: "metrics" is not yet supported by this version: remove it`,
			`17:8: http: "token_file" is not yet supported by this version: remove it`,
			`17:23: http: "tls" is not yet supported by this version: remove it`,
			`17:32: http: "pprof" is not yet supported by this version: remove it`}},
	})
}

func TestUnits(t *testing.T) {
	runRows(t, []row{
		{"bare duration", "", "checkpoint_interval: 10\n", []string{`15:22: checkpoint_interval: "10" needs a unit, like 1s`}},
		{"bare quoted duration", "", "checkpoint_interval: \"10\"\n", []string{`15:22: checkpoint_interval: "10" is not a duration: write it like 500ms, 30s, 5m or 1h30m`}},
		{"bad unit", "", "checkpoint_interval: 10sec\n", []string{`15:22: checkpoint_interval: "10sec" is not a duration: write it like 500ms, 30s, 5m or 1h30m`}},
		{"wrong order", "", "checkpoint_interval: 1s1m\n", []string{`15:22: checkpoint_interval: "1s1m" is not a duration: write it like 500ms, 30s, 5m or 1h30m`}},
		{"fraction", "", "checkpoint_interval: 1.5s\n", []string{`15:22: checkpoint_interval: "1.5s" is not a duration: write it like 500ms, 30s, 5m or 1h30m`}},
		{"negative", "", "checkpoint_interval: -1s\n", []string{`15:22: checkpoint_interval: "-1s" is not a duration: write it like 500ms, 30s, 5m or 1h30m`}},
		{"overflow", "", "checkpoint_interval: 9999999999y\n", []string{`15:22: checkpoint_interval: "9999999999y" is too long a duration`}},
		{"zero", "", "checkpoint_interval: 0s\n", []string{`15:22: checkpoint_interval: 0s is out of range: 10ms to 10m`}},
		{"shutdown", "", "shutdown_timeout: 2h\n", []string{`15:19: shutdown_timeout: 2h is out of range: 1s to 1h`}},
		{"bare size", "", "memory_limit: 1048576\n", []string{`15:15: memory_limit: "1048576" needs a unit, like 256MiB`}},
		{"bad size", "", "memory_limit: 1mb\n", []string{`15:15: memory_limit: "1mb" is not a size: write a whole number with one of KiB, MiB, GiB, kB, MB, GB, like 256MiB`}},
		{"two sizes", "", "memory_limit: 1MiB1kB\n", []string{`15:15: memory_limit: "1MiB1kB" is not a size: write a whole number with one of KiB, MiB, GiB, kB, MB, GB, like 256MiB`}},
		{"small", "", "memory_limit: 1kB\n", []string{`15:15: memory_limit: 1kB is out of range: 1MiB to 1024GiB`}},
		{"size overflow", "", "memory_limit: 9999999999GiB\n", []string{`15:15: memory_limit: "9999999999GiB" is too large`}},
		{"good", "", "memory_limit: 1GB\ncheckpoint_interval: 1m30s\nstall_timeout: 30s\nshutdown_timeout: 1h\n", nil},
		{"stall", "", "stall_timeout: 0s\n", []string{`15:16: stall_timeout: 0s is out of range: 1s to 1h`}},
	})
}

func TestExpansion(t *testing.T) {
	url := func(s string) string { return `service_url: "pulsar://` + s + `:6650"` }
	const at = `6:18: clusters.west.service_url: `
	runRows(t, []row{
		{"set", url("w"), url("${HOST}"), nil},
		{"default unused", url("w"), url("${HOST:-$}"), nil},
		{"default", url("w"), url("${NOPE:-w}"), nil},
		{"default for empty", url("w"), url("${EMPTY:-w}"), nil},
		{"unset", url("w"), url("${NOPE}"), []string{at + `environment variable NOPE is not set: set it, or write "${NOPE:-default}"`}},
		{"open", url("w"), url("${HOST"), []string{at + `"${" without "}": close it, or write "$$" for a dollar sign`}},
		{"lone", url("w"), url("$HOST"), []string{at + `"$" stands alone: write "$$" for a dollar sign, "${NAME}" for a variable`}},
		{"name", url("w"), url("${1x}"), []string{at + `"${1x}" is not "${NAME}" or "${NAME:-default}" (letters, digits and _)`}},
		{"not twice", url("w"), url("${DOLLAR}"), []string{at + `has a host that is not host or host:port: write pulsar://host:6650 or pulsar+ssl://host:6651, more hosts after commas`}},
		{"only in texts", "version: 1", `version: ${V}`, []string{`1:10: version: must be a whole number, without quotes, not text`}},
		{"not in keys", "version: 1", `"${HOST}": 1`, []string{`1:1: unknown key "${HOST}": known here are checkpoint_interval, clusters, defaults, group, http, instance, log, mappings, memory_limit, shutdown_timeout, stall_timeout, state, version`}},
		{"duration", "", "checkpoint_interval: ${NOPE:-2s}\n", nil},
		{"choice", "", "log: {level: \"${NOPE:-warn}\"}\n", nil},
	})
	if got, problem := expand("a$$b${DOLLAR}${NOPE:-}", testEnv); got != "a$b$HOST" || problem != "" {
		t.Errorf("expand: %q, %q", got, problem)
	}
}

func TestWholeFile(t *testing.T) {
	for name, data := range map[string]string{"empty": "", "comment": "# nothing\n", "null": "~\n"} {
		_, errs := Parse("f", []byte(data), noEnv)
		if want := "f:1:1: the file is empty: start from what `geobridge example` prints"; errs.Error() != want {
			t.Errorf("%s: %v, want %v", name, errs, want)
		}
	}
	_, errs := Load(filepath.Join(t.TempDir(), "none"), noEnv)
	if len(errs) != 1 || !strings.HasSuffix(errs[0].Error(), "/none: cannot be read: no such file or directory: name the file with --config, or begin one with geobridge example") {
		t.Errorf("missing file: %v", errs)
	}
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, maxFileSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs = Load(big, noEnv); len(errs) != 1 || !strings.HasSuffix(errs.Error(), "is larger than 8MiB: is this the right file?") {
		t.Errorf("big file: %v", errs)
	}
}

func TestValues(t *testing.T) {
	cfg, errs := Parse("f", []byte(base+"http: {listen: \":1234\"}\nmemory_limit: 1GB\ncheckpoint_interval: 1m500ms\n"), noEnv)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if host, _ := os.Hostname(); cfg.Instance != host+"-1234" {
		t.Errorf("instance %q", cfg.Instance)
	}
	if cfg.MemoryLimit != 1e9 || cfg.CheckpointInterval != time.Minute+500*time.Millisecond {
		t.Errorf("memory %d, checkpoint %v", cfg.MemoryLimit, cfg.CheckpointInterval)
	}
}

func TestHash(t *testing.T) {
	hash := func(more string) string {
		cfg, errs := Parse("f", []byte(base+more), noEnv)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		h, err := cfg.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if hash("") != hash("instance: other\nmemory_limit: 256MiB\n") || hash("") == hash("memory_limit: 1GiB\n") {
		t.Error("the hash must differ by everything but the instance, as loaded")
	}
}
