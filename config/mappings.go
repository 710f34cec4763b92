package config

import (
	"strconv"

	"gopkg.in/yaml.v3"
)

// A placed mapping remembers where its keys stand, for the rules between mappings.
type placed struct {
	*Mapping
	entry                                      *object
	name, subscription, from, to, forwardAgain *yaml.Node
}

func (r *reader) readMappings(top *object, cfg *Config) []Mapping {
	base := Mapping{
		Start: StartEarliest, Split: SplitBucket, OnUnroutable: UnroutablePark, Guard: true,
		OnGap: GapContinue, OnLostEvidence: EvidenceStop, ProducerName: ProducerSuffix, VerifyStamps: VerifyNever,
	}
	if n := top.take("defaults"); n != nil {
		o := r.object(n, "defaults")
		readChoices(o, &base)
		o.refuse("belongs to each mapping and has no default: move it there", "name", "from", "to", "subscription")
		o.finish()
	}
	n := top.take("mappings")
	if n == nil {
		if _, blank := top.field["mappings"]; !blank {
			top.require("mappings", "list what to copy, or write [] for nothing yet")
		}
		return nil
	}
	list := resolve(n)
	if list.Kind != yaml.SequenceNode {
		r.fail(n, "mappings", "must be a list, not %s", kindName(list))
		return nil
	}
	out, at := make([]Mapping, len(list.Content)), make([]placed, len(list.Content))
	for i, entry := range list.Content {
		out[i] = base
		at[i] = r.readMapping(r.object(entry, "mappings["+strconv.Itoa(i)+"]"), &out[i], cfg)
	}
	r.between(at)
	return out
}

// readChoices reads the keys that defaults may hold too.
func readChoices(o *object, m *Mapping) {
	oneOf(o, "start", &m.Start, StartEarliest, StartLatest)
	oneOf(o, "split", &m.Split, SplitBucket, SplitMessage)
	oneOf(o, "on_unroutable", &m.OnUnroutable, UnroutablePark, UnroutableStop)
	o.flag("guard", &m.Guard)
	oneOf(o, "producer_name", &m.ProducerName, ProducerSuffix, ProducerOriginal)
	o.flag("forward_replicated", &m.ForwardReplicated)
	readVerifyStamps(o, &m.VerifyStamps)
	oneOf(o, "on_gap", &m.OnGap, GapContinue, GapStop)
	oneOf(o, "on_lost_evidence", &m.OnLostEvidence, EvidenceStop, EvidenceAtLeastOnce)
	o.notYet("paused", "rate_limit")
}

func readVerifyStamps(o *object, v *VerifyStamps) {
	const sample, always VerifyStamps = "sample", "always"
	oneOf(o, "verify_stamps", v, VerifyNever, sample, always)
	if *v != VerifyNever {
		o.r.fail(o.at("verify_stamps"), o.sub("verify_stamps"), "%q is not yet supported by this version: write never", *v)
		*v = VerifyNever
	}
}

func (r *reader) readMapping(o *object, m *Mapping, cfg *Config) placed {
	if o.require("name", "it is how commands and metrics call the mapping") {
		o.text("name", &m.Name, checkMappingName)
		if o.isEmptyText(o.take("name")) {
			r.fail(o.at("name"), o.sub("name"), "must not be empty")
		}
	}
	o.text("subscription", &m.Subscription, checkSubscription)
	p := placed{Mapping: m, entry: o}
	p.from, p.to = r.readEnds(o, m, cfg.Clusters)
	readChoices(o, m)
	if to, ok := cfg.Clusters[m.To.Cluster]; ok && m.Subscription == "" && m.Name != "" {
		m.Subscription = "geobridge." + cfg.Group + "." + to.ClusterName + "." + m.Name
	}
	o.finish()
	p.name, p.subscription, p.forwardAgain = o.at("name"), o.at("subscription"), o.at("forward_replicated")
	return p
}

// readEnds reads from and to, and returns where to report something about either.
func (r *reader) readEnds(o *object, m *Mapping, clusters map[string]Cluster) (from, to *yaml.Node) {
	var tenant, ns, name string
	if o.require("from", "{cluster: ..., topic: ...}") {
		e := r.object(o.take("from"), o.sub("from"))
		readCluster(e, &m.From.Cluster, clusters)
		e.notYet("namespace", "match", "exclude")
		if e.field["namespace"].key != nil {
			e.known["topic"] = true
		} else if e.require("topic", "write topic://tenant/namespace/name") {
			e.text("topic", &m.From.Topic)
			var problem string
			if tenant, ns, name, problem = splitTopic(m.From.Topic); problem != "" && m.From.Topic != "" {
				r.fail(e.at("topic"), e.sub("topic"), "%s", problem)
				m.From.Topic = ""
			}
		}
		e.finish()
	}
	if o.require("to", "{cluster: ...}, and topic where it is to have another name") {
		e := r.object(o.take("to"), o.sub("to"))
		readCluster(e, &m.To.Cluster, clusters)
		template := "topic://{tenant}/{namespace}/{topic}"
		e.text("topic", &template, checkTopicOrTemplate)
		if m.From.Topic != "" {
			m.To.Topic = fillTemplate(template, tenant, ns, name)
		}
		e.finish()
	}
	return o.at("from"), o.at("to")
}

func readCluster(e *object, dst *string, clusters map[string]Cluster) {
	if !e.require("cluster", clusterKeys(clusters)) {
		return
	}
	var s string
	e.text("cluster", &s)
	if _, ok := clusters[s]; !ok {
		if s != "" || e.isEmptyText(e.take("cluster")) {
			e.r.fail(e.at("cluster"), e.sub("cluster"), "unknown cluster %s: %s", quote(s), clusterKeys(clusters))
		}
		return
	}
	*dst = s
}
