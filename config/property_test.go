package config

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Whatever is marshalled loads again, and is equal.
func TestMarshalLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawConfig(t)
		text, err := want.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, errs := Parse("marshalled", text, testEnv)
		if len(errs) > 0 {
			t.Fatalf("%v\nin\n%s", errs, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-marshalled +loaded):\n%s\nby\n%s", diff, text)
		}
	})
}

func drawConfig(t *rapid.T) *Config {
	c := &Config{
		Version:            1,
		Group:              rapid.StringMatching(`[A-Za-z0-9_-]{1,63}`).Draw(t, "group"),
		Instance:           rapid.StringMatching(`[A-Za-z0-9._-]{1,40}`).Draw(t, "instance"),
		Clusters:           map[string]Cluster{},
		State:              State{Namespace: rapid.SampledFrom([]string{"", "a/b", "1/2"}).Draw(t, "state")},
		MemoryLimit:        rapid.Int64Range(1050, 1<<20).Draw(t, "kilo") * rapid.SampledFrom([]int64{1000, 1024}).Draw(t, "unit"),
		CheckpointInterval: drawDuration(t, 10*time.Millisecond, 10*time.Minute),
		StallTimeout:       drawDuration(t, time.Second, time.Hour),
		ShutdownTimeout:    drawDuration(t, time.Second, time.Hour),
		HTTP:               HTTP{Listen: rapid.SampledFrom([]string{":0", "127.0.0.1:9464", "[::1]:1", "host.name:65535"}).Draw(t, "listen")},
		Log: Log{
			Level:  rapid.SampledFrom([]string{"debug", "info", "warn", "error"}).Draw(t, "level"),
			Format: rapid.SampledFrom([]LogFormat{LogText, LogJSON}).Draw(t, "format"),
		},
	}
	keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9._-]{1,20}`), 2, 4, rapid.ID).Draw(t, "clusters")
	for i, key := range keys {
		c.Clusters[key] = drawCluster(t, key, i)
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "mappings") {
		c.Mappings = append(c.Mappings, drawMapping(t, keys, i))
	}
	if c.Mappings == nil {
		c.Mappings = []Mapping{}
	}
	return c
}

func drawDuration(t *rapid.T, low, high time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(int64(low/time.Millisecond), int64(high/time.Millisecond)).Draw(t, "ms")) * time.Millisecond
}

func drawText(t *rapid.T, name string) string {
	return rapid.StringMatching(`[ -~é$]{0,12}`).Draw(t, name)
}

func drawCluster(t *rapid.T, key string, i int) Cluster {
	tls := rapid.Bool().Draw(t, "tls")
	c := Cluster{
		Key: key, ClusterName: fmt.Sprintf("%s%d", rapid.StringMatching(`[-=:.\w]{1,10}`).Draw(t, "name"), i),
		ServiceURL: fmt.Sprintf("pulsar://h%d:6650,x:1", i), AdminURL: "http://h/base",
		ListenerName:         rapid.SampledFrom([]string{"", "external"}).Draw(t, "listener"),
		ConnectionsPerBroker: rapid.IntRange(1, 64).Draw(t, "connections"),
		ConnectTimeout:       drawDuration(t, 100*time.Millisecond, 10*time.Minute),
		OperationTimeout:     drawDuration(t, time.Second, 10*time.Minute),
	}
	switch rapid.IntRange(0, 2).Draw(t, "auth") {
	case 1:
		c.Auth.TokenFile = drawText(t, "token_file")
	case 2:
		c.Auth.TokenEnv = "TOKEN"
	}
	if tls {
		c.ServiceURL = fmt.Sprintf("pulsar+ssl://h%d:6651", i)
		c.TLS = TLS{CAFile: drawText(t, "ca"), ServerName: drawText(t, "server"), InsecureSkipVerify: rapid.Bool().Draw(t, "skip")}
		if rapid.Bool().Draw(t, "client certificate") {
			c.TLS.CertFile, c.TLS.KeyFile = "/c$"+drawText(t, "cert"), "k"
		}
	}
	return c
}

func drawMapping(t *rapid.T, keys []string, i int) Mapping {
	ends := rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 2, 2, rapid.ID).Draw(t, "ends")
	return Mapping{
		Name: fmt.Sprintf("m-%d", i), Subscription: rapid.StringMatching(`[A-Za-z0-9._~:=@+-]{1,20}`).Draw(t, "sub") + fmt.Sprint(i),
		// A local name of its own keeps the rules between mappings out of this.
		From:              Endpoint{ends[0], fmt.Sprintf("topic://t-=:.1/n/%d%s", i, rapid.StringMatching(`[a-z$é.:,;&+~-]{0,5}`).Draw(t, "topic"))},
		To:                Endpoint{ends[1], fmt.Sprintf("topic://t/n/to-%d", i)},
		Start:             rapid.SampledFrom([]Start{StartEarliest, StartLatest}).Draw(t, "start"),
		Split:             rapid.SampledFrom([]Split{SplitBucket, SplitMessage}).Draw(t, "split"),
		OnGap:             rapid.SampledFrom([]OnGap{GapContinue, GapStop}).Draw(t, "gap"),
		OnLostEvidence:    rapid.SampledFrom([]OnLostEvidence{EvidenceStop, EvidenceAtLeastOnce}).Draw(t, "evidence"),
		OnUnroutable:      rapid.SampledFrom([]OnUnroutable{UnroutablePark, UnroutableStop}).Draw(t, "unroutable"),
		Guard:             rapid.Bool().Draw(t, "guard"),
		ProducerName:      rapid.SampledFrom([]ProducerName{ProducerSuffix, ProducerOriginal}).Draw(t, "producer"),
		ForwardReplicated: rapid.Bool().Draw(t, "forward"),
		VerifyStamps:      VerifyNever,
	}
}

func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64/int64(time.Millisecond)).Draw(t, "ms")) * time.Millisecond
		if got, err := parseDuration(formatDuration(d)); err != nil || got != d {
			t.Fatalf("%v: %s, %v, %v", d, formatDuration(d), got, err)
		}
	})
}

// Load never panics, and either has errors, each with a place, or a configuration that marshals and loads again.
func FuzzLoad(f *testing.F) {
	f.Add(base)
	f.Add(Example())
	f.Add("a: &a [*a]\nclusters: *a\nmappings: [*a]\n")
	f.Add("clusters: &c {a: *c, b: *c}\n<<: *c\ndefaults: *c\n")
	f.Add("mappings:\n- &m {name: \"${X:-$$}\", from: *m, to: *m}\n---\n")
	f.Add("? [a]\n: b\n!!int x: !!str 1\nversion: !!int \"1\"\nmemory_limit: 99999999999GiB\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, errs := Parse("f", []byte(text), testEnv)
		if (cfg == nil) != (len(errs) > 0) {
			t.Fatalf("configuration %v with errors %v", cfg, errs)
		}
		for _, e := range errs {
			if e.Line < 1 || e.Col < 1 || e.Msg == "" {
				t.Errorf("error without a place or message: %#v", e)
			}
		}
		if cfg == nil {
			return
		}
		out, err := cfg.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if again, errs := Parse("again", out, testEnv); len(errs) > 0 || cmp.Diff(cfg, again) != "" {
			t.Fatalf("%v\n%s\n%s", errs, cmp.Diff(cfg, again), out)
		}
	})
}
