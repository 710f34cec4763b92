//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"sync"
)

// problems are what a scene has complained of. They are said once more at its end: the
// status and the logs that come between are long, and who reads a CI run's output may get
// the end of it alone.
type problems struct {
	mu  sync.Mutex
	all []string
}

func (p *problems) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, text)
}

func (p *problems) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.all, "\n")
}

// Error, Errorf, Fatal and Fatalf are testing.T's, and remembered.

func (s *scene) Error(args ...any) {
	s.Helper()
	s.Errorf("%s", line(args))
}

func (s *scene) Errorf(format string, args ...any) {
	s.Helper()
	s.problems.add(fmt.Sprintf(format, args...))
	s.T.Errorf(format, args...)
}

func (s *scene) Fatal(args ...any) {
	s.Helper()
	s.Fatalf("%s", line(args))
}

func (s *scene) Fatalf(format string, args ...any) {
	s.Helper()
	s.problems.add(fmt.Sprintf(format, args...))
	s.T.Fatalf(format, args...)
}

func line(args []any) string { return strings.TrimSuffix(fmt.Sprintln(args...), "\n") }

func (s *scene) showLogs() {
	if s.Failed() {
		s.Logf("all logs are in %s\nfailed because of:\n%s", s.suite.spawner.Dir(), s.problems)
	}
}
