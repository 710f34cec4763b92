package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClusters(t *testing.T) {
	const east = `  east: {service_url: "pulsar://e:6650", admin_url: "http://e:8080"}`
	with := func(more string) string {
		return `  east: {service_url: "pulsar://e:6650", admin_url: "http://e:8080", ` + more + `}`
	}
	runRows(t, []row{
		{"one cluster", east + "\n", "", []string{
			`3:1: clusters: has 1 of the two or more that it needs: add the other end`,
			`9:21: mappings[0].from.cluster: unknown cluster "east": the clusters are west`,
			`13:19: mappings[1].to.cluster: unknown cluster "east": the clusters are west`}},
		{"blank cluster", east, "  east:", []string{
			`4:8: clusters.east.service_url: is required: pulsar://host:6650 or pulsar+ssl://host:6651`,
			`4:8: clusters.east.admin_url: is required: subscriptions are recorded through it, http://host:8080 or https://host:8443`}},
		{"service URL", `"pulsar://e:6650"`, `"http://e:6650"`, []string{
			`4:23: clusters.east.service_url: is not a service URL: write pulsar://host:6650 or pulsar+ssl://host:6651, more hosts after commas`}},
		{"no host", `"pulsar://e:6650"`, `"pulsar://e:6650,"`, []string{
			`4:23: clusters.east.service_url: has a host that is not host or host:port: write pulsar://host:6650 or pulsar+ssl://host:6651, more hosts after commas`}},
		{"password in URL", `"http://e:8080"`, `"http://a:secret@e:8080"`, []string{
			`4:53: clusters.east.admin_url: holds a user or password, and inline secrets are refused: use auth`}},
		{"admin URL", `"http://e:8080"`, `"e:8080"`, []string{
			`4:53: clusters.east.admin_url: is not an admin URL: write http://host:8080 or https://host:8443`}},
		{"one cluster under two names", `"pulsar://w:6650"`, `"pulsar://e"`, []string{
			`6:18: clusters.west.service_url: is the same as cluster east's: two names for one cluster would copy it onto itself`}},
		{"equal Pulsar names", east, with("cluster_name: west"), []string{
			`6:5: clusters.west.cluster_name: is the same as cluster east's: each cluster needs its own Pulsar name, for loops are told by it`}},
		{"connections", east, with("connections_per_broker: 0"), []string{`4:94: clusters.east.connections_per_broker: 0 is out of range: 1 to 64`}},
		{"time-outs", east, with("connect_timeout: 5, operation_timeout: 1ms"), []string{
			`4:87: clusters.east.connect_timeout: "5" needs a unit, like 10s`,
			`4:109: clusters.east.operation_timeout: 1ms is out of range: 1s to 10m`}},
		{"inline token", east, with("auth: {token: eyJhbGci}"), []string{
			`4:77: clusters.east.auth: "token" would be a secret in this file, which is refused: name a file by token_file or a variable by token_env`}},
		{"two tokens", east, with("auth: {token_file: a, token_env: TOKEN}"), []string{
			`4:92: clusters.east.auth: has both token_file and token_env: remove one`}},
		{"token unset", east, with("auth: {token_env: NOPE}"), []string{
			`4:88: clusters.east.auth.token_env: environment variable NOPE is not set: set it to the token`}},
		{"token as a name", east, with("auth: {token_env: \"ey.x\"}"), []string{
			`4:88: clusters.east.auth.token_env: is not the name of an environment variable (letters, digits and _)`}},
		{"token", east, with("auth: {token_env: TOKEN}"), nil},
		{"auth not yet", east, with("auth: {basic: {}, oauth2: {}, tls: true}"), []string{
			`4:77: clusters.east.auth: "basic" is not yet supported by this version: remove it`,
			`4:88: clusters.east.auth: "oauth2" is not yet supported by this version: remove it`,
			`4:100: clusters.east.auth: "tls" is not yet supported by this version: remove it`}},
		{"TLS unused", east, with("tls: {ca_file: a}"), []string{
			`4:70: clusters.east.tls: is set, but neither URL uses TLS: write pulsar+ssl:// and https://, or remove it`}},
		{"half a pair", `    admin_url: "http://w:8080"`, "    admin_url: https://w\n    tls: {key_file: k, insecure_skip_verify: yes}", []string{
			`8:21: clusters.west.tls.key_file: needs cert_file beside it`,
			`8:46: clusters.west.tls.insecure_skip_verify: must be true or false, without quotes, not text`}},
		{"key of cluster", base[strings.Index(base, "  west:"):], "  \"we st\": {service_url: \"pulsar://w\", admin_url: http://w}\nmappings: []\n", []string{
			`5:3: clusters: cluster key "we st" must be 1 to 63 letters, digits, dots, _ and -`}},
	})
}

