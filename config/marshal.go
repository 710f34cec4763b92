package config

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// Marshal writes c as YAML that [Parse] reads back to an equal Config: every default written out, every template
// filled, nothing left to the environment.
func (c *Config) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(c.document()); err != nil {
		return nil, fmt.Errorf("write the configuration as YAML: %w", err)
	}
	return b.Bytes(), nil
}

// The document types fix the order of the keys, which maps would not.
type (
	document struct {
		Version            int                        `yaml:"version"`
		Group              string                     `yaml:"group"`
		Instance           string                     `yaml:"instance"`
		Clusters           map[string]clusterDocument `yaml:"clusters"`
		Mappings           []mappingDocument          `yaml:"mappings"`
		State              map[string]string          `yaml:"state"`
		MemoryLimit        string                     `yaml:"memory_limit"`
		CheckpointInterval string                     `yaml:"checkpoint_interval"`
		StallTimeout       string                     `yaml:"stall_timeout"`
		ShutdownTimeout    string                     `yaml:"shutdown_timeout"`
		HTTP               map[string]string          `yaml:"http"`
		Log                map[string]string          `yaml:"log"`
	}
	clusterDocument struct {
		ClusterName          string            `yaml:"cluster_name"`
		ServiceURL           string            `yaml:"service_url"`
		AdminURL             string            `yaml:"admin_url"`
		ListenerName         string            `yaml:"listener_name"`
		Auth                 map[string]string `yaml:"auth,omitempty"`
		TLS                  *tlsDocument      `yaml:"tls,omitempty"`
		ConnectionsPerBroker int               `yaml:"connections_per_broker"`
		ConnectTimeout       string            `yaml:"connect_timeout"`
		OperationTimeout     string            `yaml:"operation_timeout"`
	}
	tlsDocument struct {
		CAFile             string `yaml:"ca_file"`
		CertFile           string `yaml:"cert_file"`
		KeyFile            string `yaml:"key_file"`
		ServerName         string `yaml:"server_name"`
		InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
	}
	mappingDocument struct {
		Name              string           `yaml:"name"`
		Subscription      string           `yaml:"subscription"`
		From              endpointDocument `yaml:"from,flow"`
		To                endpointDocument `yaml:"to,flow"`
		Start             Start            `yaml:"start"`
		Split             Split            `yaml:"split"`
		OnUnroutable      OnUnroutable     `yaml:"on_unroutable"`
		OnGap             OnGap            `yaml:"on_gap"`
		OnLostEvidence    OnLostEvidence   `yaml:"on_lost_evidence"`
		Guard             bool             `yaml:"guard"`
		ProducerName      ProducerName     `yaml:"producer_name"`
		ForwardReplicated bool             `yaml:"forward_replicated"`
		VerifyStamps      VerifyStamps     `yaml:"verify_stamps"`
	}
	endpointDocument struct {
		Cluster string `yaml:"cluster"`
		Topic   string `yaml:"topic"`
	}
)

// literal keeps a dollar sign from being read as a variable.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func (c *Config) document() document {
	d := document{
		Version: c.Version, Group: c.Group, Instance: c.Instance,
		Clusters: map[string]clusterDocument{}, Mappings: []mappingDocument{},
		State: map[string]string{"namespace": c.State.Namespace}, MemoryLimit: formatSize(c.MemoryLimit),
		CheckpointInterval: formatDuration(c.CheckpointInterval), StallTimeout: formatDuration(c.StallTimeout), ShutdownTimeout: formatDuration(c.ShutdownTimeout),
		HTTP: map[string]string{"listen": c.HTTP.Listen},
		Log:  map[string]string{"level": c.Log.Level, "format": string(c.Log.Format)},
	}
	for key, cl := range c.Clusters {
		d.Clusters[key] = cl.document()
	}
	for _, m := range c.Mappings {
		d.Mappings = append(d.Mappings, mappingDocument{
			Name: m.Name, Subscription: m.Subscription,
			From:  endpointDocument{m.From.Cluster, literal(m.From.Topic)},
			To:    endpointDocument{m.To.Cluster, literal(m.To.Topic)},
			Start: m.Start, Split: m.Split, OnUnroutable: m.OnUnroutable, OnGap: m.OnGap, OnLostEvidence: m.OnLostEvidence, Guard: m.Guard,
			ProducerName: m.ProducerName, ForwardReplicated: m.ForwardReplicated, VerifyStamps: m.VerifyStamps,
		})
	}
	return d
}

func (c Cluster) document() clusterDocument {
	d := clusterDocument{
		ClusterName: c.ClusterName, ServiceURL: c.ServiceURL, AdminURL: literal(c.AdminURL), ListenerName: c.ListenerName,
		ConnectionsPerBroker: c.ConnectionsPerBroker,
		ConnectTimeout:       formatDuration(c.ConnectTimeout), OperationTimeout: formatDuration(c.OperationTimeout),
	}
	switch {
	case c.Auth.TokenFile != "":
		d.Auth = map[string]string{"token_file": literal(c.Auth.TokenFile)}
	case c.Auth.TokenEnv != "":
		d.Auth = map[string]string{"token_env": c.Auth.TokenEnv}
	}
	if t := c.TLS; t != (TLS{}) {
		d.TLS = &tlsDocument{literal(t.CAFile), literal(t.CertFile), literal(t.KeyFile), literal(t.ServerName), t.InsecureSkipVerify}
	}
	return d
}

// Hash is the same text for equal configurations. The instance is left out, so that the instances of a group can be
// compared.
func (c *Config) Hash() (string, error) {
	group := *c
	group.Instance = ""
	text, err := group.Marshal()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}
