package replicate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func testLane() LaneID {
	return LaneID{
		Subscription: "geobridge-dr", SourceCluster: "east", SourceTopic: "topic://public/default/orders",
		Segment: 3, CreatedAtMs: 1700000000123, TargetCluster: "west", TargetTopic: "topic://public/default/orders",
	}
}

// The name is how a later release finds what an earlier one wrote: this literal
// must never change.
func TestLaneName(t *testing.T) {
	// Base64url of the first 16 bytes of SHA-256 over
	// {"subscription":"geobridge-dr","source_cluster":"east","source_topic":"topic://public/default/orders","segment":3,
	// "created_at_ms":1700000000123,"target_cluster":"west","target_topic":"topic://public/default/orders"} on one line.
	const want = "geobridge-lxTjYkvWoy12jZCsuBtbgw"
	if got := testLane().Name(); got != want {
		t.Errorf("N(L) = %s, want %s", got, want)
	}
}

// Each field of L tells lanes apart.
func TestLaneNameFields(t *testing.T) {
	names := map[string]string{testLane().Name(): "none"}
	for field, change := range map[string]func(*LaneID){
		"subscription":   func(l *LaneID) { l.Subscription += "x" },
		"source cluster": func(l *LaneID) { l.SourceCluster += "x" },
		"source topic":   func(l *LaneID) { l.SourceTopic += "x" },
		"segment":        func(l *LaneID) { l.Segment++ },
		"created":        func(l *LaneID) { l.CreatedAtMs++ },
		"target cluster": func(l *LaneID) { l.TargetCluster += "x" },
		"target topic":   func(l *LaneID) { l.TargetTopic += "x" },
		"both clusters":  func(l *LaneID) { l.SourceCluster, l.TargetCluster = l.TargetCluster, l.SourceCluster },
	} {
		l := testLane()
		change(&l)
		name := l.Name()
		if other, ok := names[name]; ok {
			t.Errorf("%s: the same name as %s", field, other)
		}
		names[name] = field
		if !strings.HasPrefix(name, "geobridge-") || len(name) != len("geobridge-")+22 {
			t.Errorf("%s: name %q", field, name)
		}
	}
}

