package httpapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestResume(t *testing.T) {
	s, _ := newServer(nil)
	var accepted []string
	s.acceptGap = func(name string) error {
		if name != "orders" {
			return fmt.Errorf("%w: %s", ErrNoMapping, name)
		}
		accepted = append(accepted, name)
		return nil
	}
	for _, row := range []struct {
		name, method, path, from, typ, origin, body string
		code                                        int
		says                                        string
	}{
		{"good", "POST", "orders", "127.0.0.1:5", "application/json", "", `{"accept_gap":true}`, 200, `{"schema":1}`},
		{"good, IPv6", "POST", "orders", "[::1]:5", "application/json; charset=utf-8", "http://example.com", `{"accept_gap":true}`, 200, `{"schema":1}`},
		{"accepts nothing", "POST", "orders", "127.0.0.1:5", "application/json", "", `{}`, 400, "nothing is paused"},
		{"no JSON", "POST", "orders", "127.0.0.1:5", "application/json", "", `x`, 400, "body: "},
		{"too long", "POST", "orders", "127.0.0.1:5", "application/json", "", `"` + strings.Repeat("x", 5000) + `"`, 400, "too large"},
		{"unknown", "POST", "other", "127.0.0.1:5", "application/json", "", `{"accept_gap":true}`, 404, "no such mapping: other"},
		{"a form", "POST", "orders", "127.0.0.1:5", "text/plain", "", `{"accept_gap":true}`, 415, "orders are JSON"},
		{"another page", "POST", "orders", "127.0.0.1:5", "application/json", "http://evil.example", `{"accept_gap":true}`, 403, "from this machine"},
		{"another machine", "POST", "orders", "192.0.2.1:5", "application/json", "", `{"accept_gap":true}`, 403, "from this machine"},
		{"a read", "GET", "orders", "127.0.0.1:5", "", "", "", 405, ""},
	} {
		r := httptest.NewRequest(row.method, "/api/v1/mappings/"+row.path+"/resume", strings.NewReader(row.body))
		r.RemoteAddr = row.from
		r.Header.Set("Content-Type", row.typ)
		if row.origin != "" {
			r.Header.Set("Origin", row.origin)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != row.code || !strings.Contains(w.Body.String(), row.says) {
			t.Errorf("%s: %d %s, want %d %q", row.name, w.Code, w.Body, row.code, row.says)
		}
	}
	if len(accepted) != 2 {
		t.Errorf("accepted %v", accepted)
	}
}
