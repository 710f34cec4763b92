package rig

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// FreePorts returns n loopback ports that were free a moment ago. They are held open
// together while they are chosen, so they differ; and they lie below those that systems
// give to whoever asks for any: a cluster's are free for a while, when it is killed.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := 20_000 + rand.IntN(12_000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil && tries < 100 {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, port)
	}
	return ports, nil
}

// Poll calls check every interval until it returns nil, and returns its last
// error when ctx ends first.
func Poll(ctx context.Context, interval time.Duration, check func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// waitHealthy polls a broker's own health check, which produces and consumes
// one message, until it answers 200. It gives up when the process has ended.
func waitHealthy(ctx context.Context, p *Process, adminURL, token string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Done():
			cancel(fmt.Errorf("%s ended with code %d", p.Name, p.ExitCode()))
		case <-ctx.Done():
		}
	}()
	client := &http.Client{Timeout: 30 * time.Second}
	err := Poll(ctx, 250*time.Millisecond, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/admin/v2/brokers/health", nil)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("health check: %s", response.Status)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s is not healthy: %w; end of its log:\n%s", p.Name, err, p.Tail(3000))
	}
	return nil
}

// properties renders key=value lines, later settings winning.
func properties(settings ...string) string {
	values := map[string]string{}
	for _, line := range settings {
		key, value, _ := strings.Cut(line, "=")
		values[key] = value
	}
	var out strings.Builder
	for _, key := range sortedKeys(values) {
		fmt.Fprintf(&out, "%s=%s\n", key, values[key])
	}
	return out.String()
}

// waitPort waits until something listens on the loopback port, or p has ended.
func waitPort(ctx context.Context, p *Process, port int) error {
	return Poll(ctx, 100*time.Millisecond, func() error {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err == nil {
			return conn.Close()
		}
		if !p.Alive() {
			return fmt.Errorf("%s ended with code %d:\n%s", p.Name, p.ExitCode(), p.Tail(3000))
		}
		return err
	})
}
