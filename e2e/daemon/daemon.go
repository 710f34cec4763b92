// Package daemon runs the geobridge binary as a user runs it: a configuration
// file, the command, its endpoints, signals and logs.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/geobridge/geobridge/e2e/rig"
	"gopkg.in/yaml.v3"
)

// Config is a configuration as interface.md writes it, by key.
type Config map[string]any

// Cluster is the configuration of one cluster.
func Cluster(serviceURL, adminURL string) map[string]any {
	return map[string]any{"service_url": serviceURL, "admin_url": adminURL}
}

// Daemon is one instance of the binary: a configuration and, between Start and
// its end, a process. It may be started again after it has ended.
type Daemon struct {
	Name   string
	HTTP   string // http://host:port
	binary string
	spawn  *rig.Spawner
	config string
	proc   *rig.Process

	standIn *rig.Command // the naive bridge in the binary's place
}

// New writes config for an instance called name and picks its HTTP port.
// Nothing runs before Start.
func New(spawn *rig.Spawner, binary, name string, config Config) (*Daemon, error) {
	ports, err := rig.FreePorts(1)
	if err != nil {
		return nil, err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
	full := Config{"version": 1, "instance": name, "http": map[string]any{"listen": listen},
		"log": map[string]any{"level": "debug", "format": "text"}}
	for key, value := range config {
		full[key] = value
	}
	text, err := yaml.Marshal(full)
	if err != nil {
		return nil, err
	}
	d := &Daemon{Name: name, HTTP: "http://" + listen, binary: binary, spawn: spawn, config: filepath.Join(spawn.Dir(), name+".yaml")}
	return d, os.WriteFile(d.config, text, 0o600)
}

// Start starts the process; it does not wait for anything.
func (d *Daemon) Start() error {
	if d.proc != nil && d.proc.Alive() {
		return errors.New(d.Name + " runs already")
	}
	command := rig.Command{Name: d.Name, Path: d.binary, Args: []string{"run", "--config", d.config}}
	if d.standIn != nil {
		command = *d.standIn
	}
	proc, err := d.spawn.Start(command)
	d.proc = proc
	return err
}

// Command runs another command of the binary with the daemon's configuration. It
// returns the exit code, and what it wrote to stdout and stderr.
func (d *Daemon) Command(ctx context.Context, args ...string) (code int, stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, d.binary, append(args, "--config", d.config)...)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() >= 0 {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), out.String(), complaints.String(), err
}

// Process is the running process, or the last one.
func (d *Daemon) Process() *rig.Process { return d.proc }

// Terminate sends SIGTERM and waits for the end; it returns the exit code.
// A process that has not ended after patience is killed, which is an error.
func (d *Daemon) Terminate(patience time.Duration) (int, error) {
	code, killed := d.proc.Stop(patience)
	if killed {
		return code, fmt.Errorf("%s did not end within %v of SIGTERM", d.Name, patience)
	}
	return code, nil
}

// Kill is kill -9.
func (d *Daemon) Kill() { d.proc.Kill() }

// Log is the whole log of all its runs.
func (d *Daemon) Log() string {
	text, err := os.ReadFile(d.proc.LogPath)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Ask runs a command of the binary that asks this instance, and returns what it writes
// to stdout.
func (d *Daemon) Ask(ctx context.Context, args ...string) (stdout string, err error) {
	cmd := exec.CommandContext(ctx, d.binary, append(args, "--address", d.HTTP)...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, complaints.String())
	}
	return string(out), err
}

// Get reads an endpoint; any HTTP status is an answer.
func (d *Daemon) Get(ctx context.Context, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.HTTP+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// WaitReady polls /readyz until it answers 200; it gives up when the process
// has ended.
func (d *Daemon) WaitReady(ctx context.Context) error {
	if d.standIn != nil {
		return nil
	}
	return d.poll(ctx, func() error {
		status, body, err := d.Get(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz: %d %s", status, body)
		}
		return err
	})
}

// WaitReason polls /readyz until its body satisfies want.
func (d *Daemon) WaitReason(ctx context.Context, want func(body string) bool) (body string, err error) {
	err = d.poll(ctx, func() error {
		var err error
		_, body, err = d.Get(ctx, "/readyz")
		if err == nil && !want(body) {
			err = fmt.Errorf("/readyz says %s", body)
		}
		return err
	})
	return body, err
}

func (d *Daemon) poll(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-d.proc.Done():
			cancel(fmt.Errorf("%s ended with code %d:\n%s", d.Name, d.proc.ExitCode(), d.proc.Tail(3000)))
		case <-ctx.Done():
		}
	}()
	return rig.Poll(ctx, 100*time.Millisecond, check)
}

// StandIn reports whether the naive bridge runs in the binary's place.
func (d *Daemon) StandIn() bool { return d.standIn != nil }
