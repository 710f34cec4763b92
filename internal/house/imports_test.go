package house

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/geobridge/geobridge/"

// importTable says which packages of this module each folder may import beside its own; "..." is everything.
// It is the table of ARCHITECTURE.md: change both or neither.
func importTable() map[string][]string {
	wire := []string{"internal/pulsar/frame", "internal/pulsar/pulsarpb"}
	return map[string][]string{
		"cmd/geobridge":            {"..."},
		"config":                   {},
		"reroute":                  {},
		"layoutcache":              {"reroute"},
		"replicate":                append([]string{"reroute", "layoutcache", "internal/pulsar"}, wire...),
		"internal/pulsar/pulsarpb": {},
		"internal/pulsar/frame":    {"internal/pulsar/pulsarpb"},
		"internal/pulsar":          wire,
		"internal/pulsartest":      wire, // never internal/pulsar: a shared mistake would agree with itself
		"internal/twosides":        {"internal/pulsar", "internal/pulsartest"},
		"internal/admin":           {},
		"internal/status":          {},
		"internal/httpapi":         {"internal/status"},
		"internal/house":           {},
		"internal/bridge": {"config", "reroute", "layoutcache", "replicate", "internal/pulsar", "internal/admin",
			"internal/status"}, // and nothing of the embedded cluster
		"internal/keyorder": {},
		"internal/verify":   append([]string{"reroute", "replicate", "internal/pulsar"}, wire...),
		"internal/demo": append([]string{"config", "reroute", "replicate", "internal/bridge", "internal/status", "internal/pulsar",
			"internal/pulsartest", "internal/keyorder"}, wire...),
		"internal/ladder": append([]string{"config", "reroute", "replicate", "internal/bridge", "internal/status", "internal/pulsar",
			"internal/pulsartest", "internal/keyorder"}, wire...),
		"internal/conformance": append([]string{"reroute", "internal/pulsar", "internal/admin", "internal/pulsartest",
			"e2e/restadmin", "e2e/rig", "e2e/witness"}, wire...),
		"e2e": append([]string{"reroute", "internal/pulsar", "internal/admin", "internal/keyorder"}, wire...),
		"bench": append([]string{"reroute", "internal/pulsar", "internal/admin", "internal/keyorder",
			"e2e/daemon", "e2e/restadmin", "e2e/rig", "e2e/witness"}, wire...), // one row with e2e: its brokers and its witness
	}
}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImportTable(t *testing.T) {
	for _, p := range listPackages(t) {
		folder := strings.TrimPrefix(p.ImportPath, module)
		row, known := rowOf(folder)
		if !known {
			t.Errorf("%s has no row in the import table: add one, here and in ARCHITECTURE.md", folder)
			continue
		}
		for _, path := range p.Imports {
			imported, ours := strings.CutPrefix(path, module)
			if ours && !mayImport(row, imported) {
				t.Errorf("%s imports %s: its row in the import table does not allow it", folder, imported)
			}
		}
	}
}

func TestMayImport(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     bool
	}{
		{"cmd/geobridge", "replicate", true},
		{"config", "reroute", false},
		{"replicate", "replicate/verify", true},
		{"replicate/verify", "replicate", true},
		{"replicate", "internal/admin", false},
		{"replicate", "internal/pulsar/frame", true},
		{"internal/pulsar", "internal/pulsar/frame", true},
		{"internal/pulsar/frame", "internal/pulsar", false},
		{"internal/pulsartest", "internal/pulsar", false},
		{"layoutcache", "reroute", true},
		{"reroute", "layoutcache", false},
	} {
		row, known := rowOf(tt.from)
		if got := known && mayImport(row, tt.to); got != tt.want {
			t.Errorf("%s imports %s: %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

// rowOf finds the row of the nearest folder above.
func rowOf(folder string) (row string, known bool) {
	for {
		if _, ok := importTable()[folder]; ok {
			return folder, true
		}
		up := strings.LastIndexByte(folder, '/')
		if up < 0 {
			return "", false
		}
		folder = folder[:up]
	}
}

func mayImport(row, imported string) bool {
	if to, _ := rowOf(imported); to == row {
		return true
	}
	for _, allowed := range importTable()[row] {
		if allowed == "..." || allowed == imported {
			return true
		}
	}
	return false
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-tags", "e2e", "-json=ImportPath,Imports", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	var all []listed
	for dec := json.NewDecoder(bufio.NewReader(bytes.NewReader(out))); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
