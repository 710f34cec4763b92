//go:build e2e

package e2e_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// expiring is a token of subject that ends after life.
func expiring(secret []byte, subject string, life time.Duration) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"sub":%q,"exp":%d}`, subject, time.Now().Add(life).Unix())
	text := encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(claims))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// The source wants a token that lives for seconds. While the file is rewritten
// the copy goes on; when it is not, that is the reason shown; when it is again,
// the copy goes on.
func TestTrapTokenExpires(t *testing.T) {
	if !shared.full {
		t.Skip("needs a cluster of its own and waits for tokens to end: in the full run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	t.Cleanup(cancel)
	_, west, err := shared.pair(ctx)
	if err != nil {
		t.Fatal(err)
	}
	secret := make([]byte, 32)
	_, err = rand.Read(secret)
	if err != nil {
		t.Fatal(err)
	}
	forever := token(secret, "admin")
	strict, err := rig.NewStandalone(shared.box, shared.spawner, "strict",
		"authenticationEnabled=true", "authorizationEnabled=true", "superUserRoles=admin", "authenticationRefreshCheckSeconds=2",
		"authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
		"tokenSecretKey=data:;base64,"+base64.StdEncoding.EncodeToString(secret),
		"brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken",
		"brokerClientAuthenticationParameters=token:"+forever)
	if err != nil {
		t.Fatal(err)
	}
	strict.Token = forever
	t.Cleanup(strict.Kill)
	if err := strict.Start(ctx); err != nil {
		t.Fatal(err)
	}
	locked := standaloneSite(strict)
	locked.admin.Token = forever
	s := newSceneAt(t, ctx, standaloneSite(west), locked) // copies from the open cluster to the strict one
	n := s.create(s.east, "orders", 2, 1)
	s.create(s.west, "orders", 2, 2)
	file := filepath.Join(t.TempDir(), "token")
	const life = 10 * time.Second
	rewrite := func(context.Context) error {
		return os.WriteFile(file, []byte(expiring(secret, "admin", life)), 0o600)
	}
	s.must(rewrite(ctx))
	config := s.config(s.mapping("expiring", s.east, s.west, "orders"))
	config["clusters"].(map[string]any)[s.west.name].(map[string]any)["auth"] = map[string]any{"token_file": file}
	d := s.instance("a", config)
	s.start(d)
	stop := s.every(2*time.Second, rewrite)
	load := s.produce(s.east, witness.Produce{Topic: n.Topic(), IDPrefix: "m", Keys: 20, Rate: 200})
	copied := func(what string) {
		s.Helper()
		goal := s.metrics(d).Sum("messages_total") + 1_000
		s.must(rig.Poll(s.within(time.Minute, what), 200*time.Millisecond, func() error {
			m, err := d.Metrics(s.ctx)
			if err == nil && m.Sum("messages_total") < goal {
				err = fmt.Errorf("messages_total %v of %v", m.Sum("messages_total"), goal)
			}
			return err
		}))
	}
	copied("copying at first")
	<-time.After(2 * life)
	copied("copying after the first token has ended")
	lost := s.metrics(d).Sum("reconnects_total", "cluster="+s.west.name)
	if lost != 0 {
		s.Errorf("%v reconnects while the token was rewritten in time", lost)
	}
	stop()
	s.reason(d, s.west.name, "auth|expire")
	s.healthy(d)
	stop = s.every(2*time.Second, rewrite)
	copied("copying after the token was rewritten late")
	s.must(load.Stop(s.within(time.Minute, "ending the load")))
	s.drained(end{s.east, n}, subscription("expiring", s.west))
	stop()
}
