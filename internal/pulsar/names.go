package pulsar

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrInvalidName is a topic, namespace, subscription or producer name that was
// refused before it was sent: a broker answers a malformed topic name by
// closing the whole connection (broker 5.0.1, observed).
var ErrInvalidName = errors.New("invalid name")

// checkOpenable accepts the topics a producer or a consumer may be opened on.
// Opening either on topic:// succeeds, and leaves a phantom topic behind that
// breaks the broker's metrics page (broker 5.0.1, observed).
func checkOpenable(topic string) error {
	if strings.HasPrefix(topic, "topic://") {
		return badName("topic", topic, "a scalable topic has no log of its own, name one of its segments")
	}
	return checkTopic(topic)
}

// checkTopic accepts persistent://tenant/ns/name, topic://tenant/ns/name and
// segment://tenant/ns/name/descriptor.
func checkTopic(topic string) error {
	scheme, rest, ok := strings.Cut(topic, "://")
	if !ok {
		return badName("topic", topic, "want scheme://tenant/namespace/name")
	}
	parts := strings.Split(rest, "/")
	want := 3
	switch scheme {
	case "persistent", "topic":
	case "segment":
		want = 4
	default:
		return badName("topic", topic, "unknown scheme "+scheme)
	}
	if len(parts) != want {
		return badName("topic", topic, fmt.Sprintf("want %d parts after ://, got %d", want, len(parts)))
	}
	if err := checkNamespaceParts("topic", topic, parts[0], parts[1]); err != nil {
		return err
	}
	if reason := badText(parts[2]); reason != "" {
		return badName("topic", topic, "local name "+reason)
	}
	if want == 4 && !isNamedEntity(parts[3]) {
		return badName("topic", topic, "malformed segment descriptor")
	}
	return nil
}

// checkNamespace accepts tenant/namespace.
func checkNamespace(namespace string) error {
	parts := strings.Split(namespace, "/")
	if len(parts) != 2 {
		return badName("namespace", namespace, "want tenant/namespace")
	}
	return checkNamespaceParts("namespace", namespace, parts[0], parts[1])
}

func checkNamespaceParts(kind, name, tenant, namespace string) error {
	if !isNamedEntity(tenant) {
		return badName(kind, name, "malformed tenant")
	}
	if !isNamedEntity(namespace) {
		return badName(kind, name, "malformed namespace")
	}
	return nil
}

// checkText accepts subscription, consumer and producer names.
func checkText(kind, name string) error {
	if reason := badText(name); reason != "" {
		return badName(kind, name, reason)
	}
	return nil
}

func badText(s string) string {
	switch {
	case s == "":
		return "is empty"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has a control character"
	}
	return ""
}

// isNamedEntity is the rule for tenants and namespaces: letters, digits and
// -=:._ only.
func isNamedEntity(s string) bool {
	for _, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("-=:._", r) {
			return false
		}
	}
	return s != ""
}

func badName(kind, name, reason string) error {
	return fmt.Errorf("%w: %s %q: %s", ErrInvalidName, kind, name, reason)
}
