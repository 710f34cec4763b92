package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

const (
	namespace = "public/bench"
	backlog   = restadmin.Name(namespace + "/backlog")
	valueSize = 1000
	keys      = 400
)

// stage is two clusters with a backlog on the first.
type stage struct {
	box        rig.Toolbox
	spawner    *rig.Spawner
	classes    string
	binary     string
	east, west *rig.Standalone
	eastAdmin  *restadmin.Client
	westAdmin  *restadmin.Client
	entries    int64
	bytes      int64
}

func newStage(ctx context.Context, dir, binary string) (*stage, error) {
	box, err := rig.OpenToolbox(ctx, witness.POM)
	if err != nil {
		return nil, err
	}
	box.Peak = true // brokers and the Java bridge at their best
	s := &stage{box: box, spawner: rig.NewSpawner(dir), binary: binary}
	if s.classes, err = witness.Compile(ctx, box); err != nil {
		return nil, err
	}
	if s.east, err = rig.NewStandalone(box, s.spawner, "east"); err != nil {
		return nil, err
	}
	if s.west, err = rig.NewStandalone(box, s.spawner, "west"); err != nil {
		return nil, err
	}
	var started sync.WaitGroup
	failures := make([]error, 2)
	for i, cluster := range []*rig.Standalone{s.east, s.west} {
		started.Go(func() { failures[i] = cluster.Start(ctx) })
	}
	started.Wait()
	if err := errors.Join(failures...); err != nil {
		s.close()
		return nil, err
	}
	s.eastAdmin, s.westAdmin = restadmin.New(s.east.AdminURL()), restadmin.New(s.west.AdminURL())
	return s, nil
}

func (s *stage) close() { s.spawner.Close() }

// fill publishes the backlog: values that do not compress, batches of up to
// 100.
func (s *stage) fill(ctx context.Context, mb int) error {
	if err := s.eastAdmin.CreateNamespace(ctx, namespace, "east", 0); err != nil {
		return err
	}
	if err := s.westAdmin.CreateNamespace(ctx, namespace, "west", 0); err != nil {
		return err
	}
	if err := s.eastAdmin.KeepAll(ctx, namespace); err != nil { // each run reads it from the start
		return err
	}
	if err := s.eastAdmin.CreateTopic(ctx, backlog, 2, 2); err != nil {
		return err
	}
	const counter = "counter"
	if err := s.eastAdmin.Subscribe(ctx, backlog, counter); err != nil {
		return err
	}
	w, err := witness.Start(s.box, s.spawner, s.classes, "witness")
	if err != nil {
		return err
	}
	defer w.Close()
	p, err := w.Produce(ctx, witness.Produce{URL: s.east.ServiceURL(), Topic: backlog.Topic(), IDPrefix: "b", Keys: keys,
		Count: mb * 1e6 / valueSize, Size: valueSize, Random: true, BatchMessages: 100, BatchDelayMs: 100})
	if err != nil {
		return err
	}
	if err := p.WaitDone(ctx); err != nil {
		return err
	}
	if s.entries, err = s.eastAdmin.Backlog(ctx, backlog, counter); err != nil {
		return err
	}
	s.bytes, err = s.eastAdmin.StorageSize(ctx, backlog)
	return err
}

// geobridge copies the backlog with the binary.
func (s *stage) geobridge(ctx context.Context, pair int) (result, error) {
	target := restadmin.Name(fmt.Sprintf("%s/by-geobridge-%d", namespace, pair))
	subscription := fmt.Sprintf("geobridge-%d", pair)
	d, err := daemon.New(s.spawner, s.binary, fmt.Sprintf("geobridge-%d", pair), daemon.Config{
		"clusters": map[string]any{"east": daemon.Cluster(s.east.ServiceURL(), s.east.AdminURL()),
			"west": daemon.Cluster(s.west.ServiceURL(), s.west.AdminURL())},
		"mappings": []map[string]any{{"name": "bench", "subscription": subscription,
			"from": map[string]any{"cluster": "east", "topic": backlog.Topic()},
			"to":   map[string]any{"cluster": "west", "topic": target.Topic()}}},
		"log": map[string]any{"level": "info"},
	})
	if err != nil {
		return result{}, err
	}
	return s.measure(ctx, "geobridge", target, subscription, func() (*rig.Process, error) {
		err := d.Start()
		return d.Process(), err
	})
}

// java copies the backlog with the naive bridge.
func (s *stage) java(ctx context.Context, pair int) (result, error) {
	target := restadmin.Name(fmt.Sprintf("%s/by-java-%d", namespace, pair))
	subscription := fmt.Sprintf("java-%d", pair)
	return s.measure(ctx, "java", target, subscription, func() (*rig.Process, error) {
		if err := s.eastAdmin.Subscribe(ctx, backlog, subscription); err != nil {
			return nil, err
		}
		return s.spawner.Start(daemon.BridgeCommand(s.box, s.classes, subscription, s.east.ServiceURL(), backlog.Topic(),
			s.west.ServiceURL(), target.Topic(), subscription))
	})
}

// measure runs one bridge into a fresh target topic until the backlog is
// copied, and deletes the topic.
func (s *stage) measure(ctx context.Context, who string, target restadmin.Name, subscription string, start func() (*rig.Process, error)) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("a run of %s took more than 5 minutes", who))
	defer cancel()
	if err := s.westAdmin.CreateTopic(ctx, target, 2, 2); err != nil {
		return result{}, err
	}
	p, err := start()
	if err != nil {
		return result{}, err
	}
	defer p.Kill()
	r := result{who: who, entries: s.entries, bytes: s.bytes}
	var first, last time.Time
	var stored int64
	err = rig.Poll(ctx, 25*time.Millisecond, func() error {
		if !p.Alive() {
			return nil
		}
		size, err := s.westAdmin.StorageSize(ctx, target)
		if err != nil {
			return err
		}
		cpu, err := p.CPUNow()
		if err != nil {
			return err
		}
		if size != stored {
			stored, last = size, time.Now()
			if first.IsZero() {
				first, r.start = last, cpu
			}
			r.cpu = cpu - r.start
		}
		if stored < s.bytes*9/10 {
			return fmt.Errorf("%d bytes stored", stored)
		}
		left, err := s.eastAdmin.Backlog(ctx, backlog, subscription)
		if err == nil && left != 0 {
			err = fmt.Errorf("%d entries left", left)
		}
		return err
	})
	if err != nil {
		return result{}, fmt.Errorf("%s: %w; end of its log:\n%s", who, err, p.Tail(3000))
	}
	if !p.Alive() {
		return result{}, fmt.Errorf("%s ended with code %d:\n%s", who, p.ExitCode(), p.Tail(3000))
	}
	r.wall = last.Sub(first)
	p.Stop(30 * time.Second)
	return r, s.westAdmin.Delete(ctx, target)
}
