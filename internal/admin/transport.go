package admin

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxBody bounds an answer. The longest are statistics of many segments and
// subscriptions; nothing else may fill our memory.
const maxBody = 32 << 20

var errBody = errors.New("unusable answer")

// transport adds the credential to each request, redirected ones too: a broker
// redirects to the one that owns what is asked for.
type transport struct {
	base  *http.Transport
	auth  Auth
	limit int // of a body, in bytes
}

func newTransport(o Options) *transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	if o.Dial != nil {
		base.DialContext = o.Dial
	}
	base.TLSClientConfig = o.TLS.Clone()
	if base.TLSClientConfig == nil {
		base.TLSClientConfig = &tls.Config{}
	}
	if o.Auth != nil && base.TLSClientConfig.GetClientCertificate == nil && len(base.TLSClientConfig.Certificates) == 0 {
		base.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := o.Auth.GetTLSCertificate()
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrCredential, err)
			}
			if cert == nil {
				cert = &tls.Certificate{} // none to show
			}
			return cert, nil
		}
	}
	return &transport{base: base, auth: o.Auth, limit: maxBody}
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	header, err := t.authorization()
	if err != nil {
		return nil, err
	}
	if header != "" {
		req = req.Clone(req.Context()) // a round tripper must not change what it was given
		req.Header.Set("Authorization", header)
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &limited{ReadCloser: resp.Body, left: t.limit}
	return resp, nil
}

// authorization is the header for the credential as it is now: providers read
// it anew, so a replaced file is taken up. The wire protocol's credential is
// the same text (a basic one is user:password; OAuth2 gives a token).
func (t *transport) authorization() (string, error) {
	if t.auth == nil {
		return "", nil
	}
	var scheme func([]byte) string
	switch t.auth.Name() {
	case "token":
		scheme = func(data []byte) string { return "Bearer " + string(data) }
	case "basic":
		scheme = func(data []byte) string { return "Basic " + base64.StdEncoding.EncodeToString(data) }
	default: // tls shows its certificate
		return "", nil
	}
	data, err := t.auth.GetData()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCredential, err)
	}
	return scheme(data), nil
}

// limited fails a body that is too long, rather than cutting it.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= n; l.left < 0 {
		return 0, fmt.Errorf("%w: too long", errBody)
	}
	return n, err
}
