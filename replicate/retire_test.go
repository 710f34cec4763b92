package replicate

import (
	"testing"

	"github.com/geobridge/geobridge/reroute"
)

// Only a layout that is younger than a segment can tell that it is gone.
func TestLeft(t *testing.T) {
	whole := func(id uint64, created int64) reroute.Segment {
		return reroute.Segment{ID: id, CreatedAtMs: created, Range: reroute.FullRange()}
	}
	for _, row := range []struct {
		name string
		segs []reroute.Segment
		id   TargetID
		want bool
	}{
		{"there", []reroute.Segment{whole(1, 11)}, TargetID{1, 11}, false},
		{"pruned, its child is there", []reroute.Segment{whole(2, 12)}, TargetID{1, 11}, true},
		{"pruned, children of one time", []reroute.Segment{{ID: 2, CreatedAtMs: 11, Range: leftHalf}, {ID: 3, CreatedAtMs: 11, Range: rightHalf}}, TargetID{1, 11}, true},
		{"not in this old layout yet", []reroute.Segment{whole(1, 11)}, TargetID{2, 12}, false},
		{"the topic was made again", []reroute.Segment{whole(0, 90)}, TargetID{3, 13}, true},
		{"the topic was made again, the id too", []reroute.Segment{whole(0, 90)}, TargetID{0, 10}, true},
		{"of a topic that this layout does not know yet", []reroute.Segment{whole(0, 10)}, TargetID{0, 90}, false},
	} {
		if got := left(mustLayout(t, 1, row.segs...), row.id); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// A record that names no lane, or one of another mapping, is nobody's to drop. The guard
// keeps what the first lists: it could be of any.
func TestOver(t *testing.T) {
	l := testLane()
	env := &Env{Subscription: l.Subscription, Source: Side{Cluster: l.SourceCluster, Topic: l.SourceTopic}, Target: Side{Cluster: l.TargetCluster, Topic: l.TargetTopic}}
	after := mustLayout(t, 1, reroute.Segment{ID: l.Segment + 1, CreatedAtMs: l.CreatedAtMs + 1, Range: reroute.FullRange()})
	other := l
	other.TargetTopic = "topic://public/default/other"
	for _, row := range []struct {
		name   string
		lane   *LaneID
		layout *reroute.Layout
		over   bool
		keeps  bool
	}{
		{"its segment is gone", &l, after, true, false},
		{"the layout is not known", &l, nil, false, true},
		{"another mapping's", &other, after, false, false},
		{"nobody's", nil, after, false, true},
	} {
		rec := Record{Lane: row.lane}
		if over, keeps := env.over(rec, row.layout), env.keeps(rec, row.layout); over != row.over || keeps != row.keeps {
			t.Errorf("%s: over %v, keeps %v", row.name, over, keeps)
		}
	}
}
