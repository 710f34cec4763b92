package replicate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

const scannedTopic = "persistent://public/default/segment"

// scanRig is an embedded broker with one topic, and the scans of it.
type scanRig struct {
	t       *testing.T
	cluster *pulsartest.Cluster
	client  *pulsar.Client
	scans   *Scans
	reads   atomic.Int32 // readings of the topic that began
	drop    atomic.Int32 // FLOW commands to lose
	slow    atomic.Int32 // FLOW commands to hold, and what follows them, for longer than endPoll

	messages atomic.Int64 // how long each message takes
}

func inScanRig(t *testing.T, f func(*scanRig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &scanRig{t: t}
		r.cluster = pulsartest.New(pulsartest.Options{Hook: r.hook})
		network := &pulsartest.Network{}
		var serving sync.WaitGroup
		for _, b := range r.cluster.Brokers() {
			ln := network.Listen(b.Addr())
			serving.Go(func() { _ = b.Serve(ln) })
		}
		synctest.Wait()
		client, err := pulsar.New(pulsar.Options{Cluster: "west", ServiceURL: "pulsar://a:6650", Dial: network.Dial})
		if err != nil {
			t.Fatal(err)
		}
		r.client, r.scans = client, NewScans(client)
		defer serving.Wait()
		defer r.cluster.Close()
		defer func() { _ = client.Close() }()
		f(r)
	})
}

func (r *scanRig) hook(c pulsartest.Command) pulsartest.Action {
	switch {
	case c.Sent && c.Type == pulsarpb.BaseCommand_MESSAGE:
		return pulsartest.Delay(time.Duration(r.messages.Load()))
	case c.Sent:
	case c.Type == pulsarpb.BaseCommand_SUBSCRIBE:
		r.reads.Add(1)
	case c.Type == pulsarpb.BaseCommand_FLOW && r.drop.Add(-1) >= 0:
		return pulsartest.Drop()
	case c.Type == pulsarpb.BaseCommand_FLOW && r.slow.Add(-1) >= 0:
		return pulsartest.Delay(2 * endPoll)
	}
	return pulsartest.Pass()
}

// store writes entries with these identities ("" for none), a barrier behind
// them, and returns their positions and the barrier's.
func (r *scanRig) store(identities ...string) (at []Position, barrier Position) {
	r.t.Helper()
	w, err := openWriter(r.t.Context(), r.client, scannedTopic, "")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, id := range identities {
		var properties []*pulsarpb.KeyValue
		if id != "" {
			properties = []*pulsarpb.KeyValue{{Key: proto.String("__geobridge_source"), Value: proto.String(id)}}
		}
		if err := w.append(r.t.Context(), "k", []byte("v"), properties...); err != nil {
			r.t.Fatal(err)
		}
	}
	w.close()
	c, err := claim(r.t.Context(), r.client, scannedTopic, "geobridge-x", sink{doubt: func(error) {}})
	if err != nil {
		r.t.Fatal(err)
	}
	c.producer.Leave()
	all, err := r.cluster.Entries(scannedTopic)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range all[:len(all)-1] {
		at = append(at, Position{Ledger: e.At.Ledger, Entry: e.At.Entry})
	}
	return at, c.barrier
}

// What comes while the end is asked for uses permits that are renewed like others
// (found on real brokers: the scan stood still with none left, for ever).
func TestScanRenewsPermitsUsedWhileItAsks(t *testing.T) {
	inScanRig(t, func(r *scanRig) {
		identities := make([]string, scanMessages+10)
		identities[len(identities)-1] = mine(1, "*", 1)
		_, barrier := r.store(identities...)
		r.slow.Store(1)
		if got := r.find("geobridge-a", noPosition(), barrier); len(got) != 1 {
			t.Errorf("%d entries found, want 1", len(got))
		}
	})
}

