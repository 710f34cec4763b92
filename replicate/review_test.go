package replicate

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
)

// A layout that ends the last target being claimed must not leave the lane
// waiting for an answer that nobody owes.
func TestRecoveringWhenLayoutEndsTheClaim(t *testing.T) {
	rec := Record{Epoch: 6, Frontier: Position{Ledger: 7, Entry: 3}, Clean: true, Floors: []Floor{{TargetID: at(1), Pos: placed(9)}}}
	r := newRig(t, nil).layout(one(t)).on(evActive).on(evSubscribed).checkpoint(&rec).stored().state(Recovering)
	r.layout(splitOne(t)).state(Running)
	if !r.flows() {
		t.Error("no permits")
	}
}

// on_unroutable: stop holds for what becomes unroutable by a newer layout, too.
func TestRerouteStopsAtPoison(t *testing.T) {
	r := newRig(t, func(cfg *MachineConfig) { cfg.StopPoison = true }).openOne()
	r.giveEntry(1, encryptedBatch(t)).want("send 1 gen 1 seq 2: 1[*]")
	r.receipt(1, 1, 1, 6).layout(splitOne(t)).want("claim 1 gen 2")
	r.ended(1, 2).scanned(1, 2).stored()
	if want := "entry 7:1: unroutable (encrypted), and on_unroutable is stop"; r.m.Why() != want {
		t.Errorf("why: %q, want %q", r.m.Why(), want)
	}
	r.on(evTick).want("record epoch 1 frontier 0")
	if len(r.m.entries.queue) != 1 {
		t.Error("the entry that could not be routed counts as complete")
	}
}

// A batch whose metadata counts less than one message is judged by opening it,
// and no figure runs backwards for it.
func TestBatchOfLessThanOne(t *testing.T) {
	for _, count := range []int32{0, -5} {
		e := batchOf(t, []string{"a", "b"}, func(md *outer) { md.NumMessagesInBatch = proto.Int32(count) })
		r := newRig(t, nil).open(one(t)).giveEntry(0, e)
		r.parkingTaken(1, 7).stored().want("park 0 undecodable")
		if e.messages() != 1 {
			t.Errorf("count %d is taken as %d messages", count, e.messages())
		}
	}
}

// What an opened batch unfolded to does not outlive its routing.
func TestOpenedBatchIsShut(t *testing.T) {
	e := batchOf(t, []string{leftKey(), rightKey()}, nil)
	newRig(t, nil).open(splitOne(t)).giveEntry(0, e)
	if !e.opened || e.batch != nil || e.keys != nil {
		t.Errorf("opened %v, batch kept %v", e.opened, e.batch != nil)
	}
}

// Each send that the machine reports goes into the gauge once, and out once.
func TestUnreceiptedGauge(t *testing.T) {
	reg := prometheus.NewRegistry()
	mm := NewMetrics(reg, NewBudget(1)).forMapping("m", "a", "b")
	s := &session{lane: &Lane{env: &Env{Budget: NewBudget(1)}, metrics: mm}}
	s.account(100, 2)
	mm.receipted(&part{entry: &entry{}, messages: 1})
	s.account(50, 1)
	s.account(0, 0)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); name == "geobridge_unreceipted_sends" || name == "geobridge_inflight_bytes" {
			if v := f.GetMetric()[0].GetGauge().GetValue(); v != 0 {
				t.Errorf("%s is %v in the end", name, v)
			}
		}
	}
}
