package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// startPatience bounds the start of one process of a cluster. A standalone
// needs 6 to 20 s of CPU time; the cores may be shared with other work.
const startPatience = 5 * time.Minute

// Standalone is a cluster in one JVM: broker, bookie and metadata (RocksDB).
// Its ports and data survive Stop, Kill and Start.
type Standalone struct {
	Name    string
	Token   string // of a superuser, where the cluster asks for one
	ports   []int  // broker, admin, bookie
	dir     string
	box     Toolbox
	spawner *Spawner
	proc    *Process
	keep    func() error // the class archive that an orderly end leaves
}

// NewStandalone lays out a cluster called name; Start starts it. Extra are
// further lines of its configuration, key=value.
func NewStandalone(box Toolbox, spawner *Spawner, name string, extra ...string) (*Standalone, error) {
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	s := &Standalone{Name: name, ports: ports, box: box, spawner: spawner, dir: filepath.Join(spawner.Dir(), name)}
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return nil, err
	}
	text := properties(append(brokerSettings(name, ports[0], ports[1]), extra...)...)
	return s, os.WriteFile(s.config(), []byte(text), 0o600)
}

// brokerSettings are the settings that every broker of the rig shares: one
// replica, loopback, small caches, no synchronous journal.
func brokerSettings(cluster string, broker, admin int) []string {
	return []string{
		"clusterName=" + cluster,
		fmt.Sprintf("brokerServicePort=%d", broker),
		fmt.Sprintf("webServicePort=%d", admin),
		"advertisedAddress=127.0.0.1", "bindAddress=127.0.0.1", "allowLoopback=true",
		"managedLedgerDefaultEnsembleSize=1", "managedLedgerDefaultWriteQuorum=1", "managedLedgerDefaultAckQuorum=1",
		"managedLedgerCacheSizeMB=128", "loadBalancerEnabled=false", "webSocketServiceEnabled=false",
		"journalSyncData=false", "diskUsageThreshold=0.99",
		"dbStorage_writeCacheMaxSizeMb=64", "dbStorage_readAheadCacheMaxSizeMb=32",
	}
}

func (s *Standalone) config() string { return filepath.Join(s.dir, "standalone.conf") }

// ServiceURL is the pulsar:// address.
func (s *Standalone) ServiceURL() string { return fmt.Sprintf("pulsar://127.0.0.1:%d", s.ports[0]) }

// AdminURL is the http:// address.
func (s *Standalone) AdminURL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.ports[1]) }

// Process is the running JVM, or the last one.
func (s *Standalone) Process() *Process { return s.proc }

// Start starts the cluster, for the first time or again, and waits until it is
// healthy.
func (s *Standalone) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	command, keep := s.box.archived(JVM{
		Name: s.Name, Heap: 800, Dir: s.dir, Main: "org.apache.pulsar.PulsarStandaloneStarter",
		Args: []string{"--config", s.config(), "--metadata-dir", filepath.Join(s.dir, "metadata"),
			"--bookkeeper-dir", filepath.Join(s.dir, "bookkeeper"), "--bookkeeper-port", fmt.Sprint(s.ports[2]),
			"--no-functions-worker", "--no-stream-storage", "--advertised-address", "127.0.0.1"},
	})
	proc, err := s.spawner.Start(command)
	if err != nil {
		return err
	}
	s.proc, s.keep = proc, keep
	return waitHealthy(ctx, proc, s.AdminURL(), s.Token)
}

// Stop ends it with SIGTERM.
func (s *Standalone) Stop() {
	if _, killed := s.proc.Stop(60 * time.Second); !killed {
		_ = s.keep() // without it the next start is slower, no more
	}
}

// Kill ends it with SIGKILL.
func (s *Standalone) Kill() { s.proc.Kill() }
