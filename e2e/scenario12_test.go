//go:build e2e

package e2e_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// wrongConfig is wrong in five ways, none of which needs a cluster to see.
const wrongConfig = `version: 1
clusters:
  east: {service_url: "pulsar://127.0.0.1:1", admin_url: "http://127.0.0.1:1"}
  west: {service_url: "pulsar://127.0.0.1:1", admin_url: "http://127.0.0.1:1", colour: green}
memory_limit: 256MiB
memory_limit: 128MiB
shutdown_timeout: 20
mappings:
  - name: circle
    from: {cluster: east, topic: "topic://public/default/a"}
    to: {cluster: east, topic: "topic://public/default/a"}
  - name: nowhere
    from: {cluster: north, topic: "topic://public/default/b"}
    to: {cluster: west, topic: "topic://public/default/b"}
`

// A wrong file: every error at once, with line and column, and exit code 2.
func TestScenario12WrongConfiguration(t *testing.T) {
	if shared.standIn {
		t.Skip("the stand-in reads no configuration")
	}
	path := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(path, []byte(wrongConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	wants := []struct {
		what  string
		lines []int // any of them may be blamed
		word  string
	}{
		{"unknown key", []int{4}, "colour"},
		{"duplicate key", []int{6}, "memory_limit"},
		{"bad duration", []int{7}, "shutdown_timeout"},
		{"both ends the same topic", []int{9, 10, 11}, "same"},
		{"unknown cluster", []int{13}, "north"},
	}
	for _, command := range []string{"run", "validate"} {
		t.Run(command, func(t *testing.T) {
			var stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), shared.binary, command, "--config", path)
			cmd.Stderr = &stderr
			err := cmd.Run()
			if cmd.ProcessState.ExitCode() != 2 {
				t.Errorf("exit code %d (%v), want 2", cmd.ProcessState.ExitCode(), err)
			}
			for _, want := range wants {
				found := false
				for _, line := range want.lines {
					pattern := regexp.MustCompile(fmt.Sprintf(`(?m)^%s:%d:[1-9]\d*: .*%s`, regexp.QuoteMeta(path), line, want.word))
					found = found || pattern.Match(stderr.Bytes())
				}
				if !found {
					t.Errorf("no error at lines %v for the %s", want.lines, want.what)
				}
			}
			if t.Failed() {
				t.Logf("stderr:\n%s", stderr.String())
			}
		})
	}
}

// A topic that is not there stops its own mapping, visibly, until it is there.
func TestScenario12MissingTopic(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	s.create(s.east, "fine", 1, 1)
	s.create(s.west, "fine", 1, 1)
	d := s.run(s.mapping("fine", s.east, s.west, "fine"), s.mapping("absent", s.east, s.west, "later"))
	s.reason(d, "absent", `not found|does not exist|missing`)
	reader := s.consume(s.west, s.name("fine"), 1)
	s.publish(s.east, witness.Produce{Topic: s.name("fine").Topic(), IDPrefix: "f", Keys: 5, Count: 500, Rate: 1_000}, reader)
	s.allCome(reader, "copying beside a mapping that cannot")
	for _, at := range []site{s.east, s.west} {
		exists, err := at.admin.Exists(s.ctx, s.name("later"))
		if err != nil || exists {
			s.Errorf("looking for the topic at %s created it: %v, %v", at.name, exists, err)
		}
	}
	s.create(s.east, "later", 1, 1)
	s.create(s.west, "later", 1, 1)
	late := s.consume(s.west, s.name("later"), 1)
	s.publish(s.east, witness.Produce{Topic: s.name("later").Topic(), IDPrefix: "l", Keys: 5, Count: 500, Rate: 1_000}, late)
	s.allCome(late, "copying once the topic is there")
}

// A port where nothing listens is a state with a reason, retried.
func TestScenario12WrongPort(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	ports, err := rig.FreePorts(1)
	s.must(err)
	s.create(s.east, "orders", 1, 1)
	s.west.service = fmt.Sprintf("pulsar://127.0.0.1:%d", ports[0])
	d := s.instance("a", s.config(s.mapping("deaf", s.east, s.west, "orders")))
	s.launch(d)
	s.reason(d, s.west.name, "refused")
	if status, body, err := d.Get(s.ctx, "/readyz"); err != nil || status != 503 {
		s.Errorf("/readyz: %d %s, %v; want 503 while a cluster was never connected to", status, body, err)
	}
	s.stayAlive(d, 12*time.Second)
	s.terminate(d)
}