func (r *scanRig) find(lane string, from, to Position) []found {
	r.t.Helper()
	all, _, err := r.scans.find(r.t.Context(), scannedTopic, lane, from, to, func(*reading) {})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func mine(entry int, indices string, total int) string {
	return fmt.Sprintf("1;east;geobridge-a;7:%d;%s;%d;east", entry, indices, total)
}

// What a lane stored above its floor and up to its barrier is found, and nothing else.
func TestScan(t *testing.T) {
	inScanRig(t, func(r *scanRig) {
		at, barrier := r.store(mine(0, "*", 3), mine(1, "0-1", 3), "", "1;east;geobridge-b;7:1;*;1;east", "nonsense", mine(1, "2", 3))
		want := []found{
			{source: Position{Ledger: 7, Entry: 1}, indices: []int{0, 1}, total: 3, at: at[1]},
			{source: Position{Ledger: 7, Entry: 1}, indices: []int{2}, total: 3, at: at[5]},
		}
		if got := r.find("geobridge-a", at[0], barrier); !reflect.DeepEqual(got, want) {
			t.Errorf("found %+v, want %+v", got, want)
		}
		if got := r.find("geobridge-a", at[0], at[4]); !reflect.DeepEqual(got, want[:1]) {
			t.Errorf("up to %v: found %+v, want %+v", at[4], got, want[:1])
		}
		if got := r.find("geobridge-a", noPosition(), noPosition()); len(got) != 3 {
			t.Errorf("from the earliest to the end: %d found, want 3", len(got))
		}
		if got := r.find("geobridge-a", barrier, barrier); got != nil {
			t.Errorf("above the barrier: %+v", got)
		}
		// A floor that the broker does not know begins at the earliest: what lies below it does not count.
		if got := r.find("geobridge-a", Position{Ledger: at[5].Ledger + 99, Entry: 0}, noPosition()); got != nil {
			t.Errorf("above a ledger that never was: %+v", got)
		}
	})
}

// Lanes that ask at the same time share a reading, each with a range of its own.
func TestScanIsShared(t *testing.T) {
	inScanRig(t, func(r *scanRig) {
		at, barrier := r.store(mine(0, "*", 1), "1;east;geobridge-b;7:0;*;1;east", mine(1, "*", 1))
		before := r.reads.Load()
		var asking sync.WaitGroup
		for lane, want := range map[string]int{"geobridge-a": 2, "geobridge-b": 1, "geobridge-c": 0} {
			for range 5 {
				asking.Go(func() {
					if got := r.find(lane, noPosition(), barrier); len(got) != want {
						t.Errorf("%s: found %+v, want %d", lane, got, want)
					}
				})
			}
		}
		asking.Go(func() {
			if got := r.find("geobridge-a", at[0], barrier); len(got) != 1 {
				t.Errorf("above the first: found %+v", got)
			}
		})
		asking.Wait()
		// The first may begin alone; after each, one looks where the log begins.
		if n := r.reads.Load() - before; n > 4 {
			t.Errorf("%d readings for 16 questions", n)
		}
	})
}

// One who gives up takes nothing from the others but the time of another try.
func TestScanGivenUp(t *testing.T) {
	inScanRig(t, func(r *scanRig) {
		_, barrier := r.store(mine(0, "*", 1))
		r.drop.Store(1) // the first reading gets nothing
		ctx, cancel := context.WithCancel(r.t.Context())
		leader := make(chan error, 1)
		go func() {
			_, _, err := r.scans.find(ctx, scannedTopic, "geobridge-a", noPosition(), barrier, func(*reading) {})
			leader <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-leader; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		if got := r.find("geobridge-a", noPosition(), barrier); len(got) != 1 {
			t.Errorf("found %+v", got)
		}
	})
}

// An answer that is lost ends the reading with a reason, not never.
func TestScanOfALostAnswer(t *testing.T) {
	inScanRig(t, func(r *scanRig) {
		_, barrier := r.store(mine(0, "*", 1))
		r.drop.Store(1)
		if _, _, err := r.scans.find(r.t.Context(), scannedTopic, "geobridge-a", noPosition(), barrier, func(*reading) {}); err == nil {
			t.Error("a reading that got nothing came to an end")
		}
		if got := r.find("geobridge-a", noPosition(), barrier); len(got) != 1 {
			t.Errorf("found %+v", got)
		}
	})
}

func TestPresence(t *testing.T) {
	ps := presences{}
	pos := Position{Ledger: 7, Entry: 1}
	ps.add(found{source: pos, indices: []int{0, 3}, total: 4})
	ps.add(found{source: pos, indices: []int{3, 1}, total: 4}) // stored twice, under two layouts
	if include, n := ps[pos].missing(4); n != 3 || !reflect.DeepEqual(include, []int{2}) {
		t.Errorf("missing %v, %d present", include, n)
	}
	ps.add(found{source: pos, total: 4})
	if include, n := ps[pos].missing(4); n != 4 || include != nil {
		t.Errorf("missing %v, %d present", include, n)
	}
	if include, n := ps[Position{}].missing(4); n != 0 || include != nil {
		t.Errorf("of an entry that was not found: missing %v, %d present", include, n)
	}
}
