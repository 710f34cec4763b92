package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Twin is a cluster of two brokers, a bookie and ZooKeeper, a process each.
type Twin struct {
	Name    string
	ports   []int // broker 1, broker 2, admin 1, admin 2, bookie, ZooKeeper
	dir     string
	box     Toolbox
	spawner *Spawner
	extra   []string
	zk, bk  *Process
	brokers [2]*Process
}

// NewTwin lays out a cluster called name; Start starts it. Extra are further
// lines of both brokers' configuration.
func NewTwin(box Toolbox, spawner *Spawner, name string, extra ...string) (*Twin, error) {
	ports, err := FreePorts(6)
	if err != nil {
		return nil, err
	}
	t := &Twin{Name: name, ports: ports, box: box, spawner: spawner, extra: extra, dir: filepath.Join(spawner.Dir(), name)}
	return t, os.MkdirAll(t.dir, 0o750)
}

// ServiceURL names both brokers; BrokerURL one of them (0 or 1).
func (t *Twin) ServiceURL() string {
	return fmt.Sprintf("pulsar://127.0.0.1:%d,127.0.0.1:%d", t.ports[0], t.ports[1])
}

// BrokerURL is the pulsar:// address of broker n (0 or 1).
func (t *Twin) BrokerURL(n int) string { return fmt.Sprintf("pulsar://127.0.0.1:%d", t.ports[n]) }

// AdminURL is the http:// address of broker n (0 or 1).
func (t *Twin) AdminURL(n int) string { return fmt.Sprintf("http://127.0.0.1:%d", t.ports[2+n]) }

// Broker is the process of broker n (0 or 1).
func (t *Twin) Broker(n int) *Process { return t.brokers[n] }

func (t *Twin) zookeeper() string { return fmt.Sprintf("127.0.0.1:%d", t.ports[5]) }

// Start starts all four processes and waits until both brokers are healthy.
func (t *Twin) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*startPatience)
	defer cancel()
	steps := []func(context.Context) error{t.startZooKeeper, t.writeMetadata, t.startBookie}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for n := range t.brokers {
		if err := t.spawnBroker(n); err != nil {
			return err
		}
	}
	for n, proc := range t.brokers {
		if err := waitHealthy(ctx, proc, t.AdminURL(n), ""); err != nil {
			return err
		}
	}
	return nil
}

func (t *Twin) startZooKeeper(ctx context.Context) error {
	config := properties("tickTime=2000", "dataDir="+filepath.Join(t.dir, "zookeeper"), "clientPortAddress=127.0.0.1",
		fmt.Sprintf("clientPort=%d", t.ports[5]), "admin.enableServer=false")
	path := filepath.Join(t.dir, "zookeeper.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	var err error
	t.zk, err = t.spawner.Start(t.box.Command(JVM{Name: t.Name + "-zookeeper", Heap: 128, Dir: t.dir,
		Main: "org.apache.zookeeper.server.quorum.QuorumPeerMain", Args: []string{path}}))
	if err != nil {
		return err
	}
	return waitPort(ctx, t.zk, t.ports[5])
}

func (t *Twin) writeMetadata(ctx context.Context) error {
	setup, err := t.spawner.Start(t.box.Command(JVM{Name: t.Name + "-setup", Heap: 128, Dir: t.dir,
		Main: "org.apache.pulsar.PulsarClusterMetadataSetup", Args: []string{"--cluster", t.Name,
			"--metadata-store", "zk:" + t.zookeeper(), "--configuration-metadata-store", "zk:" + t.zookeeper(),
			"--web-service-url", t.AdminURL(0), "--broker-service-url", t.BrokerURL(0)}}))
	if err != nil {
		return err
	}
	code, err := setup.Wait(ctx)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("%s ended with %d:\n%s", setup.Name, code, setup.Tail(3000))
	}
	return nil
}

func (t *Twin) startBookie(ctx context.Context) error {
	config := properties(fmt.Sprintf("bookiePort=%d", t.ports[4]), "advertisedAddress=127.0.0.1", "allowLoopback=true",
		"journalDirectory="+filepath.Join(t.dir, "journal"), "ledgerDirectories="+filepath.Join(t.dir, "ledgers"),
		"metadataServiceUri=metadata-store:zk:"+t.zookeeper(), "journalSyncData=false", "httpServerEnabled=false",
		"diskUsageThreshold=0.99", "diskUsageWarnThreshold=0.98", "nettyMaxFrameSizeBytes=5253120",
		"ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
		"dbStorage_writeCacheMaxSizeMb=64", "dbStorage_readAheadCacheMaxSizeMb=32")
	path := filepath.Join(t.dir, "bookie.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	var err error
	t.bk, err = t.spawner.Start(t.box.Command(JVM{Name: t.Name + "-bookie", Heap: 400, Dir: t.dir,
		Main: "org.apache.bookkeeper.server.Main", Args: []string{"--conf", path}, System: metadataDrivers}))
	if err != nil {
		return err
	}
	return waitPort(ctx, t.bk, t.ports[4])
}

// metadataDrivers let BookKeeper understand "metadata-store:" addresses.
var metadataDrivers = []string{
	"bookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
	"bookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
}

func (t *Twin) spawnBroker(n int) error {
	settings := append(brokerSettings(t.Name, t.ports[n], t.ports[2+n]),
		"metadataStoreUrl=zk:"+t.zookeeper(), "configurationMetadataStoreUrl=zk:"+t.zookeeper(),
		"loadBalancerEnabled=true", "loadBalancerSheddingEnabled=false", "loadBalancerAutoBundleSplitEnabled=false",
		"defaultNumberOfNamespaceBundles=8", "managedLedgerCacheSizeMB=64")
	path := filepath.Join(t.dir, fmt.Sprintf("broker%d.conf", n+1))
	if err := os.WriteFile(path, []byte(properties(append(settings, t.extra...)...)), 0o600); err != nil {
		return err
	}
	var err error
	t.brokers[n], err = t.spawner.Start(t.box.Command(JVM{Name: fmt.Sprintf("%s-broker%d", t.Name, n+1), Heap: 600, Dir: t.dir,
		Main: "org.apache.pulsar.PulsarBrokerStarter", Args: []string{"--broker-conf", path}, System: metadataDrivers}))
	return err
}

// StartBroker starts broker n (0 or 1) again and waits until it is healthy.
func (t *Twin) StartBroker(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := t.spawnBroker(n); err != nil {
		return err
	}
	return waitHealthy(ctx, t.brokers[n], t.AdminURL(n), "")
}

// Stop ends all four processes, brokers first.
func (t *Twin) Stop() {
	for _, p := range []*Process{t.brokers[0], t.brokers[1], t.bk, t.zk} {
		if p != nil {
			p.Stop(20 * time.Second)
		}
	}
}
