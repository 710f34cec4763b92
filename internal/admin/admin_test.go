package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/auth"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	scalable = "topic://t/n/x"
	regular  = "persistent://t/n/__x"
)

// answer is what the fake service says to one request, in order.
type answer struct {
	status int
	body   string
}

// serve starts a service that gives the answers and records the requests.
func serve(t *testing.T, o Options, answers ...answer) (*Client, *[]string) {
	t.Helper()
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		if len(seen) > len(answers) {
			t.Errorf("unexpected request %s", seen[len(seen)-1])
			return
		}
		a := answers[len(seen)-1]
		if strings.HasPrefix(a.body, "{") || strings.HasPrefix(a.body, "[") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(server.Close)
	o.URL = server.URL
	return newClient(t, o), &seen
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRequests(t *testing.T) {
	for _, tc := range []struct {
		name string
		call func(context.Context, *Client) error
		want string
	}{
		{"record", func(ctx context.Context, c *Client) error {
			return c.RecordSubscription(ctx, scalable, "geobridge.g.west.x")
		},
			"PUT /admin/v2/scalable/t/n/x/subscriptions/geobridge.g.west.x"},
		{"names are escaped", func(ctx context.Context, c *Client) error {
			return c.RecordSubscription(ctx, "topic://t/n/a?b", "50% #1")
		},
			"PUT /admin/v2/scalable/t/n/a%3Fb/subscriptions/50%25%20%231"},
		{"skip all", func(ctx context.Context, c *Client) error { return c.SkipAll(ctx, scalable, "s") },
			"POST /admin/v2/scalable/t/n/x/subscriptions/s/skip-all"},
		{"delete", func(ctx context.Context, c *Client) error { return c.DeleteSubscription(ctx, scalable, "s") },
			"DELETE /admin/v2/scalable/t/n/x/subscriptions/s"},
		{"create", func(ctx context.Context, c *Client) error { return c.CreateScalable(ctx, scalable, 7) },
			"PUT /admin/v2/scalable/t/n/x?numInitialSegments=7"},
		{"create regular", func(ctx context.Context, c *Client) error { return c.EnsureRegularTopic(ctx, regular) },
			"PUT /admin/v2/persistent/t/n/__x"},
		{"subscribe at earliest", func(ctx context.Context, c *Client) error { return c.EnsureSubscription(ctx, regular, "s", true) },
			`PUT /admin/v2/persistent/t/n/__x/subscription/s {"ledgerId":-1,"entryId":-1}`},
		{"subscribe at latest", func(ctx context.Context, c *Client) error { return c.EnsureSubscription(ctx, regular, "s", false) },
			`PUT /admin/v2/persistent/t/n/__x/subscription/s {"ledgerId":9223372036854775807,"entryId":9223372036854775807}`},
		{"compact", func(ctx context.Context, c *Client) error { return c.CompactTopic(ctx, regular) },
			"PUT /admin/v2/persistent/t/n/__x/compaction"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, seen := serve(t, Options{}, answer{status: 204})
			if err := tc.call(t.Context(), c); err != nil {
				t.Error(err)
			}
			if d := cmp.Diff([]string{tc.want}, *seen); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
		})
	}
}

func TestURLWithPath(t *testing.T) {
	c, seen := serve(t, Options{}, answer{status: 204})
	c.rest.ServiceURL += "/pulsar/"
	if err := c.CreateScalable(t.Context(), scalable, 1); err != nil || (*seen)[0] != "PUT /pulsar/admin/v2/scalable/t/n/x?numInitialSegments=1" {
		t.Errorf("%v, %v", *seen, err)
	}
}

