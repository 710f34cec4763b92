package config

import "time"

// Version is the only value of the key "version" that this geobridge reads.
const Version = 1

// Config is a whole configuration, validated and with every default filled in.
type Config struct {
	// Version is always [Version].
	Version int
	// Group names the instances that share the work. It is part of every name geobridge creates.
	Group string
	// Instance names this process among its group; broker-side consumer names are made from it, so it is stable
	// over restarts. The default is <hostname>-<http port>.
	Instance string
	// Clusters holds two or more clusters by the key they have in the file.
	Clusters map[string]Cluster
	// Mappings is in the order of the file and may be empty.
	Mappings []Mapping
	State    State
	// MemoryLimit bounds the bytes of all entries held by this process.
	MemoryLimit int64
	// CheckpointInterval is the longest time between two records of a busy lane.
	CheckpointInterval time.Duration
	// StallTimeout is how long a lane may make no progress with work waiting before it opens anew.
	StallTimeout time.Duration
	// ShutdownTimeout bounds the draining after SIGTERM.
	ShutdownTimeout time.Duration
	HTTP            HTTP
	Log             Log
}

// Cluster says how to reach one Pulsar cluster.
type Cluster struct {
	// Key is the name the cluster has in this file; mappings and --pair refer to it.
	Key string
	// ClusterName is Pulsar's own name of the cluster. It is what replicated_from is set to.
	ClusterName string
	// ServiceURL is pulsar:// or pulsar+ssl://, hosts separated by commas, each with its port.
	ServiceURL string
	// AdminURL is http:// or https://, without a trailing slash.
	AdminURL string
	// ListenerName asks look-ups for the addresses of one advertised listener; "" asks for the default ones.
	ListenerName string
	Auth         Auth
	TLS          TLS
	// ConnectionsPerBroker is how many connections of each kind (control, consumer, producer) one broker gets.
	ConnectionsPerBroker int
	ConnectTimeout       time.Duration
	OperationTimeout     time.Duration
}

// Auth names where the credential is; at most one field is set, and neither holds a secret.
type Auth struct {
	// TokenFile is the path of a file that holds a token. It is read again whenever a token is needed.
	TokenFile string
	// TokenEnv is the name of an environment variable that holds a token.
	TokenEnv string
}

// None reports whether the cluster is spoken to without a credential.
func (a Auth) None() bool { return a == Auth{} }

// TLS holds the paths and switches of TLS connections, to brokers and to the admin service alike.
type TLS struct {
	CAFile string
	// CertFile and KeyFile are set together or not at all.
	CertFile           string
	KeyFile            string
	ServerName         string
	InsecureSkipVerify bool
}

// Start says where a new subscription begins. An existing subscription goes on where it is.
type Start string

// The values of the key "start".
const (
	StartEarliest Start = "earliest"
	StartLatest   Start = "latest"
)

// Split says how an entry that straddles target buckets is published.
type Split string

// The values of the key "split".
const (
	// SplitBucket batches the messages of one target bucket again.
	SplitBucket Split = "bucket"
	// SplitMessage publishes each message as a plain single-message entry.
	SplitMessage Split = "message"
)

// OnUnroutable says what becomes of an entry that can be neither proved nor opened.
type OnUnroutable string

// The values of the key "on_unroutable".
const (
	UnroutablePark OnUnroutable = "park"
	UnroutableStop OnUnroutable = "stop"
)

// OnGap says what becomes of a lane when source data was gone before it was copied.
type OnGap string

// The values of the key "on_gap".
const (
	GapContinue OnGap = "continue"
	GapStop     OnGap = "stop"
)

// OnLostEvidence says what becomes of a lane that cannot find out any more what is stored at the target.
type OnLostEvidence string

// The values of the key "on_lost_evidence".
const (
	EvidenceStop OnLostEvidence = "stop"
	// EvidenceAtLeastOnce sends again what is in doubt.
	EvidenceAtLeastOnce OnLostEvidence = "at_least_once"
)

// ProducerName says what becomes of the producer name in a message's metadata.
type ProducerName string

// The values of the key "producer_name".
const (
	// ProducerSuffix makes it name@cluster.
	ProducerSuffix ProducerName = "suffix"
	// ProducerOriginal keeps it; not for targets with deduplication on.
	ProducerOriginal ProducerName = "original"
)

// VerifyStamps says how often an entry is opened only to check its stamp.
type VerifyStamps string

// VerifyNever is the only supported value of the key "verify_stamps" so far.
const VerifyNever VerifyStamps = "never"

// Mapping is one topic copied from one cluster to another.
type Mapping struct {
	// Name matches [a-z0-9-]{1,63}, is unique, and is the metric label.
	Name string
	// Subscription is the recorded subscription at the source.
	Subscription string
	From, To     Endpoint

	Start             Start
	Split             Split
	OnUnroutable      OnUnroutable
	OnGap             OnGap
	OnLostEvidence    OnLostEvidence
	Guard             bool
	ProducerName      ProducerName
	ForwardReplicated bool
	VerifyStamps      VerifyStamps
}

// Endpoint is a topic in a cluster.
type Endpoint struct {
	// Cluster is a key of [Config.Clusters].
	Cluster string
	// Topic is topic://tenant/namespace/name; templates are already expanded.
	Topic string
}

// State says where geobridge keeps its own topics.
type State struct {
	// Namespace is tenant/namespace, or "" for each topic's own namespace.
	Namespace string
}

// HTTP is the endpoint for probes, metrics and status.
type HTTP struct {
	// Listen is host:port; an empty host is every interface.
	Listen string
}

// LogFormat is the form of a log line.
type LogFormat string

// The values of the key "log.format".
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// Log says what is logged to stderr, and how.
type Log struct {
	// Level is debug, info, warn or error, as [log/slog.Level.UnmarshalText] reads them.
	Level  string
	Format LogFormat
}