func TestTopicNames(t *testing.T) {
	for got, want := range map[string]string{
		GuardName("geobridge-dr"):                  "geobridge-guard.geobridge-dr",
		CheckpointTopic("public/state", "blue"):    "persistent://public/state/__geobridge.blue.checkpoint",
		ParkingTopic("public/state", "blue"):       "persistent://public/state/__geobridge.blue.parking",
		HoldSubscription:                           "geobridge-hold",
		string(appendIndices(nil, []int{0})):       "0",
		string(appendIndices(nil, []int{2, 3})):    "2-3",
		string(appendIndices(nil, []int{1 << 19})): "524288",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestIdentityForm(t *testing.T) {
	for _, row := range []struct {
		id   Identity
		want string
	}{
		{Identity{"east", "geobridge-x", Position{Ledger: 12, Entry: 0}, nil, 1, []string{"east"}}, "1;east;geobridge-x;12:0;*;1;east"},
		{Identity{"east", "geobridge-x", Position{Ledger: 12, Entry: 5}, []int{0, 1, 2, 3, 7}, 9, []string{"north", "east"}},
			"1;east;geobridge-x;12:5;0-3,7;9;north,east"},
		{Identity{"east", "geobridge-x", Position{Ledger: 12, Entry: 5}, []int{0, 2, 4}, 5, nil}, "1;east;geobridge-x;12:5;0,2,4;5;"},
	} {
		if got := string(row.id.Append([]byte("x"))); got != "x"+row.want {
			t.Errorf("%q, want x and %q", got, row.want)
		}
		back, err := ParseIdentity([]byte(row.want))
		if d := cmp.Diff(row.id, back); err != nil || d != "" {
			t.Errorf("%q came back: %v\n%s", row.want, err, d)
		}
	}
}

func TestIdentityRoundTrip(t *testing.T) {
	name := rapid.StringMatching(`[A-Za-z0-9_.=-]{0,20}`)
	rapid.Check(t, func(r *rapid.T) {
		id := Identity{
			Cluster: name.Draw(r, "cluster"), Lane: name.Draw(r, "lane"),
			Pos:   Position{Ledger: rapid.Int64Min(-1).Draw(r, "ledger"), Entry: rapid.Int64Min(-1).Draw(r, "entry")},
			Total: rapid.IntRange(1, 200).Draw(r, "total"),
			Path:  rapid.SliceOfN(rapid.StringMatching(`[a-z-]{1,9}`), 0, 4).Draw(r, "path"),
		}
		if rapid.Bool().Draw(r, "part") {
			id.Indices = rapid.SliceOfNDistinct(rapid.IntRange(0, id.Total-1), 1, id.Total, rapid.ID).Draw(r, "indices")
			slices.Sort(id.Indices)
		}
		value := id.Append(nil)
		back, err := ParseIdentity(value)
		if d := cmp.Diff(id, back, cmpopts.EquateEmpty()); err != nil || d != "" || (back.Indices == nil) != (id.Indices == nil) {
			r.Fatalf("%s: %v\n%s", value, err, d)
		}
	})
}

func TestParseIdentityRefuses(t *testing.T) {
	for _, row := range []struct{ value, want string }{
		{"", "want 1;cluster;lane;ledger:entry;indices;total;path"},
		{"an application's own", "want 1;cluster;lane"},
		{"2;east;l;1:1;*;1;east", "want 1;cluster;lane"},
		{"1;east;l;1:1;*;1", "want 1;cluster;lane"},
		{"1;east;l;1:1;*;1;east;more", "want 1;cluster;lane"},
		{"1;east;l;1;*;1;east", "want ledger:entry"},
		{"1;east;l;1:x;*;1;east", "not a number"},
		{"1;east;l;1:-2;*;1;east", "out of range"},
		{"1;east;l;1:1;*;;east", "bad total"},
		{"1;east;l;1:1;*;0;east", "bad total"},
		{"1;east;l;1:1;*;-1;east", "bad total"},
		{"1;east;l;1:1;*;1048577;east", "bad total"},
		{"1;east;l;1:1;;3;east", `bad index ""`},
		{"1;east;l;1:1;x;3;east", `bad index "x"`},
		{"1;east;l;1:1;0,;3;east", `bad index ""`},
		{"1;east;l;1:1;0-;3;east", `bad range "0-"`},
		{"1;east;l;1:1;-1;3;east", `bad index "-1"`},
		{"1;east;l;1:1;3;3;east", `"3" is not ascending within 3 messages`},
		{"1;east;l;1:1;0-3;3;east", `"0-3" is not ascending within 3 messages`},
		{"1;east;l;1:1;2-1;3;east", `"2-1" is not ascending`},
		{"1;east;l;1:1;1,1;3;east", `"1" is not ascending`},
		{"1;east;l;1:1;1,0;3;east", `"0" is not ascending`},
		{"1;east;l;1:1;0-99999999999999999999;3;east", "bad range"},
	} {
		if id, err := ParseIdentity([]byte(row.value)); err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "identity") {
			t.Errorf("%q: %+v, error %v; want one with %q", row.value, id, err, row.want)
		}
	}
}

func FuzzParseIdentity(f *testing.F) {
	for _, s := range []string{"1;east;geobridge-x;12:5;0-3,7;9;north,east", "1;east;l;1:1;*;1;", "1;;;-1:-1;0;1;", "1;a;b;1:1;0-1048575;1048576;c", "", "1;;;;;;"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		id, err := ParseIdentity(value)
		if err != nil {
			return
		}
		if id.Total < 1 || len(id.Indices) > id.Total || !slices.IsSorted(id.Indices) || id.Indices != nil && len(id.Indices) == 0 {
			t.Fatalf("%q: %d of %d indices", value, len(id.Indices), id.Total)
		}
		back, err := ParseIdentity(id.Append(nil))
		if d := cmp.Diff(id, back); err != nil || d != "" {
			t.Fatalf("%q written again: %v\n%s", value, err, d)
		}
	})
}

// Who reads very many identities gets the same of each, and no new memory for indices.
func TestParseIdentityIntoUsesMemoryAgain(t *testing.T) {
	memory := make([]int, 0, 8)
	for _, value := range []string{"1;east;l;1:1;0-2,5;9;", "1;east;l;1:2;*;9;", "1;east;l;1:3;4,7-8;9;"} {
		want, err := ParseIdentity([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseIdentityInto(memory, []byte(value))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", value, err, d)
		}
		if got.Indices != nil && &got.Indices[0] != &memory[:1][0] {
			t.Errorf("%s: other memory", value)
		}
	}
}
