package replicate

import (
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// What is done with a whole entry between the machine and the wire takes no
// memory of its own.
func TestWholePathAllocates(t *testing.T) {
	l := one(t)
	c := &cutter{rules: Rules{SourceCluster: "east", TargetCluster: "west", Lane: "geobridge-lane"}, maxSize: 1 << 20}
	e := keyed1(t, "key")
	p := c.cut(l, e, nil).parts[0]
	var scratch []byte
	send := func() {
		patch := c.patch(e, nil, p.stamp, p.setStamp)
		scratch = frame.AppendPatched(scratch[:0], e.raw.Metadata, &patch)
	}
	send()
	if n := testing.AllocsPerRun(100, send); n != 0 {
		t.Errorf("%v allocations for each entry", n)
	}
}
