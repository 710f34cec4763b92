package pulsartest

import "time"

// Options says what a cluster is like. The zero value is one broker a:6650 with
// Pulsar's own defaults.
type Options struct {
	Cluster    string   // its own name; default "test"
	Brokers    []string // host:port each, as look-ups tell them; default a:6650
	Namespaces []string // where regular topics may be made; default public/default
	// FailoverDelay is from an election to the first message
	// (activeConsumerFailoverDelayTimeMillis, P8); default 1 s, negative none.
	FailoverDelay time.Duration
	// AckSaveInterval is how long an acknowledgement may be lost by a crash (P11);
	// default 1 s, negative never.
	AckSaveInterval time.Duration
	// KeepAlive is after how long a PING is sent; at the one after that, a mute client is
	// cut (facts 1); default 30 s.
	KeepAlive     time.Duration
	StreamGrace   time.Duration // how long a STREAM consumer stays registered without a connection (facts 4.7); default 60 s
	Deduplication bool          // facts 7
	Retention     bool          // nothing is trimmed or pruned
	NoAutoScale   bool          // scalable topics do not grow with their consumers; SetAutoScale is for one
	// Survive says how many of the sends that are pending when their broker crashes
	// or unloads the topic are stored all the same (P19); default all.
	Survive func(topic string, pending int) int
	// Hook is asked about every command, PING and PONG too, from the connection's
	// own goroutines and without a lock: it may call the Cluster. Nil lets all pass.
	Hook func(Command) Action
	// Authenticate judges the credential of a connection or a REST call; nil takes any.
	Authenticate func(method string, data []byte) bool
	// Role names whose a credential is; nil lets everybody do everything. The role "admin"
	// may, others do what Grant gives them (P35).
	Role func(method string, data []byte) string
}

func (o *Options) setDefaults() {
	if o.Cluster == "" {
		o.Cluster = "test"
	}
	if len(o.Brokers) == 0 {
		o.Brokers = []string{"a:6650"}
	}
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{"public/default"}
	}
	if o.FailoverDelay == 0 {
		o.FailoverDelay = time.Second
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 30 * time.Second
	}
	if o.StreamGrace == 0 {
		o.StreamGrace = time.Minute
	}
	if o.AckSaveInterval == 0 {
		o.AckSaveInterval = time.Second
	}
}
