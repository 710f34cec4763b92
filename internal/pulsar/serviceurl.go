package pulsar

import (
	"fmt"
	"net"
	"strings"
)

// serviceURL is a parsed service URL: whether TLS is wanted, and the hosts.
type serviceURL struct {
	tls   bool
	hosts []string // host:port each
}

// parseServiceURL reads pulsar://a:6650,b:6650 and pulsar+ssl://…; the port
// defaults to 6650, with TLS to 6651.
func parseServiceURL(s string) (serviceURL, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return serviceURL{}, fmt.Errorf("service URL %q: want pulsar://host:port or pulsar+ssl://host:port", s)
	}
	u := serviceURL{}
	port := "6650"
	switch scheme {
	case "pulsar":
	case "pulsar+ssl":
		u.tls, port = true, "6651"
	default:
		return serviceURL{}, fmt.Errorf("service URL %q: unknown scheme %q", s, scheme)
	}
	for host := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		addr, err := hostPort(strings.TrimSpace(host), port)
		if err != nil {
			return serviceURL{}, fmt.Errorf("service URL %q: %w", s, err)
		}
		u.hosts = append(u.hosts, addr)
	}
	return u, nil
}

// scheme is the URL scheme that goes with u.
func (u serviceURL) scheme() string {
	if u.tls {
		return "pulsar+ssl://"
	}
	return "pulsar://"
}

// hostPort adds the default port, also to [::1] and ::1.
func hostPort(s, port string) (string, error) {
	if s == "" || strings.ContainsAny(s, "/ @?#") {
		return "", fmt.Errorf("bad host %q", s)
	}
	if host, p, err := net.SplitHostPort(s); err == nil {
		if host == "" || p == "" {
			return "", fmt.Errorf("bad host %q", s)
		}
		return s, nil
	}
	host := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", fmt.Errorf("bad host %q", s)
	}
	return net.JoinHostPort(host, port), nil
}
