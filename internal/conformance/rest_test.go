package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// Answer is what a REST call brought.
type Answer struct {
	Code int
	Type string // Content-Type
	Body []byte
}

// rest calls with a token, or without one.
func (t *T) rest(broker int, method, path, token string, body any) Answer {
	t.Helper()
	var text []byte
	if body != nil {
		var err error
		text, err = json.Marshal(body)
		t.Must(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, t.Admin(broker)+"/admin/v2/"+path, bytes.NewReader(text))
	t.Must(err)
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	t.Must(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	t.Must(err)
	return Answer{Code: response.StatusCode, Type: response.Header.Get("Content-Type"), Body: answer}
}

// Into decodes the answer.
func (a Answer) Into(t *T, out any) {
	t.Helper()
	if a.Code/100 != 2 {
		t.Fatalf("answer %d %s", a.Code, a.Body)
	}
	t.Must(json.Unmarshal(a.Body, out))
}
