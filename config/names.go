package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A check returns what is wrong with a value, and what to do about it; "" if nothing is.
type check func(string) string

// letters is a check for 1 to limit ASCII letters, digits and the characters of extra.
func letters(extra string, limit int, must string) check {
	return func(s string) string {
		if isLetters(s, extra, limit) {
			return ""
		}
		return quote(s) + " " + must
	}
}

func isLetters(s, extra string, limit int) bool {
	for _, c := range []byte(s) {
		plain := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !plain && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= limit
}

func checkMappingName(s string) string {
	if isLetters(s, "-", 63) && s == strings.ToLower(s) {
		return ""
	}
	return quote(s) + " must be 1 to 63 of a-z, 0-9 and -"
}

// checkGroup leaves out the dot, which separates the parts of the names made from a group.
func checkGroup() check { return letters("_-", 63, "must be 1 to 63 letters, digits, _ and -") }

func checkInstance() check {
	return letters("._-", 200, "must be up to 200 letters, digits, dots, _ and -")
}

func checkClusterKey() check {
	return letters("._-", 63, "must be 1 to 63 letters, digits, dots, _ and -")
}

// checkEntity is Pulsar's own rule for the names of clusters, tenants and namespaces.
func checkEntity() check { return letters("-=:._", 200, "must be up to 200 letters, digits and -=:._") }

func checkSubscription(s string) string {
	switch {
	case !isLetters(s, "-._~:=@+", 200):
		return quote(s) + " must be up to 200 letters, digits and -._~:=@+"
	case strings.HasPrefix(s, "geobridge-guard."):
		return quote(s) + " starts like a guard subscription (geobridge-guard.): choose another name"
	}
	return ""
}

func checkNamespace(s string) string {
	tenant, ns, _ := strings.Cut(s, "/")
	if isEntity(tenant) && isEntity(ns) {
		return ""
	}
	return quote(s) + " must be tenant/namespace"
}

func isEntity(s string) bool {
	return isLetters(s, "-=:._", 200) && s != "." && s != ".."
}

// splitTopic takes topic://tenant/namespace/name apart. The broker closes the whole connection over a malformed name,
// so none is ever sent.
func splitTopic(s string) (tenant, ns, name, problem string) {
	const form = "write topic://tenant/namespace/name"
	switch {
	case strings.HasPrefix(s, "persistent://"), strings.HasPrefix(s, "non-persistent://"):
		return "", "", "", quote(s) + " is a regular topic, and geobridge copies scalable topics: " + form
	case strings.HasPrefix(s, "segment://"):
		return "", "", "", quote(s) + " is one segment of a topic; name the whole topic: " + form
	}
	local, isTopic := strings.CutPrefix(s, "topic://")
	parts := strings.Split(local, "/")
	if !isTopic || len(parts) != 3 {
		return "", "", "", quote(s) + " is not a scalable topic: " + form
	}
	if !isEntity(parts[0]) || !isEntity(parts[1]) {
		return "", "", "", quote(s) + " has a tenant or namespace with other than letters, digits and -=:._: " + form
	}
	if strings.ContainsAny(parts[2], "*?[]") {
		return "", "", "", quote(s) + ": patterns are not yet supported by this version; name one topic"
	}
	if !isLocalName(parts[2]) {
		return "", "", "", quote(s) + ` has a name that is empty or holds spaces or one of \#%{}: ` + form
	}
	return parts[0], parts[1], parts[2], ""
}

func isLocalName(s string) bool {
	bad := func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(`\#%{}`, r)
	}
	return s != "" && len(s) <= 200 && s != "." && s != ".." && !strings.ContainsFunc(s, bad)
}

// fillTemplate replaces {tenant}, {namespace} and {topic} in a target's topic by the parts of its source.
func fillTemplate(template, tenant, ns, name string) string {
	return strings.NewReplacer("{tenant}", tenant, "{namespace}", ns, "{topic}", name).Replace(template)
}

// checkTopicOrTemplate judges a template by filling it with names that are always right.
func checkTopicOrTemplate(s string) string {
	if _, _, _, problem := splitTopic(fillTemplate(s, "t", "n", "x")); problem == "" {
		return ""
	} else if strings.ContainsAny(s, "{}") {
		return quote(s) + " is not a topic://tenant/namespace/name with {tenant}, {namespace} and {topic} as its only templates"
	} else {
		return problem
	}
}

// normalServiceURL checks a service URL and gives each host its port.
func normalServiceURL(s string) (normal, problem string) {
	const form = "write pulsar://host:6650 or pulsar+ssl://host:6651, more hosts after commas"
	scheme, hosts, _ := strings.Cut(s, "://")
	port := map[string]string{"pulsar": "6650", "pulsar+ssl": "6651"}[scheme]
	if port == "" {
		return "", "is not a service URL: " + form
	}
	var out []string
	for h := range strings.SplitSeq(strings.TrimSuffix(hosts, "/"), ",") {
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p = strings.Trim(h, "[]"), port
		}
		if !isHost(host) || !isPort(p, 1) {
			return "", "has a host that is not host or host:port: " + form
		}
		if hp := net.JoinHostPort(host, p); !slices.Contains(out, hp) {
			out = append(out, hp)
		}
	}
	return scheme + "://" + strings.Join(out, ","), ""
}

func normalAdminURL(s string) (normal, problem string) {
	const form = "write http://host:8080 or https://host:8443"
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !isHost(u.Hostname()):
		return "", "is not an admin URL: " + form
	case u.Port() != "" && !isPort(u.Port(), 1):
		return "", "has a port that is not 1 to 65535: " + form
	case u.User != nil:
		return "", "holds a user or password, and inline secrets are refused: use auth"
	case u.RawQuery != "" || u.Fragment != "":
		return "", "has a query or fragment: " + form
	}
	return strings.TrimRight(s, "/"), ""
}

func isHost(s string) bool {
	if ip := net.ParseIP(s); ip != nil {
		return true
	}
	return isLetters(s, "._-", 253) && !strings.ContainsAny(s[:1], ".-") && !strings.HasSuffix(s, "-")
}

func isPort(s string, low int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && low <= n && n <= 65535 && strconv.Itoa(n) == s
}

func checkListen(s string) string {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host != "" && !isHost(host) || !isPort(port, 0) {
		return fmt.Sprintf("%s is not host:port: write 127.0.0.1:9464, or :9464 for every interface", quote(s))
	}
	return ""
}
