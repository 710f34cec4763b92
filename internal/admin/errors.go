package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
)

// What went wrong with a call; each is in the chain of the *Error returned.
var (
	ErrNotFound     = errors.New("not found")                 // 404: the topic, namespace or segment asked for
	ErrUnauthorized = errors.New("not authorized")            // 401, 403: credential refused, or a right missing
	ErrConflict     = errors.New("conflict")                  // 409: exists already, or busy
	ErrUnreachable  = errors.New("admin service unreachable") // no answer, or a gateway's 502, 503, 504
	ErrRefused      = errors.New("request refused")           // any other 4xx
	ErrServer       = errors.New("admin service failed")      // any other answer, 5xx included
	ErrCredential   = errors.New("credential unavailable")    // it could not be read, so nothing was sent
	ErrName         = errors.New("malformed name")            // nothing was sent
	// ErrUnknown joins ErrUnauthorized where being refused leaves a question
	// open that other means may answer.
	ErrUnknown = errors.New("unknown")
)

// Error is a failed call. errors.Is finds its kind (one of the Err values above)
// and what the network said.
type Error struct {
	Op     string // what was wanted: "record subscription s on topic://t/n/x"
	Status int    // HTTP status; 0 without an answer
	Reason string // in one line
	kind   error
	cause  error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s: %v (%d): %s", e.Op, e.kind, e.Status, e.Reason)
	}
	return fmt.Sprintf("%s: %v: %s", e.Op, e.kind, e.Reason)
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.kind, e.cause} }

// failure makes an error of what rest.Client returned.
func failure(op string, err error) *Error {
	if answered := (rest.Error{}); errors.As(err, &answered) {
		return &Error{Op: op, Status: answered.Code, Reason: oneLine(answered), kind: kindOf(answered.Code), cause: err}
	}
	e := &Error{Op: op, Reason: err.Error(), kind: ErrUnreachable, cause: err}
	switch {
	case errors.Is(err, ErrCredential):
		e.kind = ErrCredential
	case errors.Is(err, context.Canceled):
		e.kind = context.Canceled // the caller's own doing says nothing of the service
	case errors.Is(err, errBody):
		e.kind = ErrServer
	}
	return e
}

func kindOf(status int) error {
	switch status {
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrUnauthorized
	case http.StatusConflict:
		return ErrConflict
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ErrUnreachable
	}
	if status >= 400 && status < 500 {
		return ErrRefused
	}
	return ErrServer
}

// oneLine is the reason without the pages and stack traces brokers send along:
// of an unexpected error they wrap the message in a text of many lines, and a
// missing credential is answered in HTML (broker 5.0.1, observed).
func oneLine(e rest.Error) string {
	const limit = 300
	reason := strings.TrimSpace(e.Reason)
	if _, message, ok := strings.Cut(reason, "Message: "); ok {
		reason = message
	}
	reason, _, _ = strings.Cut(reason, "\n")
	reason = strings.TrimPrefix(reason, strconv.Itoa(e.Code)+" ") // of a status line, where there is no body
	if reason == "" || strings.HasPrefix(reason, "<") {
		reason = http.StatusText(e.Code)
	}
	if len(reason) > limit {
		reason = strings.ToValidUTF8(reason[:limit], "") + "…"
	}
	return reason
}