func TestMappings(t *testing.T) {
	const to = "to: {cluster: west}"
	const back = "  - name: back\n    from: {cluster: west, topic: \"topic://public/default/orders\"}\n    to: {cluster: east}\n"
	topic := func(s string) string { return `topic: "` + s + `"` }
	orders := topic("topic://public/default/orders")
	const at = `10:34: mappings[0].from.topic: `
	runRows(t, []row{
		{"no name", "name: orders\n    from", "from", []string{`9:5: mappings[0].name: is required: it is how commands and metrics call the mapping`}},
		{"bad name", "name: orders", "name: Orders", []string{`9:11: mappings[0].name: "Orders" must be 1 to 63 of a-z, 0-9 and -`}},
		{"same name", "name: back", "name: orders", []string{`12:11: mappings[1].name: "orders" is the name of the mapping at line 9 too: choose another`}},
		{"unknown cluster", to, "to: {cluster: wset}", []string{`11:19: mappings[0].to.cluster: unknown cluster "wset": the clusters are east, west`}},
		{"no topic", ", " + orders, "", []string{`10:11: mappings[0].from.topic: is required: write topic://tenant/namespace/name`}},
		{"regular topic", orders, topic("persistent://a/b/c"), []string{at + `"persistent://a/b/c" is a regular topic, and geobridge copies scalable topics: write topic://tenant/namespace/name`}},
		{"segment", orders, topic("segment://a/b/c/x"), []string{at + `"segment://a/b/c/x" is one segment of a topic; name the whole topic: write topic://tenant/namespace/name`}},
		{"short topic", orders, topic("a/b/c"), []string{at + `"a/b/c" is not a scalable topic: write topic://tenant/namespace/name`}},
		{"tenant", orders, topic("topic://a b/b/c"), []string{at + `"topic://a b/b/c" has a tenant or namespace with other than letters, digits and -=:._: write topic://tenant/namespace/name`}},
		{"pattern", orders, topic("topic://a/b/c*"), []string{at + `"topic://a/b/c*": patterns are not yet supported by this version; name one topic`}},
		{"empty local name", orders, topic("topic://a/b/"), []string{at + `"topic://a/b/" has a name that is empty or holds spaces or one of \#%{}: write topic://tenant/namespace/name`}},
		{"template in from", orders, topic("topic://a/b/{topic}"), []string{at + `"topic://a/b/{topic}" has a name that is empty or holds spaces or one of \#%{}: write topic://tenant/namespace/name`}},
		{"template", to, `to: {cluster: west, topic: "topic://x-{tenant}/{namespace}/east-{topic}"}`, nil},
		{"unknown template", to, `to: {cluster: west, topic: "topic://{tenant}/{namespace}/{name}"}`, []string{
			`11:32: mappings[0].to.topic: "topic://{tenant}/{namespace}/{name}" is not a topic://tenant/namespace/name with {tenant}, {namespace} and {topic} as its only templates`}},
		{"subscription", to, to + "\n    subscription: a/b", []string{`12:19: mappings[0].subscription: "a/b" must be up to 200 letters, digits and -._~:=@+`}},
		{"guard as subscription", to, to + "\n    subscription: geobridge-guard.x", []string{
			`12:19: mappings[0].subscription: "geobridge-guard.x" starts like a guard subscription (geobridge-guard.): choose another name`}},
		{"choices", to, to + "\n    start: now\n    split: entry\n    on_unroutable: drop\n    producer_name: mine\n    guard: 1\n    verify_stamps: often\n    on_gap: ignore\n    on_lost_evidence: maybe", []string{
			`12:12: mappings[0].start: "now" must be earliest or latest`,
			`13:12: mappings[0].split: "entry" must be bucket or message`,
			`14:20: mappings[0].on_unroutable: "drop" must be park or stop`,
			`15:20: mappings[0].producer_name: "mine" must be suffix or original`,
			`16:12: mappings[0].guard: must be true or false, without quotes, not a number`,
			`17:20: mappings[0].verify_stamps: "often" must be never, sample or always`,
			`18:13: mappings[0].on_gap: "ignore" must be continue or stop`,
			`19:23: mappings[0].on_lost_evidence: "maybe" must be stop or at_least_once`}},
		{"not yet", to, to + "\n    paused: false\n    rate_limit: {}\n    verify_stamps: sample", []string{
			`12:5: mappings[0]: "paused" is not yet supported by this version: remove it`,
			`13:5: mappings[0]: "rate_limit" is not yet supported by this version: remove it`,
			`14:20: mappings[0].verify_stamps: "sample" is not yet supported by this version: write never`}},
		{"discovery", orders, `namespace: a/b, match: ["*"], exclude: []`, []string{
			`10:27: mappings[0].from: "namespace" is not yet supported by this version: remove it`,
			`10:43: mappings[0].from: "match" is not yet supported by this version: remove it`,
			`10:57: mappings[0].from: "exclude" is not yet supported by this version: remove it`}},
		{"defaults", "mappings:", "defaults: {start: never, name: x}\nmappings:", []string{
			`8:19: defaults.start: "never" must be earliest or latest`,
			`8:26: defaults: "name" belongs to each mapping and has no default: move it there`}},
		{"same topic", to, "to: {cluster: east}", []string{`11:9: mappings[0].to: both ends are the same topic, topic://public/default/orders in cluster east: change one`}},
		{"same cluster", to, "to: {cluster: east, topic: topic://a/b/c}", []string{`11:9: mappings[0].to: both ends are in cluster east: geobridge copies from one cluster to another`}},
		{"equal ends", back, "  - {name: again, from: {cluster: east, " + orders + "}, to: {cluster: west}}\n", []string{
			`12:25: mappings[1]: mappings orders and again have equal ends, and would copy everything twice: remove one`}},
		{"one subscription", back, "  - {name: other, subscription: geobridge.geobridge.west.orders, from: {cluster: east, " + orders + "}, to: {cluster: west, topic: topic://a/b/c}}\n", []string{
			`12:33: mappings[1].subscription: mappings orders and other read one topic by one subscription, and each would miss what the other takes: rename one`}},
		{"ring", "mappings:", "defaults: {forward_replicated: true}\nmappings:", []string{
			`10:5: mappings[0].forward_replicated: mappings orders, back form a ring in which all forward what was replicated: set it to false in one`}},
		{"broken ring", to, to + "\n    forward_replicated: true", nil},
	})
}