// reason waits until a line of /readyz names what and matches why (lower case),
// and checks that a line of the log does.
func (s *scene) reason(d *daemon.Daemon, what, why string) {
	s.Helper()
	pattern := regexp.MustCompile(why)
	says := func(text string) bool {
		for line := range strings.Lines(strings.ToLower(text)) {
			if strings.Contains(line, what) && pattern.MatchString(line) {
				return true
			}
		}
		return false
	}
	body, err := d.WaitReason(s.within(time.Minute, "the reason in /readyz"), says)
	s.must(err)
	s.Logf("/readyz: %s", strings.TrimSpace(body))
	s.must(rig.Poll(s.within(20*time.Second, "the reason in the log"), 200*time.Millisecond, func() error {
		if !says(d.Log()) {
			return fmt.Errorf("no line of the log names %q and %q", what, why)
		}
		return nil
	}))
}

// A refused credential is a state with a reason, and the next one in the file
// is taken without a restart.
func TestScenario12RefusedCredential(t *testing.T) {
	s := newScene(t, 8*time.Minute)
	secret := make([]byte, 32)
	_, err := rand.Read(secret)
	s.must(err)
	good, bad := token(secret, "admin"), token([]byte("of another cluster, surely not it"), "admin")
	guarded, err := rig.NewStandalone(s.suite.box, s.suite.spawner, "guarded",
		"authenticationEnabled=true", "authorizationEnabled=true", "superUserRoles=admin",
		"authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
		"tokenSecretKey=data:;base64,"+base64.StdEncoding.EncodeToString(secret),
		"brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken",
		"brokerClientAuthenticationParameters=token:"+good)
	s.must(err)
	guarded.Token = good
	t.Cleanup(guarded.Kill)
	s.must(guarded.Start(s.ctx))
	s.west = standaloneSite(guarded)
	s.west.admin.Token = good
	s.must(s.west.admin.CreateNamespace(s.ctx, s.namespace, guarded.Name, 0))
	s.must(s.west.admin.Do(s.ctx, http.MethodPost, "namespaces/public/default/permissions/app", []string{"produce", "consume"}, nil))
	live(s.ctx, t, "internal/admin", "^TestLiveRights$",
		"LIVE_AUTH_HTTP="+s.west.adminAt, "LIVE_SUPERUSER_TOKEN="+good, "LIVE_APP_TOKEN="+token(secret, "app"))
	n := s.create(s.east, "orders", 1, 1)
	s.create(s.west, "orders", 1, 1)

	file := filepath.Join(t.TempDir(), "token")
	s.must(os.WriteFile(file, []byte(bad), 0o600))
	config := s.config(s.mapping("locked", s.east, s.west, "orders"))
	config["clusters"].(map[string]any)[guarded.Name].(map[string]any)["auth"] = map[string]any{"token_file": file}
	d := s.instance("a", config)
	s.launch(d)
	s.reason(d, guarded.Name, "auth")
	if strings.Contains(d.Log(), bad) {
		s.Error("the log shows the credential")
	}
	s.stayAlive(d, 6*time.Second)

	s.must(os.WriteFile(file, []byte(good), 0o600))
	s.must(d.WaitReady(s.within(2*time.Minute, "getting ready with the right credential")))
	s.publish(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 5, Count: 500, Rate: 1_000})
	s.must(rig.Poll(s.within(time.Minute, "copying"), 200*time.Millisecond, func() error {
		m, err := d.Metrics(s.ctx)
		if err == nil && m.Sum("messages_total") != 500 {
			err = fmt.Errorf("messages_total is %v, want 500", m.Sum("messages_total"))
		}
		return err
	}))
}

// token is a JSON web token of subject, signed with HMAC-SHA-256.
func token(secret []byte, subject string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(`{"sub":"`+subject+`"}`))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}
