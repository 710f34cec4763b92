//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// suite is what all scenarios share. Clusters are started when the first
// scenario asks for them.
type suite struct {
	box     rig.Toolbox
	spawner *rig.Spawner
	classes string // of the witness
	binary  string
	full    bool
	standIn bool

	mu    sync.Mutex
	east  *rig.Standalone
	west  *rig.Standalone
	wit   *witness.Witness
	count int
}

// shared is set by TestMain, the one thing that Go's tests can share by.
var shared *suite

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "geobridge-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() {
		if code == 0 && os.Getenv("GEOBRIDGE_E2E_KEEP") == "" {
			err = errors.Join(err, os.RemoveAll(dir))
			return
		}
		fmt.Fprintln(os.Stderr, "e2e: logs and data are in", dir)
	}()
	spawner := rig.NewSpawner(dir)
	defer spawner.Close()
	if shared, err = newSuite(spawner); err != nil {
		return 1, err
	}
	code = m.Run()
	shared.close()
	return code, nil
}

// close ends the first cluster in order, which leaves the class archive for
// the next run; the spawner kills the rest.
func (s *suite) close() {
	if s.east != nil && s.east.Process() != nil && s.east.Process().Alive() {
		s.east.Stop()
	}
}

func newSuite(spawner *rig.Spawner) (*suite, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	box, err := rig.OpenToolbox(ctx, witness.POM)
	if err != nil {
		return nil, err
	}
	classes, err := witness.Compile(ctx, box)
	if err != nil {
		return nil, err
	}
	full, _ := strconv.ParseBool(os.Getenv("GEOBRIDGE_E2E_FULL"))
	s := &suite{box: box, spawner: spawner, classes: classes, full: full, standIn: os.Getenv("GEOBRIDGE_E2E_STANDIN") == "java"}
	if !s.standIn {
		s.binary, err = binary(ctx, spawner.Dir())
	}
	return s, err
}

// binary is the program under test: GEOBRIDGE_E2E_BINARY, or one built from
// this module.
func binary(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv("GEOBRIDGE_E2E_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "geobridge")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/geobridge/geobridge/cmd/geobridge")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// pair returns the two standing clusters, started or started again where they
// do not run.
func (s *suite) pair(ctx context.Context) (east, west *rig.Standalone, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.east == nil {
		timers := []string{"messageExpiryCheckIntervalInMinutes=1", "backlogQuotaCheckIntervalInSeconds=10"} // 5 and 60
		if s.east, err = rig.NewStandalone(s.box, s.spawner, "east", timers...); err != nil {
			return nil, nil, err
		}
		if s.west, err = rig.NewStandalone(s.box, s.spawner, "west", timers...); err != nil {
			return nil, nil, err
		}
	}
	return s.east, s.west, startAll(ctx, s.east, s.west)
}

// startAll starts at the same time those clusters that do not run.
func startAll(ctx context.Context, clusters ...*rig.Standalone) error {
	failures := make([]error, len(clusters))
	var wait sync.WaitGroup
	for i, cluster := range clusters {
		if cluster.Process() != nil && cluster.Process().Alive() {
			continue
		}
		wait.Go(func() { failures[i] = cluster.Start(ctx) })
	}
	wait.Wait()
	return errors.Join(failures...)
}

// witness returns the standing Java program.
func (s *suite) witness() (*witness.Witness, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.wit == nil {
		s.wit, err = witness.Start(s.box, s.spawner, s.classes, "witness")
	}
	return s.wit, err
}

// serial numbers the scenes of a run, for names that must differ.
func (s *suite) serial() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return s.count
}