func TestRingOfThree(t *testing.T) {
	const text = `clusters:
  a: {service_url: "pulsar://a", admin_url: "http://a"}
  b: {service_url: "pulsar://b", admin_url: "http://b"}
  c: {service_url: "pulsar://c", admin_url: "http://c"}
defaults: {forward_replicated: true}
mappings:
  - {name: lead-in, from: {cluster: c, topic: topic://t/n/y}, to: {cluster: a, topic: topic://t/n/x}}
  - {name: ab, from: {cluster: a, topic: topic://t/n/x}, to: {cluster: b}}
  - {name: bc, from: {cluster: b, topic: topic://t/n/x}, to: {cluster: c}}
  - {name: ca, from: {cluster: c, topic: topic://t/n/x}, to: {cluster: a}}
`
	_, errs := Parse("f", []byte(text), noEnv)
	want := "f:8:5: mappings[1].forward_replicated: mappings ab, bc, ca form a ring in which all forward what was replicated: set it to false in one"
	if errs.Error() != want {
		t.Errorf("got  %v\nwant %v", errs, want)
	}
}

func TestMergingAndTemplates(t *testing.T) {
	cfg, errs := Parse("f", []byte(`clusters:
  east: {service_url: "pulsar://e,e2:7000,[::1]", admin_url: "http://e/", cluster_name: us.east}
  west: {service_url: "pulsar+ssl://w", admin_url: "https://w", cluster_name: us.west}
group: g
defaults: {split: message, guard: false, start: latest}
mappings:
  - &m {name: one, guard: true, from: {cluster: east, topic: topic://t/n/x}, to: {cluster: west, topic: "topic://{tenant}/{namespace}2/from-{topic}"}}
`), noEnv)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	want := Mapping{
		Name: "one", Subscription: "geobridge.g.us.west.one",
		From: Endpoint{"east", "topic://t/n/x"}, To: Endpoint{"west", "topic://t/n2/from-x"},
		Start: StartLatest, Split: SplitMessage, OnUnroutable: UnroutablePark, OnGap: GapContinue, OnLostEvidence: EvidenceStop, Guard: true, ProducerName: ProducerSuffix, VerifyStamps: VerifyNever,
	}
	if diff := cmp.Diff(want, cfg.Mappings[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := cfg.Clusters["east"]; got.ServiceURL != "pulsar://e:6650,e2:7000,[::1]:6650" || got.AdminURL != "http://e" {
		t.Errorf("east: %+v", got)
	}
	if got := cfg.Clusters["west"].ServiceURL; got != "pulsar+ssl://w:6651" {
		t.Errorf("west: %s", got)
	}
}

func TestPairs(t *testing.T) {
	three := map[string]Cluster{"a": {}, "b": {}, "c": {}}
	m := func(from, to string) Mapping {
		return Mapping{From: Endpoint{Cluster: from}, To: Endpoint{Cluster: to}}
	}
	for _, tt := range []struct {
		name     string
		clusters map[string]Cluster
		mappings []Mapping
		flag     string
		want     Pair
		err      string
	}{
		{"two clusters, nothing mapped", map[string]Cluster{"a": {}, "b": {}}, nil, "", Pair{"a", "b"}, ""},
		{"three, one mapped", three, []Mapping{m("c", "a"), m("a", "c")}, "", Pair{"a", "c"}, ""},
		{"three, nothing mapped", three, nil, "", Pair{}, "one process serves one pair of clusters: choose it by --pair A,B; the clusters are a, b, c"},
		{"more", three, []Mapping{m("c", "a"), m("a", "b")}, "", Pair{}, "one process serves one pair of clusters, and the mappings are of more: choose one of --pair a,b, --pair a,c"},
		{"chosen", three, []Mapping{m("c", "a"), m("a", "b")}, "b,a", Pair{"a", "b"}, ""},
		{"nothing between", three, []Mapping{m("c", "a"), m("a", "b")}, "b, c", Pair{}, "no mapping is between the clusters of --pair b,c: the mappings are between a,b and a,c"},
		{"unknown", three, nil, "a,x", Pair{}, `--pair names an unknown cluster "x": the clusters are a, b, c`},
		{"one only", three, nil, "a", Pair{}, "--pair must name two clusters, like --pair east,west"},
		{"twice", three, nil, "a,a", Pair{}, "--pair must name two clusters, like --pair east,west"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := &Config{Clusters: tt.clusters, Mappings: tt.mappings}
			got, err := cfg.SelectPair(tt.flag)
			if msg := errorText(err); got != tt.want || msg != tt.err {
				t.Errorf("got %v, %q; want %v, %q", got, msg, tt.want, tt.err)
			}
		})
	}
	cfg := &Config{Clusters: three, Mappings: []Mapping{m("c", "a"), m("a", "b"), m("a", "c")}}
	if got := cfg.MappingsOf(Pair{"a", "c"}); len(got) != 2 {
		t.Errorf("mappings of a,c: %v", got)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
