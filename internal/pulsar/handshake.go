package pulsar

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

const (
	clientVersion = "geobridge"
	// protocolVersion is v21, the newest that broker 5.0.1 speaks.
	protocolVersion = 21
	// defaultMaxMessageSize is the broker's default, for one that tells none.
	defaultMaxMessageSize = 5 << 20
	// maxChallenges bounds the credential exchanges of one handshake.
	maxChallenges = 8
)

// ServerInfo is what a broker tells of itself when a connection is made.
type ServerInfo struct {
	Broker          string // host:port
	Version         string
	ProtocolVersion int
	MaxMessageSize  int // bytes of metadata and payload together
	// ScalableTopics tells that the broker knows scalable topics. It gates
	// nothing itself (5.0.1, observed), so a client has to look.
	ScalableTopics bool
}

// target is where a connection goes: the host dialled and, where that is a
// proxy, the broker behind it.
type target struct {
	dial, broker string // host:port each; equal without a proxy
	kind         Kind
}

func (t target) String() string {
	if t.broker != t.dial {
		return t.broker + " via " + t.dial
	}
	return t.dial
}

// dial makes a connection and takes it through its handshake. ctx bounds all
// of it; the connection outlives ctx.
func dial(ctx context.Context, opts *Options, t target, secure bool, ids *atomic.Uint64, pool *frame.Pool) (*conn, error) {
	raw, err := opts.Dial(ctx, "tcp", t.dial)
	if err != nil {
		return nil, &ConnectionError{Broker: t.String(), Reason: ReasonDial, Err: err}
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	c, err := handshake(ctx, opts, t, raw, secure, ids, pool)
	if !stop() && err == nil {
		err = &ConnectionError{Broker: t.String(), Reason: ReasonHandshake, Err: context.Cause(ctx)}
	}
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = errors.Join(err, context.Cause(ctx))
		}
		return nil, err
	}
	return c, nil
}

func handshake(ctx context.Context, opts *Options, t target, raw net.Conn, secure bool, ids *atomic.Uint64, pool *frame.Pool) (*conn, error) {
	fail := func(reason Reason, err error) (*conn, error) {
		return nil, &ConnectionError{Broker: t.String(), Reason: reason, Err: err}
	}
	nc := raw
	if secure {
		tc := tls.Client(raw, tlsConfig(opts, t))
		if err := tc.HandshakeContext(ctx); err != nil {
			return fail(ReasonTLS, err)
		}
		nc = tc
	}
	auth, err := opts.credentialWithin(ctx, t)
	if err != nil {
		return fail(ReasonAuth, err)
	}
	c := newConn(opts, t, raw, nc, ids, pool)
	if err := c.writeNow(nc, connectCommand(t, auth)); err != nil {
		return fail(ReasonHandshake, err)
	}
	for range maxChallenges {
		var f frame.Frame
		if err := frame.ReadCommand(c.in, c.limits(), &f); err != nil {
			return fail(noAnswer(err), err)
		}
		if f.Entry != nil {
			f.Entry.Release()
		}
		switch f.Type {
		case pulsarpb.BaseCommand_CONNECTED:
			c.info = serverInfo(t, f.Command.GetConnected())
			return c, nil
		case pulsarpb.BaseCommand_ERROR:
			return fail(refused(f.Command.GetError()))
		case pulsarpb.BaseCommand_AUTH_CHALLENGE:
			if auth, err = opts.credentialWithin(ctx, t); err != nil {
				return fail(ReasonAuth, err)
			}
			if err := c.writeNow(nc, authResponse(auth)); err != nil {
				return fail(ReasonHandshake, err)
			}
		default:
			return fail(ReasonProtocol, fmt.Errorf("%w: %s in reply to CONNECT", ErrProtocol, f.Type))
		}
	}
	return fail(ReasonAuth, fmt.Errorf("%w: endless challenges", ErrProtocol))
}

// noAnswer tells a TLS alert from other ends: a server refuses a client's
// certificate only after the client took the handshake for done.
func noAnswer(err error) Reason {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return ReasonTLS
	}
	return ReasonHandshake
}

// writeNow writes before there is a writer.
func (c *conn) writeNow(nc net.Conn, cmd *pulsarpb.BaseCommand) error {
	b, err := frame.AppendCommand(nil, cmd)
	if err != nil {
		return err
	}
	_, err = nc.Write(b)
	return err
}

func refused(e *pulsarpb.CommandError) (Reason, error) {
	err := &ServerError{Code: e.GetError(), Message: e.GetMessage()}
	if ClassOf(err) == ClassAuth {
		return ReasonAuth, err
	}
	return ReasonHandshake, err
}

func connectCommand(t target, auth authData) *pulsarpb.BaseCommand {
	connect := &pulsarpb.CommandConnect{
		ClientVersion:   proto.String(clientVersion),
		ProtocolVersion: proto.Int32(protocolVersion),
		// Not supports_broker_entry_metadata: entries come as they are stored.
		// Not supports_repl_dedup_by_lid_and_eid: it changes what receipts and
		// deduplication mean for names that begin with the replicator's prefix.
		FeatureFlags: &pulsarpb.FeatureFlags{
			SupportsAuthRefresh:    proto.Bool(true),
			SupportsScalableTopics: proto.Bool(true),
		},
	}
	if auth.method != "" {
		connect.AuthMethodName, connect.AuthData = proto.String(auth.method), auth.data
	}
	if t.broker != t.dial {
		connect.ProxyToBrokerUrl = proto.String(t.broker)
	}
	cmd := command(pulsarpb.BaseCommand_CONNECT)
	cmd.Connect = connect
	return cmd
}

func serverInfo(t target, m *pulsarpb.CommandConnected) ServerInfo {
	size := int(m.GetMaxMessageSize())
	if size <= 0 {
		size = defaultMaxMessageSize
	}
	return ServerInfo{
		Broker:          t.broker,
		Version:         m.GetServerVersion(),
		ProtocolVersion: int(m.GetProtocolVersion()),
		MaxMessageSize:  size,
		ScalableTopics:  m.GetFeatureFlags().GetSupportsScalableTopics(),
	}
}

// tlsConfig takes the client's certificate, where the provider has one, anew
// for each handshake.
func tlsConfig(opts *Options, t target) *tls.Config {
	cfg := opts.TLS.Clone()
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.ServerName == "" {
		if host, _, err := net.SplitHostPort(t.dial); err == nil {
			cfg.ServerName = host
		}
	}
	if opts.Auth == nil || cfg.GetClientCertificate != nil || len(cfg.Certificates) > 0 {
		return cfg
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := opts.Auth.GetTLSCertificate()
		if err != nil || cert == nil {
			return &tls.Certificate{}, err
		}
		if cert.Leaf != nil {
			opts.OnEvent(Event{Type: EventCredential, Broker: t.dial, Kind: t.kind, CredentialKind: "tls", Expiry: cert.Leaf.NotAfter})
		}
		return cert, nil
	}
	return cfg
}

// tokenExpiry reads a JSON web token's exp; the token is not verified, that is
// the broker's part. Zero if it is no such token, or never expires.
func tokenExpiry(token []byte) time.Time {
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	body, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(body, &claims) != nil || claims.Exp <= 0 || claims.Exp > math.MaxInt32*1000 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}
