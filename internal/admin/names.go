package admin

import (
	"fmt"
	"net/url"
	"strings"
)

const (
	scalableScheme = "topic://"
	regularScheme  = "persistent://"
)

// topicPath is the REST path of a topic: /admin/v2/<kind>/tenant/namespace/name
// and what follows, each part escaped.
func topicPath(scheme, kind, topic string, more ...string) (string, error) {
	rest, ok := strings.CutPrefix(topic, scheme)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return "", fmt.Errorf("%w: %q is not %stenant/namespace/name", ErrName, topic, scheme)
	}
	return escape("/admin/v2/"+kind, append(parts, more...)...)
}

func scalablePath(topic string, more ...string) (string, error) {
	return topicPath(scalableScheme, "scalable", topic, more...)
}

func regularPath(topic string, more ...string) (string, error) {
	return topicPath(regularScheme, "persistent", topic, more...)
}

func namespacePath(kind, namespace string) (string, error) {
	parts := strings.Split(namespace, "/")
	if len(parts) != 2 {
		return "", fmt.Errorf("%w: %q is not tenant/namespace", ErrName, namespace)
	}
	return escape("/admin/v2/"+kind, parts...)
}

// escape joins parts to a path. A part that is empty, dots, or has a slash
// cannot be addressed over REST: brokers answer 404 to an escaped slash, which
// would read as "not found" (broker 5.0.1, observed).
func escape(prefix string, parts ...string) (string, error) {
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.Contains(part, "/") {
			return "", fmt.Errorf("%w: %q", ErrName, part)
		}
		prefix += "/" + url.PathEscape(part)
	}
	return prefix, nil
}
