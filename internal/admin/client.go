package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
)

// Auth is what a request needs of an authentication provider; pulsar-client-go's
// auth.Provider has it. It must have been initialised, and must be safe for
// concurrent use. Names token and basic become an Authorization header; a
// certificate is shown to a server that asks for one.
type Auth interface {
	Name() string
	GetData() ([]byte, error)
	GetTLSCertificate() (*tls.Certificate, error)
}

// Options says which admin service to talk to, and how.
type Options struct {
	URL  string      // http://host:port or https://host:port, a path before /admin is kept
	TLS  *tls.Config // for https; nil means the defaults. It is cloned
	Auth Auth        // nil is no authentication
	// Timeout bounds each call, redirects included, besides its context.
	// Default 30 s.
	Timeout time.Duration
	// Dial replaces net.Dialer.
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Logger *slog.Logger // failed calls at debug level; default: discards
}

// Client asks one cluster's admin service. It is safe for concurrent use. Every
// call is one question (Error kinds tell what became of it), follows redirects
// to the broker that can answer, and is never repeated.
type Client struct {
	rest    rest.Client
	base    *http.Transport
	timeout time.Duration
	log     *slog.Logger
}

// New makes a client and contacts nothing. The error names what is wrong with
// the URL.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("admin URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("admin URL %q: want http://host:port or https://host:port", o.URL)
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := newTransport(o)
	return &Client{
		rest:    rest.Client{ServiceURL: o.URL, HTTPClient: &http.Client{Transport: t}, VersionInfo: "geobridge"},
		base:    t.base,
		timeout: o.Timeout,
		log:     o.Logger.With("admin", u.Host),
	}, nil
}

// Close releases idle connections. Calls under way go on.
func (c *Client) Close() { c.base.CloseIdleConnections() }

// call is one question. Exactly the method's own fields matter.
type call struct {
	op     string // for errors
	method string
	path   string
	err    error // of making the path
	query  map[string]string
	in     any // JSON body of PUT and POST, nil for none
	out    any // where the JSON of GET goes
}

func (c *Client) do(ctx context.Context, q call) error {
	if q.err != nil {
		return &Error{Op: q.op, Reason: q.err.Error(), kind: ErrName, cause: q.err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var err error
	switch q.method {
	case http.MethodGet:
		_, err = c.rest.GetWithQueryParamsWithContext(ctx, q.path, q.out, q.query, true)
	case http.MethodPut:
		err = c.rest.PutWithQueryParamsWithContext(ctx, q.path, q.in, nil, q.query)
	case http.MethodPost:
		err = c.rest.PostWithQueryParamsWithContext(ctx, q.path, q.in, q.query)
	case http.MethodDelete:
		err = c.rest.DeleteWithQueryParamsWithContext(ctx, q.path, q.query)
	default:
		panic("admin: method " + q.method)
	}
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &typed) {
		err = fmt.Errorf("%w: %w", errBody, err)
	}
	e := failure(q.op, err)
	c.log.Debug("call failed", "error", e)
	return e
}
