package config

import (
	"slices"
	"strings"
)

// between reports what is wrong among mappings that may each be right. Mappings whose own form is wrong have empty
// fields and are left out.
func (r *reader) between(ms []placed) {
	names, ends, subs := map[string]placed{}, map[[2]Endpoint]placed{}, map[[3]string]placed{}
	for _, m := range ms {
		if first, twice := names[m.Name]; twice && m.Name != "" {
			r.fail(m.name, m.entry.sub("name"), "%q is the name of the mapping at line %d too: choose another", m.Name, first.entry.node.Line)
		} else {
			names[m.Name] = m
		}
		if m.From.Topic == "" || m.From.Cluster == "" || m.To.Cluster == "" || m.To.Topic == "" {
			continue
		}
		if m.From.Cluster == m.To.Cluster {
			r.sameCluster(m)
			continue
		}
		if first, twice := ends[[2]Endpoint{m.From, m.To}]; twice {
			r.fail(m.from, m.entry.path, "mappings %s and %s have equal ends, and would copy everything twice: remove one", first.Name, m.Name)
			continue
		}
		ends[[2]Endpoint{m.From, m.To}] = m
		sub := [3]string{m.From.Cluster, m.From.Topic, m.Subscription}
		if first, twice := subs[sub]; twice && m.Subscription != "" {
			r.fail(m.subscription, m.entry.sub("subscription"),
				"mappings %s and %s read one topic by one subscription, and each would miss what the other takes: rename one", first.Name, m.Name)
		} else {
			subs[sub] = m
		}
	}
	r.cycles(ms)
}

func (r *reader) sameCluster(m placed) {
	if m.From.Topic == m.To.Topic {
		r.fail(m.to, m.entry.sub("to"), "both ends are the same topic, %s in cluster %s: change one", m.To.Topic, m.To.Cluster)
		return
	}
	r.fail(m.to, m.entry.sub("to"), "both ends are in cluster %s: geobridge copies from one cluster to another", m.To.Cluster)
}

// cycles refuses rings of mappings that all forward what was replicated before: nothing would be told apart as having
// come round. A two-way pair without forward_replicated is fine.
func (r *reader) cycles(ms []placed) {
	from := map[Endpoint][]placed{}
	for _, m := range ms {
		if m.ForwardReplicated && m.From.Topic != "" && m.From.Cluster != m.To.Cluster {
			from[m.From] = append(from[m.From], m)
		}
	}
	done := map[Endpoint]bool{}
	var walk func(at Endpoint, path []placed)
	walk = func(at Endpoint, path []placed) {
		done[at] = true
		for _, m := range from[at] {
			path := append(slices.Clone(path), m)
			if i := slices.IndexFunc(path, func(p placed) bool { return p.From == m.To }); i >= 0 {
				r.ring(path[i:])
			} else if !done[m.To] {
				walk(m.To, path)
			}
		}
	}
	for _, m := range ms {
		if !done[m.From] {
			walk(m.From, nil)
		}
	}
}

func (r *reader) ring(ring []placed) {
	names := make([]string, len(ring))
	for i, m := range ring {
		names[i] = m.Name
	}
	first := slices.MinFunc(ring, func(a, b placed) int { return a.entry.node.Line - b.entry.node.Line })
	r.fail(first.forwardAgain, first.entry.sub("forward_replicated"),
		"mappings %s form a ring in which all forward what was replicated: set it to false in one", strings.Join(names, ", "))
}
