package pulsartest_test

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar/auth"

	"github.com/geobridge/geobridge/internal/admin"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

func onlyGood(method string, data []byte) bool { return method == "token" && string(data) == "good" }

// P35.
func TestAuthentication(t *testing.T) {
	inBubble(t, pulsartest.Options{Authenticate: onlyGood}, func(t *testing.T, r *rig) {
		if _, err := r.Connect(t.Context()); !errors.Is(err, pulsar.ErrAuthentication) {
			t.Errorf("no token: %v", err)
		}
		for token, want := range map[string]error{"good": nil, "bad": pulsar.ErrAuthentication} {
			c, err := pulsar.New(pulsar.Options{ServiceURL: "pulsar://a", Dial: r.net.Dial, Auth: auth.NewAuthenticationToken(token)})
			r.must(err)
			if _, err := c.Connect(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s token: %v", token, err)
			}
			r.must(c.Close())
		}
	})
}

func TestAuthenticationOfREST(t *testing.T) {
	server := httptest.NewServer(pulsartest.New(pulsartest.Options{Authenticate: onlyGood}).Admin())
	defer server.Close()
	for token, want := range map[string]error{"good": nil, "bad": admin.ErrUnauthorized} {
		a, err := admin.New(admin.Options{URL: server.URL, Auth: auth.NewAuthenticationToken(token)})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.CreateScalable(t.Context(), scalableTopic, 1); !errors.Is(err, want) {
			t.Errorf("%s token: %v", token, err)
		}
		a.Close()
	}
}
