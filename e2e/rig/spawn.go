package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spawner starts processes and ends them all at Close. It starts each from one
// OS thread that lives as long as the test binary: Linux delivers the
// parent-death signal when the *thread* that forked ends, and the Go runtime
// ends threads as it likes.
type Spawner struct {
	dir    string
	starts chan func()
	mu     sync.Mutex
	all    []*Process
}

// NewSpawner returns a Spawner that keeps the output of its processes in dir.
// It owns one goroutine, locked to a thread, until the program ends.
func NewSpawner(dir string) *Spawner {
	s := &Spawner{dir: dir, starts: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: see above
		for start := range s.starts {
			start()
		}
	}()
	return s
}

// Dir is the folder of logs and data.
func (s *Spawner) Dir() string { return s.dir }

// Command describes a process to start. Exactly one of Stdout and the log file
// takes its standard output.
type Command struct {
	Name   string // names the log file
	Path   string
	Args   []string
	Dir    string
	Env    []string // added to the test's own
	Stdin  io.Reader
	Stdout io.Writer // nil: the log file
}

// Process is one started process. Its methods may be used concurrently.
type Process struct {
	Name    string
	LogPath string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // of Wait; readable once done is closed
}

// Start starts c. Its output is appended to <dir>/<name>.log.
func (s *Spawner) Start(c Command) (*Process, error) {
	p := &Process{Name: c.Name, LogPath: filepath.Join(s.dir, c.Name+".log"), done: make(chan struct{})}
	logFile, err := os.OpenFile(p.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() // the child has its own descriptor
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stderr, p.cmd.Stdout = c.Dir, c.Stdin, logFile, c.Stdout
	if c.Stdout == nil {
		p.cmd.Stdout = logFile
	}
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	s.starts <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	s.mu.Lock()
	s.all = append(s.all, p)
	s.mu.Unlock()
	return p, nil
}

// Close kills every process that still runs, newest first.
func (s *Spawner) Close() {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, p := range slices.Backward(all) {
		p.Kill()
	}
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether it has not ended yet.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends sig to the process alone.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("%s has ended", p.Name)
	}
	return p.cmd.Process.Signal(sig)
}

// Kill sends SIGKILL to the process group and waits for the end.
func (p *Process) Kill() {
	if !p.Alive() {
		return
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	<-p.done
}

// Pause stops the process with SIGSTOP, Resume lets it go on.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Stop sends SIGTERM and waits; after patience it kills. It returns the exit
// code (-1 if a signal ended it) and whether patience ran out.
func (p *Process) Stop(patience time.Duration) (code int, killed bool) {
	_ = p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
		killed = true
	}
	return p.ExitCode(), killed
}

// Wait blocks until the process ends or ctx does.
func (p *Process) Wait(ctx context.Context) (code int, err error) {
	select {
	case <-p.done:
		return p.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s still runs: %w", p.Name, context.Cause(ctx))
	}
}

// ExitCode is the exit code of an ended process, -1 if a signal ended it or if
// it still runs.
func (p *Process) ExitCode() int {
	if p.Alive() {
		return -1
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return exit.ExitCode()
	}
	if p.err != nil {
		return -1
	}
	return 0
}

// CPU is the user and system time that an ended process took.
func (p *Process) CPU() time.Duration {
	if p.Alive() {
		return 0
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Tail returns the last bytes of the log.
func (p *Process) Tail(n int) string {
	text, err := os.ReadFile(p.LogPath)
	if err != nil {
		return err.Error()
	}
	return string(tail(text, n))
}

func tail(text []byte, n int) []byte {
	if len(text) > n {
		return text[len(text)-n:]
	}
	return text
}

// CPUNow is the user and system time that a running process has taken so far,
// at the kernel's resolution of 10 ms.
func (p *Process) CPUNow() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, err
	}
	// The command's name, in parentheses, may hold anything: the fields count
	// from the last one on. utime and stime are fields 14 and 15.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s: /proc stat is %q", p.Name, text)
	}
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux of today
	return time.Duration(user+system) * tick, errors.Join(errUser, errSystem)
}