func TestErrors(t *testing.T) {
	const html = "<html>\n<head><title>Error 401 Authentication required</title></head></html>"
	const trace = `{"reason":"\n --- An unexpected error occurred in the server ---\n\nMessage: it broke\n\nStacktrace:\n\njava.lang.X: it broke\n\tat y"}`
	for _, tc := range []struct {
		name   string
		answer answer
		kind   error
		reason string
	}{
		{"not found", answer{404, `{"reason":"Namespace does not exist"}`}, ErrNotFound, "Namespace does not exist"},
		{"no credential", answer{401, html}, ErrUnauthorized, "Unauthorized"},
		{"no right", answer{403, `{"reason":"Unauthorized to …"}`}, ErrUnauthorized, "Unauthorized to …"},
		{"conflict", answer{409, `{"reason":"Scalable topic already exists: topic://t/n/x"}`}, ErrConflict, "Scalable topic already exists: topic://t/n/x"},
		{"refused", answer{412, `{"reason":"bad number"}`}, ErrRefused, "bad number"},
		{"server", answer{500, trace}, ErrServer, "it broke"},
		{"gateway", answer{503, ""}, ErrUnreachable, "Service Unavailable"},
		{"too long a reason", answer{500, strings.Repeat("x", 1000)}, ErrServer, strings.Repeat("x", 300) + "…"},
		{"redirect without target", answer{307, ""}, ErrServer, "Temporary Redirect"},
		{"success that is none", answer{300, ""}, ErrServer, "Multiple Choices"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, seen := serve(t, Options{}, tc.answer)
			err := c.CreateScalable(t.Context(), scalable, 1)
			var e *Error
			if !errors.Is(err, tc.kind) || !errors.As(err, &e) || e.Reason != tc.reason {
				t.Errorf("%v; want %v with reason %q", err, tc.kind, tc.reason)
			}
			if !strings.Contains(err.Error(), "create topic://t/n/x") || strings.Contains(err.Error(), "\n") {
				t.Errorf("message %q", err)
			}
			if len(*seen) != 1 {
				t.Errorf("%d requests: nothing is retried", len(*seen))
			}
		})
	}
}

