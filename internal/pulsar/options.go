package pulsar

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"
)

// Auth is what a connection needs of an authentication provider;
// pulsar-client-go's auth.Provider has it.
type Auth interface {
	// Name is the method's name as brokers know it: token, basic, tls, …
	Name() string
	// GetData returns the credential; it is called anew for each connection
	// and each challenge, so what a file holds by then is what is sent.
	GetData() ([]byte, error)
	// GetTLSCertificate returns the client certificate, nil for none.
	GetTLSCertificate() (*tls.Certificate, error)
}

// Options says which cluster to talk to, and how.
type Options struct {
	// Cluster names the cluster in logs and errors.
	Cluster string
	// ServiceURL is pulsar://host:port or pulsar+ssl://host:port; several hosts
	// are separated by commas and tried in turn. Names are resolved anew by
	// every dial.
	ServiceURL string
	// ListenerName selects the advertised listener that look-ups answer with.
	ListenerName string
	// Auth is asked for its credential at each connect and each challenge. It
	// must have been initialised. Nil is no authentication.
	Auth Auth
	// TLS is used with pulsar+ssl; nil means the defaults. It is cloned, and
	// gets the host dialled as its ServerName where it has none.
	TLS *tls.Config
	// ConnectTimeout bounds dial, TLS and the CONNECT exchange together.
	// Default 10 s.
	ConnectTimeout time.Duration
	// OperationTimeout bounds each request, and each acknowledgement's receipt.
	// Default 30 s. Opening a producer is given 15 s at least: the broker itself
	// holds that call for 5 s while it probes a mute holder of the name.
	OperationTimeout time.Duration
	// ConnectionsPerBroker is how many connections there are to a broker for
	// each of control, consumers and producers. Default 1.
	ConnectionsPerBroker int
	Logger               *slog.Logger
	// Dial replaces net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// OnEvent is told of connections and credentials. It is called from the
	// goroutine that noticed, and must not block.
	OnEvent func(Event)
}

// Kind is the use of a connection. A broker that throttles stops reading a
// whole socket, so uses do not share one.
type Kind int

// The kinds of connections.
const (
	KindControl Kind = iota
	KindConsumer
	KindProducer
)

func (k Kind) String() string {
	switch k {
	case KindConsumer:
		return "consumer"
	case KindProducer:
		return "producer"
	}
	return "control"
}

// EventType says what an Event tells.
type EventType int

// The types of events.
const (
	EventConnected    EventType = iota // a connection was made
	EventDisconnected                  // a connection died: Reason, Err
	EventConnectError                  // a connection could not be made: Reason, Err
	EventCredential                    // a credential was read: CredentialKind, Expiry
)

// Event is news about a connection.
type Event struct {
	Type   EventType
	Broker string // host:port dialled
	Kind   Kind
	Reason Reason
	Err    error
	// CredentialKind is "token", "basic", … or "tls" for a client certificate.
	CredentialKind string
	// Expiry is when the credential runs out, zero where it does not tell.
	Expiry time.Time
}

const (
	defaultConnectTimeout   = 10 * time.Second
	defaultOperationTimeout = 30 * time.Second
	leastProducerTimeout    = 15 * time.Second
)

func (o *Options) setDefaults() error {
	if o.ConnectTimeout < 0 || o.OperationTimeout < 0 || o.ConnectionsPerBroker < 0 {
		return errors.New("negative time-out or connection count")
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = defaultConnectTimeout
	}
	if o.OperationTimeout == 0 {
		o.OperationTimeout = defaultOperationTimeout
	}
	if o.ConnectionsPerBroker == 0 {
		o.ConnectionsPerBroker = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	return nil
}
