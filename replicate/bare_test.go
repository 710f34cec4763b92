package replicate

import (
	"bytes"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/reroute"
)

// Only bench builds a geobridge without exactly once.
func TestOrdinaryBuildIsNotBare(t *testing.T) {
	c := cutter{rules: Rules{SourceCluster: "east", Lane: "lane"}}
	p := c.patch(&entry{info: frame.Info{}, pos: Position{Ledger: 1, Entry: 2}}, nil, reroute.Stamp{}, false)
	if bare || !bytes.Contains(p.Identity, []byte(";lane;1:2;")) {
		t.Fatalf("bare is %v, the identity is %q", bare, p.Identity)
	}
}
