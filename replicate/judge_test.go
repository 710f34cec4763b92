package replicate

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

func TestJudge(t *testing.T) {
	from := func(cluster string) func(*outer) {
		return func(md *outer) { md.ReplicatedFrom = &cluster }
	}
	to := func(clusters ...string) func(*outer) {
		return func(md *outer) { md.ReplicateTo = clusters }
	}
	passed := func(path string) func(*outer) {
		return func(md *outer) {
			md.Properties = []*pulsarpb.KeyValue{property1(frame.IdentityProperty, "1;x;geobridge-y;1:1;*;1;"+path)}
		}
	}
	marker := func(md *outer) { md.MarkerType = proto.Int32(10) }
	chunk := func(md *outer) {
		md.Uuid, md.ChunkId, md.NumChunksFromMsg = proto.String("u"), proto.Int32(0), proto.Int32(2)
	}
	schema := func(md *outer) { md.SchemaVersion = []byte{0, 0, 0, 0, 0, 0, 0, 1} }
	for _, row := range []struct {
		name    string
		forward bool
		edit    func(*outer)
		want    verdict
		reason  string
	}{
		{"plain", false, both(), verdictRoute, ""},
		{"marker", false, marker, verdictSkip, ""},
		{"marker that was replicated", true, both(marker, from("north")), verdictSkip, ""},
		{"replicated", false, from("north"), verdictSkip, "replicated_from"},
		{"replicated, from nowhere", false, from(""), verdictSkip, "replicated_from"},
		{"replicated, forwarded", true, from("north"), verdictRoute, ""},
		{"replicated from the target, forwarded", true, from("west"), verdictSkip, "replicated_from"},
		{"was at the target before, forwarded", true, both(from("north"), passed("south,west")), verdictSkip, "replicated_from"},
		{"was elsewhere before, forwarded", true, both(from("north"), passed("south,north")), verdictRoute, ""},
		{"a path but no replicated_from", false, passed("west"), verdictRoute, ""},
		{"addressed to the target", false, to("south", "west"), verdictRoute, ""},
		{"addressed to others", false, to("south", "western"), verdictSkip, "replicate_to"},
		{"addressed to nobody", false, to(""), verdictSkip, "replicate_to"},
		{"addressed and replicated", false, both(to("west"), from("north")), verdictSkip, "replicated_from"},
		{"chunk", false, chunk, verdictHold, "chunked messages are not yet supported"},
		{"chunk for others", false, both(chunk, to("south")), verdictSkip, "replicate_to"},
		{"schema version", false, schema, verdictHold, "messages with a schema version are not yet supported"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := cutterOf(reroute.FullRange())
			c.rules.ForwardReplicated = row.forward
			if v, reason := c.judge(single(t, row.edit)); v != row.want || reason != row.reason {
				t.Errorf("verdict %d %q, want %d %q", v, reason, row.want, row.reason)
			}
		})
	}
}

// What could not be decoded has no metadata to judge by: it is parked.
func TestJudgeBad(t *testing.T) {
	e := single(t, func(md *outer) { md.ReplicatedFrom = proto.String("north") })
	e.bad = errors.New("checksum")
	c := cutterOf(reroute.FullRange())
	if v, reason := c.judge(e); v != verdictRoute || reason != "" {
		t.Errorf("verdict %d %q", v, reason)
	}
	got := c.cut(halves(t), e, nil)
	if len(got.parts) != 0 || len(got.poison) != 1 || !errors.Is(got.poison[0].err, e.bad) || got.outcome != (Outcome{"parked", "undecodable"}) {
		t.Errorf("%+v", got)
	}
	if e.messages() != 1 {
		t.Errorf("%d messages in what cannot be read", e.messages())
	}
}

// Each outcome that a cut or a verdict gives is one that metrics know from the start.
func TestOutcomesListed(t *testing.T) {
	known := map[Outcome]bool{}
	for _, o := range Outcomes() {
		if known[o] {
			t.Errorf("%v twice", o)
		}
		known[o] = true
	}
	c := cutterOf(leftHalf)
	ll, lh := keys(leftHalf, low, 1), keys(leftHalf, high, 1)
	for _, e := range []*entry{
		keyed1(t, ll[0]), batchOf(t, ll, nil), batchOf(t, ll, stamped(0, 0)), batchOf(t, []string{ll[0], lh[0]}, nil),
		encryptedBatch(t), stored(t, &outer{NumMessagesInBatch: proto.Int32(-1)}, nil),
	} {
		if got := c.cut(halves(t), e, nil); !known[got.outcome] {
			t.Errorf("outcome %v is not listed", got.outcome)
		}
	}
}
