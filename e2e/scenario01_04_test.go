//go:build e2e

package e2e_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/witness"
)

// Aligned layouts: every entry is forwarded whole and unopened.
func TestScenario01AlignedWhole(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	for _, at := range []site{s.east, s.west} {
		s.must(at.admin.KeepAll(s.ctx, s.namespace))
		s.create(at, "orders", 2, 2)
	}
	n := s.name("orders")
	reader := s.consume(s.west, n, 3)
	d := s.run(s.mapping("aligned", s.east, s.west, "orders"))
	perCodec := byMode(s, 5_000, 100_000)
	for _, codec := range []string{"NONE", "LZ4", "ZSTD"} {
		s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: codec, KeyPrefix: codec, Keys: 70, Count: perCodec, Rate: 5_000,
			Compression: codec, KeylessEvery: 25, Properties: map[string]string{"colour": "green"}}, reader)
	}
	s.verdict(reader)

	from, to := flat(s.dump(s.east, n)), s.dump(s.west, n)
	layout, err := s.west.admin.Layout(s.ctx, n)
	s.must(err)
	s.Logf("%d entries", len(from))
	s.checkRouting(layout, to)
	s.checkMarks(flat(to))
	s.checkWhole(from, flat(to))
	m := s.settledMetrics(d, float64(len(from)))
	for name, want := range map[string]float64{"opened_entries_total": 0, "split_parts_total": 0, "reroutes_total": 0,
		"messages_total": float64(3 * perCodec), "entries_total": float64(len(from)), "parked_entries": 0} {
		if got := m.Sum(name, "mapping=aligned"); got != want {
			s.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := m.Sum("entries_total", "outcome=whole"); got != float64(len(from)) {
		s.Errorf("%v entries whole, want all %d", got, len(from))
	}
}

// Layouts that share no boundary, every codec: entries are split and stay in
// order.
func TestScenario02CrossLayouts(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	s.must(s.west.admin.KeepAll(s.ctx, s.namespace))
	n := s.create(s.east, "orders", 2, 2)
	s.create(s.west, "orders", 3, 4)
	reader := s.consume(s.west, n, 7)
	d := s.run(s.mapping("crossing", s.east, s.west, "orders"))
	perCodec := byMode(s, 8_000, 80_000)
	var running []*witness.Production
	for _, codec := range []string{"NONE", "LZ4", "ZSTD", "ZLIB", "SNAPPY"} {
		running = append(running, s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: codec, KeyPrefix: codec + "-", Keys: 40,
			Count: perCodec, Rate: 1_500, Compression: codec, Size: 200}, reader))
	}
	for _, p := range running {
		s.must(p.WaitDone(s.within(3*time.Minute, "publishing")))
	}
	s.verdict(reader)
	if busy := len(reader.Shares()); busy < 4 {
		s.Errorf("only %d of 7 consumers got anything: this run proves little", busy)
	}

	stored := s.dump(s.west, n)
	layout, err := s.west.admin.Layout(s.ctx, n)
	s.must(err)
	s.checkRouting(layout, stored)
	s.checkMarks(flat(stored))
	s.checkStoredOnce(flat(stored), 5*perCodec)
	m := s.settledMetrics(d, 1)
	for _, outcome := range []string{"outcome=whole", "outcome=split"} {
		if m.Sum("entries_total", outcome) == 0 && !d.StandIn() {
			s.Errorf("no entry with %s", outcome)
		}
	}
	t.Logf("whole %v, split %v into %v", m.Sum("entries_total", "outcome=whole"), m.Sum("entries_total", "outcome=split"), m.Sum("split_parts_total"))
}

// checkStoredOnce fails the scenario unless the entries hold n messages, each
// once.
func (s *scene) checkStoredOnce(entries []witness.Entry, n int) {
	s.Helper()
	var problems []string
	seen := map[string]int{}
	for _, entry := range entries {
		for _, m := range entry.Messages {
			seen[m.ID]++
		}
	}
	for id, times := range seen {
		if times > 1 {
			problems = append(problems, fmt.Sprintf("message %s is stored %d times", id, times))
		}
	}
	s.complain("stored once", problems)
	if len(seen) != n {
		s.Errorf("%d messages stored, want %d", len(seen), n)
	}
}

// Encrypted messages pass a bridge that has no keys, and open at the target.
func TestScenario04Encrypted(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	for _, at := range []site{s.east, s.west} {
		s.must(at.admin.KeepAll(s.ctx, s.namespace))
	}
	n := s.create(s.east, "secrets", 2, 2)
	s.create(s.west, "secrets", 3, 4)
	public, private := s.keyPair()
	reader := s.consumeAs(s.west, witness.Consume{Topic: n.Topic(), Consumers: 3, PrivateKey: private})
	d := s.run(s.mapping("secrets", s.east, s.west, "secrets"))
	count := byMode(s, 2_000, 50_000)
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "e", Keys: 50, Count: count, Rate: 2_000, PublicKey: public,
		Compression: "LZ4"}, reader)
	s.verdict(reader)
	for _, trouble := range reader.Trouble() {
		s.Error(trouble)
	}

	from, stored := flat(s.dump(s.east, n)), s.dump(s.west, n)
	layout, err := s.west.admin.Layout(s.ctx, n)
	s.must(err)
	s.checkRouting(layout, stored)
	s.checkMarks(flat(stored))
	for i, entry := range from {
		if !entry.Encrypted {
			s.Fatalf("entry %s was not encrypted to begin with", entry.Position)
		}
		from[i].HashMin, from[i].HashMax = -1, -1
	}
	to := flat(stored)
	for i := range to {
		to[i].HashMin, to[i].HashMax = -1, -1 // an unbatched entry is stamped on its way: checked above
	}
	s.checkWhole(from, to)
	m := s.settledMetrics(d, float64(count))
	if got := m.Sum("entries_total", "outcome=whole", "reason=single"); got != float64(count) {
		s.Errorf("%v entries went whole by their own key, want %d", got, count)
	}
	if got := m.Sum("opened_entries_total"); got != 0 {
		s.Errorf("%v entries opened", got)
	}
}

// keyPair writes a new RSA pair as PEM files.
func (s *scene) keyPair() (public, private string) {
	s.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	s.must(err)
	dir := s.TempDir()
	write := func(name, kind string, der []byte, err error) string {
		s.must(err)
		path := filepath.Join(dir, name)
		s.must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	public = write("public.pem", "PUBLIC KEY", der, err)
	der, err = x509.MarshalPKCS8PrivateKey(key)
	return public, write("private.pem", "PRIVATE KEY", der, err)
}
