package replicate

import (
	"testing"

	"github.com/geobridge/geobridge/reroute"
)

// again is the topic of one, deleted and made again.
func again(t *testing.T) *reroute.Layout {
	return mustLayout(t, 0, reroute.Segment{ID: 1, CreatedAtMs: 50, Range: reroute.FullRange()})
}

// heir is its segment.
func heir(ev Event) Event {
	ev.Target = TargetID{Segment: 1, CreatedAtMs: 50}
	return ev
}

func (r *rig) inheriting() *rig {
	rec := unclean(Floor{Topic: "topic://public/default/t", TargetID: at(1), Pos: placed(5)})
	return r.layout(again(r.t)).on(evActive).on(evSubscribed).checkpoint(rec).stored()
}

// A topic that is made again may hold what is left of the one before: what is in doubt is
// looked for there, from where the record lists it, and nothing that was found comes twice.
func TestInherit(t *testing.T) {
	r := newRig(t, stops)
	r.inheriting().state(Recovering).want("claim 1 gen 1")
	r.step(heir(Event{Kind: evClaimed, Gen: 1, Pos: placed(9), Seq: 1})).want("scan 1 gen 1 from 5 to 9")
	// Until it is read the record lists the segment as it was, too: a crash here forgets nothing.
	r.step(heir(Event{Kind: evScanned, Gen: 1, Found: []found{storedCopy(0, 7, 1)}, Pos: placed(-1)}))
	r.want("record epoch 2 frontier -1 1@5")
	if f := r.m.record.floor(at(1)); f != nil {
		t.Errorf("still listed as it was: %+v", f)
	}
	r.stored().state(Running)
	r.give(0, leftKey()).want("present 1")
	r.give(1, leftKey()).want("send 1 gen 1 seq 1: 1[*]")
}

// One that has nothing of the one before begins far above what was listed. That is no
// evidence lost, and later it is not taken for any.
func TestInheritNothing(t *testing.T) {
	r := newRig(t, stops)
	r.inheriting()
	begins, barrier := Position{Ledger: 200, Entry: -1}, Position{Ledger: 200, Entry: 3}
	r.step(heir(Event{Kind: evClaimed, Gen: 1, Pos: barrier, Seq: 1}))
	r.step(heir(Event{Kind: evScanned, Gen: 1, Pos: begins}))
	r.want("record epoch 2 frontier -1 1@3").stored().state(Running)
	if f := r.m.record.floor(TargetID{Segment: 1, CreatedAtMs: 50}); f == nil || f.Pos != barrier {
		t.Errorf("the floor: %+v", f)
	}
	r.give(0, leftKey()).want("send 1 gen 1 seq 1: 0[*]")
	r.step(heir(Event{Kind: evDoubt, Gen: 1, Err: errLost}))
	r.step(heir(Event{Kind: evClaimed, Gen: 2, Pos: Position{Ledger: 200, Entry: 5}, Seq: 9})).want("scan 1 gen 2 from 3 to 5")
	r.step(heir(Event{Kind: evScanned, Gen: 2, Pos: begins})).want("record epoch 2 frontier -1 1@5")
}

// A session that crashed meanwhile has listed both: the older counts until it is read.
func TestInheritAfterACrash(t *testing.T) {
	r := newRig(t, stops)
	topic := "topic://public/default/t"
	rec := unclean(Floor{Topic: topic, TargetID: at(1), Pos: placed(5)},
		Floor{Topic: topic, TargetID: TargetID{Segment: 1, CreatedAtMs: 50}, Pos: placed(9), Fresh: true})
	r.layout(again(t)).on(evActive).on(evSubscribed).checkpoint(rec).stored().want("claim 1 gen 1")
	r.step(heir(Event{Kind: evClaimed, Gen: 1, Pos: placed(12), Seq: 1})).want("scan 1 gen 1 from 5 to 12")
	r.step(heir(Event{Kind: evScanned, Gen: 1, Pos: placed(-1)})).want("record epoch 2 frontier -1 1@12")
}

func TestGhosts(t *testing.T) {
	var g ghosts
	for range 3 {
		g.join(1)
	}
	g.join(2)
	if sum := g.leave(1, 5); sum != 0 {
		t.Errorf("two have not heard yet: %d", sum)
	}
	if sum := g.leave(1, 0); sum != 0 {
		t.Errorf("one has not heard yet: %d", sum)
	}
	if sum := g.leave(2, 0); sum != 0 {
		t.Errorf("of another topic: %d", sum)
	}
	if sum := g.leave(1, 7); sum != 12 {
		t.Errorf("in all: %d", sum)
	}
	if len(g.all) != 0 {
		t.Errorf("left: %v", g.all)
	}
}
