package replicate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The stored forms are final: later releases read them.
func TestRecordForm(t *testing.T) {
	for _, row := range []struct {
		rec  Record
		want string
	}{
		{Record{Epoch: 1, Frontier: noPosition(), Clean: true}, `{"v":1,"epoch":1,"frontier":"-1:-1","clean":true}`},
		{Record{Epoch: 7, Frontier: Position{Ledger: 12, Entry: 5}, Finished: true, Floors: []Floor{
			{Topic: "topic://public/default/t", TargetID: TargetID{Segment: 2, CreatedAtMs: 1700000000123}, Pos: Position{Ledger: 9, Entry: 1}, Fresh: true},
			{Topic: "topic://public/default/t", TargetID: TargetID{Segment: 3, CreatedAtMs: 4}, Pos: noPosition()},
		}}, `{"v":1,"epoch":7,"frontier":"12:5","finished":true,"floors":[` +
			`{"topic":"topic://public/default/t","segment":2,"created_at_ms":1700000000123,"pos":"9:1","fresh":true},` +
			`{"topic":"topic://public/default/t","segment":3,"created_at_ms":4,"pos":"-1:-1"}]}`},
		{Record{Epoch: 2, Frontier: Position{Ledger: 1, Entry: 2}, Lane: &LaneID{Subscription: "s", SourceCluster: "east",
			SourceTopic: "topic://public/default/a", Segment: 3, CreatedAtMs: 4, TargetCluster: "west", TargetTopic: "topic://public/default/b"}},
			`{"v":1,"epoch":2,"frontier":"1:2","lane":{"subscription":"s","source_cluster":"east","source_topic":"topic://public/default/a",` +
				`"segment":3,"created_at_ms":4,"target_cluster":"west","target_topic":"topic://public/default/b"}}`},
	} {
		if got := string(row.rec.Encode()); got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
		back, err := DecodeRecord([]byte(row.want))
		row.rec.Version = 1
		if d := cmp.Diff(row.rec, back); err != nil || d != "" {
			t.Errorf("%s came back: %v\n%s", row.want, err, d)
		}
	}
}

func TestGenesisForm(t *testing.T) {
	g := testGenesis()
	const want = `{"v":1,"subscription":"geobridge-dr","source":{"cluster":"east","topic":"topic://public/default/a"},` +
		`"target":{"cluster":"west","topic":"topic://public/default/b"},"mapping":"dr","id":"MFRGG","created_ms":1700000000123}`
	if got := string(g.Encode()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, err := DecodeGenesis([]byte(want))
	g.Version = 1
	if d := cmp.Diff(g, back); err != nil || d != "" {
		t.Errorf("came back: %v\n%s", err, d)
	}
	if key := g.Key(); key != "genesis/topic://public/default/a/geobridge-dr" || !isGenesis(key) {
		t.Errorf("key %s", key)
	}
	if isGenesis(testLane().Name()) {
		t.Error("a lane's key is taken for a genesis'")
	}
}

func testGenesis() Genesis {
	return Genesis{
		Subscription: "geobridge-dr", Source: Ref{Cluster: "east", Topic: "topic://public/default/a"},
		Target: Ref{Cluster: "west", Topic: "topic://public/default/b"}, Mapping: "dr", ID: "MFRGG", CreatedMs: 1700000000123,
	}
}

func TestAgrees(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Genesis)
		want   bool
	}{
		{"the same", func(*Genesis) {}, true},
		{"mapping renamed", func(g *Genesis) { g.Mapping = "other" }, true},
		{"other time", func(g *Genesis) { g.CreatedMs++ }, true},
		{"read from a topic", func(g *Genesis) { g.Version = 1 }, true},
		{"other subscription", func(g *Genesis) { g.Subscription = "x" }, false},
		{"other source cluster", func(g *Genesis) { g.Source.Cluster = "x" }, false},
		{"other source topic", func(g *Genesis) { g.Source.Topic = "x" }, false},
		{"other target cluster", func(g *Genesis) { g.Target.Cluster = "x" }, false},
		{"other target topic", func(g *Genesis) { g.Target.Topic = "x" }, false},
	} {
		a, b := testGenesis(), testGenesis()
		row.change(&b)
		if a.Agrees(b) != row.want || b.Agrees(a) != row.want {
			t.Errorf("%s: agrees %v, %v; want %v", row.name, a.Agrees(b), b.Agrees(a), row.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, row := range []struct{ value, want string }{
		{"", "unexpected end of JSON"},
		{"x", "invalid character"},
		{"{}", "of version 0: this geobridge knows version 1"},
		{`{"v":2,"epoch":1}`, "of version 2: this geobridge knows version 1"},
		{`{"v":1,"created_ms":"x","epoch":"x"}`, "cannot unmarshal string"},
		{`{"v":1} {"v":1}`, "after top-level value"},
	} {
		if _, err := DecodeRecord([]byte(row.value)); err == nil || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), "checkpoint record") {
			t.Errorf("record %s: error %v, want one with %q", row.value, err, row.want)
		}
		if _, err := DecodeGenesis([]byte(row.value)); err == nil || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), "genesis") {
			t.Errorf("genesis %s: error %v, want one with %q", row.value, err, row.want)
		}
	}
}

func TestRecordFloors(t *testing.T) {
	a, b := TargetID{1, 10}, TargetID{1, 20} // one id, created twice
	rec := Record{Floors: []Floor{{TargetID: a, Pos: Position{Ledger: 1}}, {TargetID: b, Pos: Position{Ledger: 2}}}}
	other := rec.clone()
	rec.floor(b).Pos.Ledger = 9
	rec.dropFloor(a)
	if rec.floor(a) != nil || rec.floor(b).Pos.Ledger != 9 || len(rec.Floors) != 1 {
		t.Errorf("%+v", rec)
	}
	if other.floor(a) == nil || other.floor(b).Pos.Ledger != 2 {
		t.Errorf("the copy changed, too: %+v", other)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(Record{Epoch: 1, Frontier: noPosition(), Clean: true}.Encode())
	f.Add(Record{Epoch: 2, Floors: []Floor{{Topic: "t", TargetID: TargetID{1, 2}, Fresh: true}}}.Encode())
	f.Add([]byte(`{"v":1,"floors":[]}`))
	f.Add([]byte(`{"v":1,"frontier":null,"floors":[null]}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		rec, err := DecodeRecord(value)
		if err != nil {
			return
		}
		back, err := DecodeRecord(rec.Encode())
		if d := cmp.Diff(rec, back, cmpopts.EquateEmpty()); err != nil || d != "" {
			t.Fatalf("%q written again: %v\n%s", value, err, d)
		}
	})
}

func FuzzDecodeGenesis(f *testing.F) {
	f.Add(testGenesis().Encode())
	f.Add([]byte(`{"v":1,"source":null}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		g, err := DecodeGenesis(value)
		if err != nil {
			return
		}
		back, err := DecodeGenesis(g.Encode())
		if d := cmp.Diff(g, back); err != nil || d != "" {
			t.Fatalf("%q written again: %v\n%s", value, err, d)
		}
		if !g.Agrees(back) || g.Key() != back.Key() {
			t.Fatalf("%q does not agree with itself", value)
		}
	})
}
