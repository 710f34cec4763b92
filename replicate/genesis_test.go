package replicate

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

const parkingTopic = "persistent://public/default/__geobridge.g.parking"

// beginner is a mapping that is about to agree on its genesis. All are alike, but
// for where their target's cluster really is: checkpoint stands for it.
func (r *scanRig) beginner(checkpoint string) *Mapping {
	env := &Env{
		Mapping: "orders", Subscription: "geobridge.g.west.orders", StopEvidence: true,
		Source:       Side{Key: "east", Cluster: "east", Topic: "topic://public/default/orders", Client: r.client},
		Target:       Side{Key: "west", Cluster: "west", Topic: "topic://public/default/orders", Client: r.client},
		ParkingTopic: parkingTopic, CheckpointTopic: checkpoint, Log: slog.New(slog.DiscardHandler),
	}
	return NewMapping(env, Policy{}, nil, NewMetrics(prometheus.NewRegistry(), NewBudget(1<<20)))
}

// begin agrees as a mapping does at its start: it tries on until it may go on, or
// is refused for good.
func (r *scanRig) begin(m *Mapping) (Genesis, error) {
	var last error
	for range 50 {
		g, err := m.agreeOnGenesis(r.t.Context(), false)
		if err == nil || errors.As(err, new(refusal)) || errors.As(err, new(held)) {
			return g, err
		}
		last = err
		pause(r.t.Context(), endPoll)
	}
	return Genesis{}, errors.Join(errors.New("never agreed"), last)
}

// Instances of one deployment agree; of two deployments whose targets only look
// the same one goes on, whoever starts first, and also after a compaction.
func TestGenesisOfTwo(t *testing.T) {
	for _, targets := range [][2]string{{"one", "one"}, {"one", "two"}} {
		t.Run(fmt.Sprint(targets), func(t *testing.T) {
			inScanRig(t, func(r *scanRig) {
				var all [2]Genesis
				var errs [2]error
				start := func() {
					var group sync.WaitGroup
					for i, target := range targets {
						group.Go(func() { all[i], errs[i] = r.begin(r.beginner("persistent://public/default/" + target)) })
					}
					group.Wait()
				}
				for _, topic := range []string{parkingTopic, "persistent://public/default/one", "persistent://public/default/two"} {
					if err := r.cluster.CreateRegular(topic); err != nil {
						t.Fatal(err)
					}
				}
				start()
				first, before := all, errs
				if same := targets[0] == targets[1]; same && (errs[0] != nil || errs[1] != nil || all[0].ID != all[1].ID) {
					t.Fatalf("one deployment does not agree: %+v %v, %+v %v", all[0], errs[0], all[1], errs[1])
				} else if !same && (errs[0] == nil) == (errs[1] == nil) {
					t.Fatalf("of two deployments one must go on: %v, %v", errs[0], errs[1])
				} else if !same && !errors.As(errors.Join(errs[:]...), new(refusal)) {
					t.Fatalf("the other is to be refused: %v, %v", errs[0], errs[1])
				}
				if err := r.cluster.Compact(parkingTopic); err != nil {
					t.Fatal(err)
				}
				start()
				for i := range all {
					if (errs[i] == nil) != (before[i] == nil) || errs[i] == nil && all[i].ID != first[i].ID {
						t.Errorf("after a restart: %+v %v; it was %+v %v", all[i], errs[i], first[i], before[i])
					}
				}
			})
		})
	}
}

// Geneses without an id, of builds before it, agree; one that is written again beside
// another has its id, or none.
func TestGenesisWithoutID(t *testing.T) {
	for name, has := range map[string]map[string]bool{
		"both": {parkingTopic: true, "persistent://public/default/one": true}, "the target's": {"persistent://public/default/one": true},
	} {
		t.Run(name, func(t *testing.T) {
			inScanRig(t, func(r *scanRig) {
				m := r.beginner("persistent://public/default/one")
				for _, topic := range []string{parkingTopic, "persistent://public/default/one"} {
					if err := r.cluster.CreateRegular(topic); err != nil {
						r.t.Fatal(err)
					}
					if !has[topic] {
						continue
					}
					if err := m.writeGenesis(r.t.Context(), r.client, topic, m.genesis()); err != nil {
						r.t.Fatal(err)
					}
				}
				var g Genesis
				for range 2 { // a restart
					m = r.beginner("persistent://public/default/one")
					var err error
					if g, err = r.begin(m); err != nil {
						r.t.Fatal(err)
					}
				}
				g.Subscribed = true
				if err := m.writeGenesis(r.t.Context(), r.client, m.env.CheckpointTopic, g); err != nil {
					r.t.Error(err)
				}
			})
		})
	}
}
