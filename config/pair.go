package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pair is the two clusters that one process serves, by their keys, in alphabetical order.
type Pair struct{ A, B string }

func newPair(a, b string) Pair { return Pair{min(a, b), max(a, b)} }

// String renders A,B, as --pair takes it.
func (p Pair) String() string { return p.A + "," + p.B }

// Pairs lists the pairs of clusters that have mappings, sorted.
func (c *Config) Pairs() []Pair {
	var out []Pair
	for _, m := range c.Mappings {
		if p := newPair(m.From.Cluster, m.To.Cluster); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Pair) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// SelectPair reads the value of --pair, "A,B" in either order. "" stands for the only pair there is: the one that has
// mappings, or the two clusters of a configuration of two. Where there are more, the error lists them.
func (c *Config) SelectPair(flag string) (Pair, error) {
	pairs := c.Pairs()
	if flag != "" {
		return c.parsePair(flag)
	}
	switch {
	case len(pairs) == 1:
		return pairs[0], nil
	case len(pairs) == 0 && len(c.Clusters) == 2:
		var keys []string
		for key := range c.Clusters {
			keys = append(keys, key)
		}
		return newPair(keys[0], keys[1]), nil
	case len(pairs) == 0:
		return Pair{}, fmt.Errorf("one process serves one pair of clusters: choose it by --pair A,B; %s", clusterKeys(c.Clusters))
	}
	choices := make([]string, len(pairs))
	for i, p := range pairs {
		choices[i] = "--pair " + p.String()
	}
	return Pair{}, fmt.Errorf("one process serves one pair of clusters, and the mappings are of more: choose one of %s", strings.Join(choices, ", "))
}

func (c *Config) parsePair(flag string) (Pair, error) {
	a, b, found := strings.Cut(flag, ",")
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	if !found || a == b {
		return Pair{}, errors.New("--pair must name two clusters, like --pair east,west")
	}
	for _, key := range []string{a, b} {
		if _, ok := c.Clusters[key]; !ok {
			return Pair{}, fmt.Errorf("--pair names an unknown cluster %s: %s", quote(key), clusterKeys(c.Clusters))
		}
	}
	p := newPair(a, b)
	if pairs := c.Pairs(); len(pairs) > 0 && !slices.Contains(pairs, p) {
		var have []string
		for _, other := range pairs {
			have = append(have, other.String())
		}
		return Pair{}, fmt.Errorf("no mapping is between the clusters of --pair %s: the mappings are between %s", p, strings.Join(have, " and "))
	}
	return p, nil
}

// MappingsOf returns the mappings between the clusters of p, in either direction.
func (c *Config) MappingsOf(p Pair) []Mapping {
	var out []Mapping
	for _, m := range c.Mappings {
		if newPair(m.From.Cluster, m.To.Cluster) == p {
			out = append(out, m)
		}
	}
	return out
}
