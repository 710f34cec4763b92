package conformance

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

// brokers is set by TestMain for a run against real ones; nil means embedded.
var brokers *real

func TestMain(m *testing.M) {
	// Most of the time is spent waiting: all scenarios wait together.
	flag.Parse()
	err := flag.Set("test.parallel", "64")
	code := 0
	switch {
	case err != nil:
	case os.Getenv("GEOBRIDGE_CONFORMANCE") != "real":
		goleak.VerifyTestMain(m)
		return
	default:
		code, err = runReal(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	os.Exit(code)
}

func runReal(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "geobridge-conformance-")
	if err != nil {
		return 1, err
	}
	defer func() {
		if code == 0 {
			err = errors.Join(err, os.RemoveAll(dir))
			return
		}
		fmt.Fprintln(os.Stderr, "conformance: logs and data are in", dir)
	}()
	if brokers, err = openReal(dir); err != nil {
		return 1, err
	}
	defer brokers.close()
	return m.Run(), nil
}

// TestConformance runs every scenario. Each kind of cluster is a group, whose scenarios run
// together first, and then those that may harm the brokers, one by one.
func TestConformance(t *testing.T) {
	secret := []byte("a secret of thirty-two bytes or so")
	for need, name := range []string{"one", "two", "tokens"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, alone := range []bool{false, true} {
				t.Run(map[bool]string{false: "together", true: "alone"}[alone], func(t *testing.T) {
					for _, s := range scenarios() {
						if s.Needs != Need(need) || s.Alone != alone {
							continue
						}
						t.Run(s.Name, func(t *testing.T) {
							if !alone || brokers == nil {
								t.Parallel()
							}
							s.Run(stage(t, s, secret))
						})
					}
				})
			}
		})
	}
}

// stage gives a scenario its cluster.
func stage(t *testing.T, s Scenario, secret []byte) *T {
	t.Helper()
	if s.Needs != Tokens {
		secret = nil
	}
	if brokers != nil {
		return newT(t, brokers.world(t, s.Needs, secret), s.Name, secret, brokers.turns)
	}
	n := 1
	if s.Needs == TwoBrokers {
		n = 2
	}
	return newT(t, newEmbedded(t, n, secret), s.Name, secret, nil)
}

// scenarios is the whole suite.
func scenarios() []Scenario {
	return slices.Concat(
		handshakeScenarios(),
		watchScenarios(),
		changeScenarios(),
		deletionScenarios(),
		startScenarios(),
		restScenarios(),
		regularScenarios(),
		twinScenarios(),
		tokenScenarios(),
		streamScenarios(),
		failoverScenarios(),
		publishScenarios(),
		sealScenarios(),
		keySharedScenarios(),
		dedupScenarios(),
		barrierScenarios(),
		scanScenarios(),
		guardScenarios(),
		emptyLogScenarios(),
	)
}
