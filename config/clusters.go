package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

func (r *reader) readClusters(top *object) map[string]Cluster {
	out := map[string]Cluster{}
	if !top.require("clusters", "name two or more") {
		return out
	}
	list, each := r.object(top.take("clusters"), "clusters"), map[string]*object{}
	for _, key := range list.keys {
		f := list.field[key]
		list.known[key] = true
		if problem := checkClusterKey()(key); problem != "" {
			r.fail(f.key, "clusters", "cluster key %s", problem)
		}
		each[key] = r.object(f.value, list.sub(key))
		out[key] = r.readCluster(key, each[key])
	}
	if n := len(list.keys); n < 2 && resolve(top.take("clusters")).Kind == yaml.MappingNode {
		r.fail(top.field["clusters"].key, "clusters", "has %d of the two or more that it needs: add the other end", n)
	}
	for _, rule := range []distinctRule{
		{"cluster_name", "each cluster needs its own Pulsar name, for loops are told by it", func(c Cluster) string { return c.ClusterName }},
		{"service_url", "two names for one cluster would copy it onto itself", func(c Cluster) string { return c.ServiceURL }},
	} {
		r.distinct(rule, list.keys, each, out)
	}
	return out
}

// A distinctRule is a key in which all clusters must differ, and why.
type distinctRule struct {
	key, why string
	value    func(Cluster) string
}

func (r *reader) distinct(rule distinctRule, keys []string, each map[string]*object, clusters map[string]Cluster) {
	first := map[string]string{}
	for _, name := range keys {
		v := rule.value(clusters[name])
		if other, twice := first[v]; twice && v != "" {
			r.fail(each[name].at(rule.key), each[name].sub(rule.key), "is the same as cluster %s's: %s", other, rule.why)
			continue
		}
		first[v] = name
	}
}

func (r *reader) readCluster(key string, o *object) Cluster {
	c := Cluster{Key: key, ClusterName: key, ConnectionsPerBroker: 1, ConnectTimeout: 10 * time.Second, OperationTimeout: 30 * time.Second}
	nonEmpty(o, "cluster_name", &c.ClusterName, checkEntity())
	if o.require("service_url", "pulsar://host:6650 or pulsar+ssl://host:6651") {
		o.url("service_url", &c.ServiceURL, normalServiceURL)
	}
	if o.require("admin_url", "subscriptions are recorded through it, http://host:8080 or https://host:8443") {
		o.url("admin_url", &c.AdminURL, normalAdminURL)
	}
	o.text("listener_name", &c.ListenerName, letters("._-", 200, "must be letters, digits, dots, _ and -"))
	o.number("connections_per_broker", &c.ConnectionsPerBroker, 1, 64)
	o.duration("connect_timeout", &c.ConnectTimeout, 100*time.Millisecond, 10*time.Minute)
	o.duration("operation_timeout", &c.OperationTimeout, time.Second, 10*time.Minute)
	if n := o.take("auth"); n != nil {
		c.Auth = r.readAuth(r.object(n, o.sub("auth")))
	}
	if n := o.take("tls"); n != nil {
		c.TLS = r.readTLS(r.object(n, o.sub("tls")))
		plain := strings.HasPrefix(c.ServiceURL, "pulsar://") && strings.HasPrefix(c.AdminURL, "http://")
		if plain && c.TLS != (TLS{}) {
			r.fail(o.field["tls"].key, o.sub("tls"), "is set, but neither URL uses TLS: write pulsar+ssl:// and https://, or remove it")
		}
	}
	o.finish()
	return c
}

// url reads a URL, never repeating it in a message: it may hold a password.
func (o *object) url(key string, dst *string, normal func(string) (string, string)) {
	var s, problem string
	before := len(o.r.errs)
	o.text(key, &s)
	if len(o.r.errs) > before {
		return
	}
	if *dst, problem = normal(s); problem != "" {
		o.r.fail(o.take(key), o.sub(key), "%s", problem)
	}
}

func (r *reader) readAuth(o *object) Auth {
	var a Auth
	o.text("token_file", &a.TokenFile)
	o.text("token_env", &a.TokenEnv)
	o.notYet("basic", "oauth2", "tls")
	o.refuse("would be a secret in this file, which is refused: name a file by token_file or a variable by token_env",
		"token", "password", "secret", "params", "auth_params")
	o.finish()
	switch _, set := r.env(a.TokenEnv); {
	case a.TokenFile != "" && a.TokenEnv != "":
		r.fail(o.field["token_env"].key, o.path, "has both token_file and token_env: remove one")
	case a.TokenEnv == "":
	case !isVariableName(a.TokenEnv):
		// Not repeated: it may be the token itself, put here by mistake.
		r.fail(o.at("token_env"), o.sub("token_env"), "is not the name of an environment variable (letters, digits and _)")
	case !set:
		r.fail(o.at("token_env"), o.sub("token_env"), "environment variable %s is not set: set it to the token", a.TokenEnv)
	}
	return a
}

func (r *reader) readTLS(o *object) TLS {
	var t TLS
	o.text("ca_file", &t.CAFile)
	o.text("cert_file", &t.CertFile)
	o.text("key_file", &t.KeyFile)
	o.text("server_name", &t.ServerName)
	o.flag("insecure_skip_verify", &t.InsecureSkipVerify)
	o.finish()
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		r.fail(o.at("cert_file"), o.sub("cert_file"), "needs key_file beside it")
	case t.CertFile == "" && t.KeyFile != "":
		r.fail(o.at("key_file"), o.sub("key_file"), "needs cert_file beside it")
	}
	return t
}

// clusterKeys lists the clusters for a message.
func clusterKeys(clusters map[string]Cluster) string {
	if len(clusters) == 0 {
		return "there are no clusters"
	}
	return fmt.Sprintf("the clusters are %s", strings.Join(slices.Sorted(maps.Keys(clusters)), ", "))
}
