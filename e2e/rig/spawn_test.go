package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func spawn(t *testing.T, name, script string) *Process {
	t.Helper()
	s := NewSpawner(t.TempDir())
	t.Cleanup(s.Close)
	p, err := s.Start(Command{Name: name, Path: "/bin/sh", Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcessExit(t *testing.T) {
	tests := []struct {
		name, script, log string
		code              int
	}{
		{"code", "echo out; echo err >&2; exit 3", "out\nerr\n", 3},
		{"zero", "exit 0", "", 0},
		{"signal", "kill -9 $$", "", -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := spawn(t, test.name, test.script)
			code, err := p.Wait(t.Context())
			if err != nil || code != test.code || p.Tail(100) != test.log {
				t.Errorf("code %d, %v, log %q; want %d and %q", code, err, p.Tail(100), test.code, test.log)
			}
			if err := p.Signal(syscall.SIGTERM); err == nil {
				t.Error("an ended process takes a signal")
			}
		})
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	p := spawn(t, "stubborn", `trap "" TERM; echo ready; while :; do sleep 0.05; done`)
	waitLog(t, p, "ready")
	if _, killed := p.Stop(200 * time.Millisecond); !killed || p.Alive() {
		t.Errorf("killed %v, alive %v", killed, p.Alive())
	}
}

func TestPauseAndResume(t *testing.T) {
	p := spawn(t, "counter", "n=0; while :; do n=$((n+1)); echo $n; sleep 0.02; done")
	waitLog(t, p, "2\n")
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	waitState(t, p, " T ")
	stopped := p.Tail(100)
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := Poll(t.Context(), 5*time.Millisecond, func() error {
		if p.Tail(100) == stopped {
			return os.ErrDeadlineExceeded
		}
		return nil
	}); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
}

// waitState waits until the kernel reports the process in a state.
func waitState(t *testing.T, p *Process, state string) {
	t.Helper()
	if err := Poll(t.Context(), 5*time.Millisecond, func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err == nil && !strings.Contains(string(text), state) {
			err = os.ErrNotExist
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestKillEndsTheGroup(t *testing.T) {
	p := spawn(t, "parent", `sleep 60 & echo $!; wait`)
	waitLog(t, p, "\n")
	child := strings.TrimSpace(p.Tail(100))
	p.Kill()
	err := Poll(t.Context(), 10*time.Millisecond, func() error {
		state, err := os.ReadFile(filepath.Join("/proc", child, "stat"))
		if err != nil || strings.Contains(string(state), ") Z ") {
			return nil // gone, or waiting for init to notice
		}
		return context.DeadlineExceeded
	})
	if err != nil {
		t.Errorf("the child lives on: %v", err)
	}
}

func waitLog(t *testing.T, p *Process, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := Poll(ctx, 5*time.Millisecond, func() error {
		if !strings.Contains(p.Tail(1000), text) {
			return os.ErrNotExist
		}
		return nil
	}); err != nil {
		t.Fatalf("no %q in the log: %v", text, err)
	}
}

func TestOnceIsCompleteOrAbsent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "jars")
	if err := Once(dir, func(string) error { return os.ErrInvalid }); err == nil {
		t.Error("a failed filling counts")
	}
	fills := 0
	fill := func(fresh string) error {
		fills++
		return os.WriteFile(filepath.Join(fresh, "a.jar"), nil, 0o600)
	}
	for range 2 {
		if err := Once(dir, fill); err != nil {
			t.Fatal(err)
		}
	}
	if fills != 1 || !isFile(filepath.Join(dir, "a.jar")) {
		t.Errorf("filled %d times", fills)
	}
}

func TestPropertiesLaterWins(t *testing.T) {
	if got, want := properties("b=1", "a=x=y", "b=2"), "a=x=y\nb=2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
