package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
)

// ErrNoMapping is what an order returns for a name that is not served here.
var ErrNoMapping = errors.New("no such mapping")

// maxOrder bounds the body of an order, in bytes.
const maxOrder = 4 << 10

// order guards what changes something: JSON only, so that no web page can send it without asking; no foreign Origin;
// and, without a token, from this machine only.
func (s *Server) order(do func(r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		code, err := permitted(r), error(nil)
		if code == http.StatusOK {
			r.Body = http.MaxBytesReader(w, r.Body, maxOrder)
			err = do(r)
		}
		switch {
		case code != http.StatusOK:
			err = errors.New(http.StatusText(code) + ": orders are JSON, from this machine")
		case errors.Is(err, ErrNoMapping):
			code = http.StatusNotFound
		case err != nil:
			code = http.StatusBadRequest
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		answer := map[string]any{"schema": 1}
		if err != nil {
			answer["error"] = err.Error()
		}
		_ = json.NewEncoder(w).Encode(answer) // the client has gone; there is nobody to tell
	}
}

func permitted(r *http.Request) int {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return http.StatusForbidden
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return http.StatusForbidden
	}
	if typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || typ != "application/json" {
		return http.StatusUnsupportedMediaType
	}
	return http.StatusOK
}

// resume releases a mapping that on_gap or on_lost_evidence holds.
func (s *Server) resume(r *http.Request) error {
	var body struct {
		AcceptGap bool `json:"accept_gap"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if !body.AcceptGap {
		return errors.New("nothing is paused: say accept_gap to go on in spite of what is lost")
	}
	s.logger.Warn("an operator accepts what is lost", "mapping", r.PathValue("name"))
	return s.acceptGap(r.PathValue("name"))
}
