package pulsartest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// What may be granted to a role, and what may not.
const (
	mayProduce = "produce"
	mayConsume = "consume"
	superuser  = "admin" // the role that may do everything
)

// Grant gives a role rights on a namespace: produce, consume. Without Options.Role they
// mean nothing.
func (c *Cluster) Grant(namespace, role string, actions ...string) {
	c.locked(func() {
		key := [2]string{namespace, role}
		c.core.grants[key] = append(c.core.grants[key], actions...)
	})
}

// allowed tells whether a role may do any of the actions; nobody but a superuser, where
// there are none.
func (c *core) allowed(role, namespace string, actions ...string) bool {
	return c.opts.Role == nil || role == superuser ||
		slices.ContainsFunc(c.grants[[2]string{namespace, role}], func(a string) bool { return slices.Contains(actions, a) })
}

// unauthorized judges a command by the least right that it needs (P35).
func (c *conn) unauthorized(f *frame.Frame) *refusal {
	namespace := namespaceOf(c.topicOf(f))
	var actions []string
	switch f.Type {
	case pulsarpb.BaseCommand_LOOKUP, pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP:
		actions = []string{mayProduce, mayConsume}
	case pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS:
		namespace, actions = f.Command.GetWatchScalableTopics().GetNamespace(), []string{mayProduce, mayConsume}
	case pulsarpb.BaseCommand_PRODUCER:
		actions = []string{mayProduce}
	case pulsarpb.BaseCommand_SUBSCRIBE, pulsarpb.BaseCommand_SCALABLE_TOPIC_SUBSCRIBE:
		actions = []string{mayConsume}
	default:
		return nil
	}
	if c.broker.cluster.core.allowed(c.role, namespace, actions...) {
		return nil
	}
	return refuse(pulsarpb.ServerError_AuthorizationError, "Client is not authorized to "+f.Type.String())
}

// need is the least right for a REST call, and the answer without it (P35): 401 about
// topics, 403 about namespaces and about what changes a layout.
type need struct {
	code    int
	actions []string // none: a superuser, or here nobody else, the tenant's admin
}

func needOf(pattern string) need {
	method, path, _ := strings.Cut(pattern, " ")
	switch rest := path[strings.LastIndexByte(path, '/')+1:]; {
	case strings.Contains(path, "/subscriptions/"), strings.Contains(path, "/subscription/"), rest == "subscriptions":
		return need{http.StatusUnauthorized, []string{mayConsume}}
	case rest == "stats", method == http.MethodGet && strings.HasSuffix(path, "scalable/{tenant}/{ns}/{topic}"):
		return need{http.StatusUnauthorized, []string{mayProduce, mayConsume}}
	case strings.HasSuffix(path, "scalable/{tenant}/{ns}"):
		return need{http.StatusForbidden, []string{mayProduce, mayConsume}}
	case rest == "compaction", rest == "unload", rest == "runtime":
		return need{http.StatusUnauthorized, nil}
	}
	return need{http.StatusForbidden, nil}
}

// guarded lets a REST call through to whose right suffices.
func (a admin) guarded(pattern string, f func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	least := needOf(pattern)
	return func(r *http.Request) (any, error) {
		allowed := true
		a.locked(func() {
			if role := a.core.opts.Role; role != nil {
				allowed = a.core.allowed(role("token", bearer(r)), namespace(r), least.actions...)
			}
		})
		if !allowed {
			return nil, status{least.code, "Unauthorized to " + pattern}
		}
		return f(r)
	}
}

func bearer(r *http.Request) []byte {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return []byte(token)
}

func (a admin) grant(r *http.Request) (any, error) {
	var actions []string
	if err := json.NewDecoder(r.Body).Decode(&actions); err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	a.Grant(namespace(r), r.PathValue("role"), actions...)
	return nil, nil
}
