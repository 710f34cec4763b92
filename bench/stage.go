package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

const (
	namespace = "public/bench"
	keys      = 400
)

// shape is what a backlog is made of.
type shape struct {
	name            string
	messages, batch int // in all, and up to so many in an entry
	size            int // of a value
}

// backlog is what every run of a comparison copies.
type backlog struct {
	topic   restadmin.Name
	entries int64
	bytes   int64 // stored
}

// contender is one way to copy.
type contender struct {
	name string
	// start starts it; its name and its subscription are free.
	start func(ctx context.Context, name string, from, to restadmin.Name) (*rig.Process, error)
}

// stage is two clusters, with backlogs on the first.
type stage struct {
	box        rig.Toolbox
	spawner    *rig.Spawner
	classes    string
	east, west *rig.Standalone
	eastAdmin  *restadmin.Client
	westAdmin  *restadmin.Client
	runs       int
}

func newStage(ctx context.Context, dir string) (*stage, error) {
	box, err := rig.OpenToolbox(ctx, witness.POM)
	if err != nil {
		return nil, err
	}
	box.Peak = true // brokers and the Java bridge at their best
	s := &stage{box: box, spawner: rig.NewSpawner(dir)}
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
	if err := s.namespaces(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) namespaces(ctx context.Context) error {
	return errors.Join(s.eastAdmin.CreateNamespace(ctx, namespace, "east", 0), s.westAdmin.CreateNamespace(ctx, namespace, "west", 0),
		s.eastAdmin.KeepAll(ctx, namespace)) // each run reads it from the start
}

func (s *stage) close() { s.spawner.Close() }

// fill publishes a backlog of values that do not compress.
func (s *stage) fill(ctx context.Context, sh shape) (*backlog, error) {
	b := &backlog{topic: restadmin.Name(namespace + "/" + sh.name)}
	if err := s.eastAdmin.CreateTopic(ctx, b.topic, 2, 2); err != nil {
		return nil, err
	}
	const counter = "counter"
	if err := s.eastAdmin.Subscribe(ctx, b.topic, counter); err != nil {
		return nil, err
	}
	w, err := witness.Start(s.box, s.spawner, s.classes, "witness-"+sh.name)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p, err := w.Produce(ctx, witness.Produce{URL: s.east.ServiceURL(), Topic: b.topic.Topic(), IDPrefix: "b", Keys: keys,
		Count: sh.messages, Size: sh.size, Random: true, BatchMessages: sh.batch, BatchDelayMs: 100})
	if err != nil {
		return nil, err
	}
	if err := p.WaitDone(ctx); err != nil {
		return nil, err
	}
	if b.entries, err = s.eastAdmin.Backlog(ctx, b.topic, counter); err != nil {
		return nil, err
	}
	b.bytes, err = s.eastAdmin.StorageSize(ctx, b.topic)
	return b, err
}

// daemon copies with a binary of geobridge.
func (s *stage) daemon(name, binary string, mapping map[string]any) contender {
	return contender{name, func(_ context.Context, name string, from, to restadmin.Name) (*rig.Process, error) {
		all := map[string]any{"name": "bench", "subscription": name,
			"from": map[string]any{"cluster": "east", "topic": from.Topic()}, "to": map[string]any{"cluster": "west", "topic": to.Topic()}}
		maps.Copy(all, mapping)
		d, err := daemon.New(s.spawner, binary, name, daemon.Config{
			"clusters": map[string]any{"east": daemon.Cluster(s.east.ServiceURL(), s.east.AdminURL()),
				"west": daemon.Cluster(s.west.ServiceURL(), s.west.AdminURL())},
			"mappings": []map[string]any{all},
			"log":      map[string]any{"level": "info"},
		})
		if err != nil {
			return nil, err
		}
		err = d.Start()
		return d.Process(), err
	}}
}

// java copies with the naive bridge.
func (s *stage) java() contender {
	return contender{"java", func(ctx context.Context, name string, from, to restadmin.Name) (*rig.Process, error) {
		if err := s.eastAdmin.Subscribe(ctx, from, name); err != nil {
			return nil, err
		}
		return s.spawner.Start(daemon.BridgeCommand(s.box, s.classes, name, s.east.ServiceURL(), from.Topic(),
			s.west.ServiceURL(), to.Topic(), name))
	}}
}

// run lets one copy the backlog into a fresh target topic, and deletes that.
func (s *stage) run(ctx context.Context, c contender, b *backlog) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("a run of %s took more than 5 minutes", c.name))
	defer cancel()
	s.runs++
	name := fmt.Sprintf("%s-%d", c.name, s.runs)
	target := restadmin.Name(namespace + "/by-" + name)
	if err := s.westAdmin.CreateTopic(ctx, target, 2, 2); err != nil {
		return result{}, err
	}
	p, err := c.start(ctx, name, b.topic, target)
	if err != nil {
		return result{}, err
	}
	defer p.Kill()
	r := result{who: c.name, entries: b.entries, bytes: b.bytes}
	if err := s.measure(ctx, &r, p, b, target, name); err != nil {
		return result{}, fmt.Errorf("%s: %w; end of its log:\n%s", c.name, err, p.Tail(3000))
	}
	if !p.Alive() {
		return result{}, fmt.Errorf("%s ended with code %d:\n%s", c.name, p.ExitCode(), p.Tail(3000))
	}
	p.Stop(30 * time.Second)
	r.cpu = p.CPU() - r.start // what the kernel says of the whole process
	return r, s.westAdmin.Delete(ctx, target)
}

// measure follows a run until the backlog is copied and acknowledged.
func (s *stage) measure(ctx context.Context, r *result, p *rig.Process, b *backlog, target restadmin.Name, subscription string) error {
	var first, last time.Time
	var stored int64
	err := rig.Poll(ctx, 25*time.Millisecond, func() error {
		if !p.Alive() {
			return nil
		}
		size, err := s.westAdmin.StorageSize(ctx, target)
		if err != nil {
			return err
		}
		if size != stored {
			stored, last = size, time.Now()
			if first.IsZero() {
				first = last
				if r.start, err = p.CPUNow(); err != nil {
					return err
				}
			}
		}
		if stored < b.bytes*9/10 {
			return fmt.Errorf("%d bytes stored", stored)
		}
		left, err := s.eastAdmin.Backlog(ctx, b.topic, subscription)
		if err == nil && left != 0 {
			err = fmt.Errorf("%d entries left", left)
		}
		return err
	})
	r.wall, r.stored = last.Sub(first), stored
	return err
}
