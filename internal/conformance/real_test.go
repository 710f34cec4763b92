package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// real starts real clusters when a scenario first needs them.
type real struct {
	box     rig.Toolbox
	spawner *rig.Spawner

	turns chan struct{} // of scenarios

	mu     sync.Mutex
	worlds map[Need]*realWorld
}

// atOnce is how many scenarios work on real clusters at a time.
const atOnce = 5

// realWorld is a standalone, or else a twin.
type realWorld struct {
	name   string
	once   sync.Once
	err    error
	single *rig.Standalone
	twin   *rig.Twin
}

// openReal finds the tools; dir takes logs and data.
func openReal(dir string) (*real, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	box, err := rig.OpenToolbox(ctx, witness.POM)
	return &real{box: box, spawner: rig.NewSpawner(dir), turns: make(chan struct{}, atOnce), worlds: map[Need]*realWorld{}}, err
}

func (r *real) close() {
	if w := r.worlds[OneBroker]; w != nil && w.single != nil && w.single.Process() != nil {
		w.single.Stop() // in order: it leaves the class archive for the next run
	}
	r.spawner.Close()
}

// world returns the cluster for a need, running.
func (r *real) world(t *testing.T, need Need, secret []byte) *realWorld {
	t.Helper()
	r.mu.Lock()
	w := r.worlds[need]
	if w == nil {
		w = &realWorld{}
		r.worlds[need] = w
	}
	r.mu.Unlock()
	w.once.Do(func() {
		if w.err = w.start(r, need, secret); w.err == nil {
			w.err = w.settled()
		}
	})
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w
}

func (w *realWorld) start(r *real, need Need, secret []byte) (err error) {
	ctx := context.Background() // outlives the scenario that came first; Start has a deadline of its own
	switch need {
	case TwoBrokers:
		w.name = "twin"
		// The session is short, so that a killed broker's bundles move soon.
		if w.twin, err = rig.NewTwin(r.box, r.spawner, w.name, "metadataStoreSessionTimeoutMillis=6000", "zooKeeperSessionTimeoutMillis=6000"); err == nil {
			err = w.twin.Start(ctx)
		}
		return err
	case Tokens:
		w.name = "strict"
		admin := signed(secret, `{"sub":"admin"}`)
		if w.single, err = rig.NewStandalone(r.box, r.spawner, w.name, tokenSettings(secret, admin)...); err != nil {
			return err
		}
		w.single.Token = admin
	default:
		w.name = "one"
		if w.single, err = rig.NewStandalone(r.box, r.spawner, w.name); err != nil {
			return err
		}
	}
	return w.single.Start(ctx)
}

// settled waits for the tenant of all scenarios, which a standalone makes a little after it
// says that it is healthy.
func (w *realWorld) settled() error {
	rest := restadmin.New(w.Admin(0))
	if w.single != nil {
		rest.Token = w.single.Token
	}
	deadline := time.Now().Add(w.Patience())
	for {
		err := rest.Do(context.Background(), "GET", "tenants/public", nil, nil)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(100 * time.Millisecond)
	}
}

func tokenSettings(secret []byte, admin string) []string {
	return []string{
		"authenticationEnabled=true", "authorizationEnabled=true", "superUserRoles=admin", "authenticationRefreshCheckSeconds=10",
		"authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
		"tokenSecretKey=data:;base64," + base64.StdEncoding.EncodeToString(secret),
		"brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken",
		"brokerClientAuthenticationParameters=token:" + admin,
	}
}

func (w *realWorld) Cluster() string         { return w.name }
func (w *realWorld) Patience() time.Duration { return 3 * time.Minute }

func (w *realWorld) KeepAlive() time.Duration { return 30 * time.Second }
func (w *realWorld) Grace() time.Duration     { return time.Minute }

func (w *realWorld) Brokers() int {
	if w.twin != nil {
		return 2
	}
	return 1
}

func (w *realWorld) Service(n int) string {
	var url string
	if w.twin != nil {
		url = w.twin.BrokerURL(n)
	} else {
		url = w.single.ServiceURL()
	}
	addr, err := rig.SplitAddr(url)
	if err != nil {
		panic(err) // rig made it
	}
	return addr
}

func (w *realWorld) Admin(n int) string {
	if w.twin != nil {
		return w.twin.AdminURL(n)
	}
	return w.single.AdminURL()
}

func (w *realWorld) process(n int) *rig.Process {
	if w.twin != nil {
		return w.twin.Broker(n)
	}
	return w.single.Process()
}

func (w *realWorld) Kill(_ *T, n int) { w.process(n).Kill() }

func (w *realWorld) Restart(t *T, n int) {
	t.Helper()
	if w.twin != nil {
		t.Must(w.twin.StartBroker(t.Context(), n))
	} else {
		t.Must(w.single.Start(t.Context()))
	}
}

func (w *realWorld) Pause(t *T, n int) {
	t.Helper()
	t.Must(w.process(n).Pause())
}

// Expire implements World.
func (w *realWorld) Expire(t *T, n int, topic string) {
	t.Helper()
	survivor := t.Connect(1 - n)
	t.Eventually("another broker serves", func() error {
		if r := survivor.LookUp(topic, false); r.GetBrokerServiceUrl() != "pulsar://"+t.Service(1-n) {
			return fmt.Errorf("look-up: %v", r)
		}
		return nil
	})
}

func (w *realWorld) Resume(t *T, n int) {
	t.Helper()
	t.Must(w.process(n).Resume())
}

// Move implements World, through REST.
func (w *realWorld) Move(t *T, topic string, to int) {
	t.Helper()
	admin := w.Admin(to)[len("http://"):]
	t.Must(t.Rig.Do(t.Context(), "PUT", fmt.Sprintf("namespaces/%s/0x00000000_0xffffffff/unload?destinationBroker=%s", t.Namespace, admin), nil, nil))
}

// gcRound is a little more than how often a broker looks for drained sealed segments.
const gcRound = 70 * time.Second

// Prune implements World: a broker's own timer is the one thing that is waited for by the clock.
func (w *realWorld) Prune(t *T, _ ...string) { t.Pass(gcRound) }

// CheckQuotas implements World.
func (w *realWorld) CheckQuotas(t *T) { t.Pass(65 * time.Second) }

// CheckCredentials implements World: see tokenSettings.
func (w *realWorld) CheckCredentials() {}

// DeleteIdle implements World: about 100 s were seen.
func (w *realWorld) DeleteIdle(t *T) { t.Pass(130 * time.Second) }

// Quiet implements World.
func (w *realWorld) Quiet(*Wire) { <-time.After(time.Second) }

// ReadOn implements World: nothing tells, so that a loaded broker has three times as long.
func (w *realWorld) ReadOn(*Wire) { <-time.After(3 * time.Second) }
