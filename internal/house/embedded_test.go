package house

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestEmbeddedClusterStaysOut: nothing of the embedded cluster, nor of what runs on
// it, is reachable from the daemon.
func TestEmbeddedClusterStaysOut(t *testing.T) {
	for _, root := range []string{"internal/bridge", "internal/httpapi", "internal/status", "config", "replicate", "layoutcache", "internal/pulsar", "internal/admin"} {
		out, err := exec.Command("go", "list", "-deps", module+root).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", root, err)
		}
		for _, dep := range strings.Fields(string(out)) {
			folder, ours := strings.CutPrefix(dep, module)
			for _, out := range []string{"internal/pulsartest", "internal/twosides", "internal/demo", "internal/keyorder", "internal/ladder", "internal/conformance"} {
				if ours && (folder == out || strings.HasPrefix(folder, out+"/")) {
					t.Errorf("%s depends on %s", root, folder)
				}
			}
		}
	}
}

// TestWhoUsesTheEmbeddedCluster: beside tests, only what is made to. The command
// reaches it through the demo alone.
func TestWhoUsesTheEmbeddedCluster(t *testing.T) {
	users := map[string][]string{
		"internal/pulsartest": {"internal/twosides", "internal/demo", "internal/ladder", "internal/conformance"},
		"internal/twosides":   {},
		"internal/demo":       {"cmd/geobridge"},
		"internal/keyorder":   {"internal/demo", "internal/ladder", "e2e", "bench"},
		"internal/ladder":     {},
	}
	for _, p := range listPackages(t) {
		from, _ := rowOf(strings.TrimPrefix(p.ImportPath, module))
		for _, path := range p.Imports {
			imported, _ := rowOf(strings.TrimPrefix(path, module))
			allowed, guarded := users[imported]
			if guarded && from != imported && !slices.Contains(allowed, from) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
}
