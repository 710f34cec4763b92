package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// text sets dst to the expanded text of key, if it is there; with checks only where the text is not empty.
func (o *object) text(key string, dst *string, checks ...check) {
	n := o.take(key)
	if n == nil {
		return
	}
	s, ok := o.r.text(n, o.sub(key))
	if !ok {
		return
	}
	for _, c := range checks {
		if problem := c(s); s != "" && problem != "" {
			o.r.fail(n, o.sub(key), "%s", problem)
			return
		}
	}
	*dst = s
}

func (r *reader) text(n *yaml.Node, path string) (string, bool) {
	v := resolve(n)
	switch {
	case v.Kind != yaml.ScalarNode:
		r.fail(n, path, "must be text, not %s", kindName(v))
		return "", false
	case v.ShortTag() != "!!str":
		r.fail(n, path, "must be text, not %s: put it in quotes if it is meant so", kindName(v))
		return "", false
	}
	s, problem := expand(v.Value, r.env)
	if problem != "" {
		r.fail(n, path, "%s", problem)
		return "", false
	}
	return s, true
}

// oneOf reads one of a few words.
func oneOf[T ~string](o *object, key string, dst *T, allowed ...T) {
	var s string
	o.text(key, &s)
	switch n := o.take(key); {
	case n == nil || s == "" && !o.isEmptyText(n):
	case slices.Contains(allowed, T(s)):
		*dst = T(s)
	default:
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		o.r.fail(n, o.sub(key), "%s must be %s", quote(s), orList(words))
	}
}

// orList renders a, b or c.
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (o *object) isEmptyText(n *yaml.Node) bool {
	v := resolve(n)
	return v.Kind == yaml.ScalarNode && v.ShortTag() == "!!str" && v.Value == ""
}

func (o *object) flag(key string, dst *bool) {
	n := o.take(key)
	if n == nil {
		return
	}
	v := resolve(n)
	if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!bool" {
		o.r.fail(n, o.sub(key), "must be true or false, without quotes, not %s", kindName(v))
		return
	}
	*dst = strings.EqualFold(v.Value, "true")
}

func (o *object) number(key string, dst *int, low, high int) {
	n := o.take(key)
	if n == nil {
		return
	}
	v := resolve(n)
	i, err := strconv.Atoi(v.Value)
	switch {
	case v.Kind != yaml.ScalarNode || v.ShortTag() != "!!int" || err != nil:
		o.r.fail(n, o.sub(key), "must be a whole number, without quotes, not %s", kindName(v))
	case i < low || i > high:
		o.r.fail(n, o.sub(key), "%d is out of range: %d to %d", i, low, high)
	default:
		*dst = i
	}
}

func (o *object) duration(key string, dst *time.Duration, low, high time.Duration) {
	measured(o, key, dst, low, high, parseDuration, formatDuration)
}

func (o *object) size(key string, dst *int64, low, high int64) {
	measured(o, key, dst, low, high, parseSize, formatSize)
}

// measured reads a number that carries a unit.
func measured[T ~int64](o *object, key string, dst *T, low, high T, parse func(string) (T, error), format func(T) string) {
	n := o.take(key)
	if n == nil {
		return
	}
	v := resolve(n)
	if tag := v.ShortTag(); v.Kind == yaml.ScalarNode && (tag == "!!int" || tag == "!!float") {
		o.r.fail(n, o.sub(key), "%s needs a unit, like %s", quote(v.Value), format(*dst))
		return
	}
	s, ok := o.r.text(n, o.sub(key))
	if !ok {
		return
	}
	switch x, err := parse(s); {
	case err != nil:
		o.r.fail(n, o.sub(key), "%v", err)
	case x < low || x > high:
		o.r.fail(n, o.sub(key), "%s is out of range: %s to %s", s, format(low), format(high))
	default:
		*dst = x
	}
}
