//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Some packages have tests that need a broker, and are skipped where none is named.
func TestLive(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	east, _, err := shared.pair(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for pkg, tests := range map[string]string{
		"layoutcache": "^TestLiveTopic$", "internal/pulsar": "^TestLiveStreamConsumers$", "internal/admin": "^TestLive(Scalable|Regular|Policies)$",
	} {
		t.Run(pkg, func(t *testing.T) {
			live(ctx, t, pkg, tests, "LIVE="+east.ServiceURL(), "LIVE_HTTP="+east.AdminURL())
		})
	}
}

// live runs tests of a package against the broker that the environment names.
func live(ctx context.Context, t *testing.T, pkg, tests string, environment ...string) {
	t.Helper()
	run := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", tests, "github.com/geobridge/geobridge/"+pkg)
	run.Env = append(os.Environ(), environment...)
	out, err := run.CombinedOutput()
	if text := string(out); err != nil || strings.Contains(text, "--- SKIP") || !strings.Contains(text, "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}