func TestMalformedNames(t *testing.T) {
	c, _ := serve(t, Options{})
	ctx := t.Context()
	for name, err := range map[string]error{
		"regular as scalable":    c.CreateScalable(ctx, regular, 1),
		"scalable as regular":    c.EnsureRegularTopic(ctx, scalable),
		"no namespace":           c.CreateScalable(ctx, "topic://x", 1),
		"slash in the topic":     c.CreateScalable(ctx, "topic://t/n/x/y", 1),
		"empty topic":            c.CreateScalable(ctx, "topic://t/n/", 1),
		"dots":                   c.CreateScalable(ctx, "topic://t/../x", 1),
		"empty subscription":     c.RecordSubscription(ctx, scalable, ""),
		"slash in subscription":  c.RecordSubscription(ctx, scalable, "a/b"),
		"namespace with a topic": func() error { _, err := c.NamespacePolicies(ctx, "t/n/x"); return err }(),
	} {
		if !errors.Is(err, ErrName) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, bad := range []string{"", "localhost:8080", "pulsar://h:6650", "http://", "http://[::1"} {
		if c, err := New(Options{URL: bad}); err == nil || c != nil || !strings.Contains(err.Error(), "admin URL") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Brokers answer 500 about a scalable topic that is not there.
func TestMissingScalableTopic(t *testing.T) {
	missing := answer{500, `{"reason":"\n --- An unexpected error occurred in the server ---\n\nMessage: Failed to initialize controller for topic://t/n/x\n"}`}
	notFound := answer{404, `{"reason":"Scalable topic not found: topic://t/n/x"}`}
	c, seen := serve(t, Options{}, missing, notFound)
	if err := c.RecordSubscription(t.Context(), scalable, "s"); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	if len(*seen) != 2 || (*seen)[1] != "GET /admin/v2/scalable/t/n/x" {
		t.Errorf("requests %v", *seen)
	}
	c, _ = serve(t, Options{}, missing, answer{200, `{"epoch":0}`})
	if err := c.RecordSubscription(t.Context(), scalable, "s"); !errors.Is(err, ErrServer) || errors.Is(err, ErrNotFound) {
		t.Errorf("there, but failing: %v", err)
	}
	c, _ = serve(t, Options{}, missing, answer{401, ""})
	if _, err := c.Subscriptions(t.Context(), scalable); !errors.Is(err, ErrServer) {
		t.Errorf("nobody knows: %v", err)
	}
}

func TestExists(t *testing.T) {
	for _, tc := range []struct {
		answer answer
		want   bool
		err    error
	}{
		{answer{200, `{"epoch":0}`}, true, nil},
		{answer{404, `{"reason":"Scalable topic not found"}`}, false, nil},
		{answer{401, ""}, false, ErrUnauthorized},
		{answer{200, `not json`}, false, ErrServer},
	} {
		c, _ := serve(t, Options{}, tc.answer)
		if got, err := c.Exists(t.Context(), scalable); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%v: %v, %v", tc.answer, got, err)
		}
	}
}

func TestEnsureIsIdempotent(t *testing.T) {
	ctx := t.Context()
	exists := answer{409, `{"reason":"This topic already exists"}`}
	c, _ := serve(t, Options{}, exists, exists, exists, answer{403, ""})
	if err := c.EnsureRegularTopic(ctx, regular); err != nil {
		t.Error(err)
	}
	if err := c.EnsureSubscription(ctx, regular, "s", true); err != nil {
		t.Error(err)
	}
	if err := c.CompactTopic(ctx, regular); !errors.Is(err, ErrConflict) {
		t.Errorf("compaction running: %v", err)
	}
	if err := c.EnsureRegularTopic(ctx, regular); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("no tenant admin: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	owner, seen := serve(t, Options{}, answer{204, ""})
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, owner.rest.ServiceURL+r.URL.RequestURI()+"?authoritative=true", http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	c := newClient(t, Options{URL: first.URL, Auth: auth.NewAuthenticationToken("secret")})
	if err := c.EnsureSubscription(t.Context(), regular, "s", true); err != nil {
		t.Fatal(err)
	}
	want := `PUT /admin/v2/persistent/t/n/__x/subscription/s?authoritative=true {"ledgerId":-1,"entryId":-1}`
	if (*seen)[0] != want {
		t.Errorf("after the redirect: %s\nwant %s", (*seen)[0], want)
	}
}

func TestRedirectLoopEnds(t *testing.T) {
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer loop.Close()
	if err := newClient(t, Options{URL: loop.URL}).CreateScalable(t.Context(), scalable, 1); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
}

func TestTimeouts(t *testing.T) {
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer stuck.Close()
	c := newClient(t, Options{URL: stuck.URL, Timeout: 20 * time.Millisecond})
	if err := c.CreateScalable(t.Context(), scalable, 1); !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("own time-out: %v", err)
	}
	c = newClient(t, Options{URL: stuck.URL})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.CreateScalable(ctx, scalable, 1); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("cancelled: %v", err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	c = newClient(t, Options{URL: gone.URL})
	if _, err := c.Exists(t.Context(), scalable); !errors.Is(err, ErrUnreachable) {
		t.Errorf("refused connection: %v", err)
	}
}

func TestBodyIsBounded(t *testing.T) {
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "[")
		for chunk := strings.Repeat(" ", 1<<20); ; {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	c := newClient(t, Options{URL: endless.URL})
	c.rest.HTTPClient.Transport.(*transport).limit = 1 << 16
	if _, err := c.RegularSubscriptions(t.Context(), regular); !errors.Is(err, ErrServer) || !errors.Is(err, errBody) {
		t.Error(err)
	}
}

// failingAuth cannot read its credential.
type failingAuth struct{ auth.Provider }

func (failingAuth) Name() string             { return "token" }
func (failingAuth) GetData() ([]byte, error) { return nil, errors.New("no such file") }

func TestCredentials(t *testing.T) {
	basic, err := auth.NewAuthenticationBasic("user", "pass")
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{"one", "two"}
	rotating := auth.NewAuthenticationTokenFromSupplier(func() (token string, err error) {
		token, tokens = tokens[0], tokens[1:]
		return token, nil
	})
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, strings.Join(r.Header.Values("Authorization"), "|"))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	for _, provider := range []Auth{nil, auth.NewAuthDisabled(), basic, rotating, rotating} {
		c := newClient(t, Options{URL: server.URL, Auth: provider})
		if err := c.CreateScalable(t.Context(), scalable, 1); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff([]string{"", "", "Basic dXNlcjpwYXNz", "Bearer one", "Bearer two"}, got); d != "" {
		t.Errorf("Authorization (-want +got):\n%s", d)
	}
	c := newClient(t, Options{URL: server.URL, Auth: failingAuth{}})
	if err := c.CreateScalable(t.Context(), scalable, 1); !errors.Is(err, ErrCredential) || len(got) != 5 {
		t.Errorf("unreadable credential: %v, %d requests", err, len(got))
	}
}

func TestTLS(t *testing.T) {
	shown := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown += len(r.TLS.PeerCertificates)
		w.WriteHeader(http.StatusNoContent)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	c := newClient(t, Options{URL: server.URL})
	if err := c.CreateScalable(t.Context(), scalable, 1); !errors.Is(err, ErrUnreachable) {
		t.Errorf("unknown authority: %v", err)
	}
	trusting := server.Client().Transport.(*http.Transport).TLSClientConfig
	own := server.TLS.Certificates[0]
	for _, provider := range []Auth{nil, auth.NewAuthenticationToken("x"),
		auth.NewAuthenticationFromTLSCertSupplier(func() (*tls.Certificate, error) { return &own, nil })} {
		c = newClient(t, Options{URL: server.URL, TLS: trusting, Auth: provider})
		if err := c.CreateScalable(t.Context(), scalable, 1); err != nil {
			t.Error(err)
		}
	}
	if shown != 1 {
		t.Errorf("%d client certificates shown, want 1", shown)
	}
}
