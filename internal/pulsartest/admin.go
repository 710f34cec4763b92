package pulsartest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Admin is the cluster's admin REST service: the paths that geobridge and its
// set-ups call (facts 13). Every broker answers for all topics, so there are no
// redirects. Options.Authenticate judges bearer tokens here too; without a good one
// the answer is 401, in HTML (P35).
func (c *Cluster) Admin() http.Handler {
	mux := http.NewServeMux()
	a := admin{c}
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"PUT /admin/v2/scalable/{tenant}/{ns}/{topic}":                               a.create,
		"GET /admin/v2/scalable/{tenant}/{ns}/{topic}":                               a.layout,
		"DELETE /admin/v2/scalable/{tenant}/{ns}/{topic}":                            a.remove,
		"GET /admin/v2/scalable/{tenant}/{ns}":                                       a.list,
		"GET /admin/v2/scalable/{tenant}/{ns}/{topic}/stats":                         a.stats,
		"GET /admin/v2/scalable/{tenant}/{ns}/{topic}/segments/{id}/stats":           a.segmentStats,
		"POST /admin/v2/scalable/{tenant}/{ns}/{topic}/split/{id}":                   a.split,
		"POST /admin/v2/scalable/{tenant}/{ns}/{topic}/merge/{id}/{other}":           a.merge,
		"POST /admin/v2/scalable/{tenant}/{ns}/{topic}/rebucket/{id}":                a.rebucket,
		"POST /admin/v2/scalable/{tenant}/{ns}/{topic}/autoScalePolicy":              a.autoScale,
		"PUT /admin/v2/scalable/{tenant}/{ns}/{topic}/subscriptions/{sub}":           a.subscription(c.RecordSubscription),
		"DELETE /admin/v2/scalable/{tenant}/{ns}/{topic}/subscriptions/{sub}":        a.subscription(c.DeleteSubscription),
		"POST /admin/v2/scalable/{tenant}/{ns}/{topic}/subscriptions/{sub}/skip-all": a.subscription(c.SkipAll),
		"PUT /admin/v2/persistent/{tenant}/{ns}/{topic}":                             a.createRegular,
		"PUT /admin/v2/persistent/{tenant}/{ns}/{topic}/subscription/{sub}":          a.ensureSubscription,
		"GET /admin/v2/persistent/{tenant}/{ns}/{topic}/subscriptions":               a.regularSubscriptions,
		"PUT /admin/v2/persistent/{tenant}/{ns}/{topic}/compaction":                  a.compact,
		"GET /admin/v2/persistent/{tenant}/{ns}/{topic}/compaction":                  a.compaction,
		"GET /admin/v2/namespaces/{tenant}/{ns}":                                     a.policies,
		"PUT /admin/v2/namespaces/{tenant}/{ns}":                                     a.createNamespace,
		"POST /admin/v2/namespaces/{tenant}/{ns}/backlogQuota":                       a.quota,
		"POST /admin/v2/namespaces/{tenant}/{ns}/deduplication":                      a.deduplicate,
		"POST /admin/v2/namespaces/{tenant}/{ns}/permissions/{role}":                 a.grant,
		"PUT /admin/v2/namespaces/{tenant}/{ns}/unload":                              a.unload,
		"GET /admin/v2/brokers/configuration/runtime":                                a.configuration,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { answer(w, r, a.guarded(pattern, f)) })
	}
	check := c.core.opts.Authenticate
	if check == nil {
		return mux
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !check("token", bearer(r)) {
			w.Header().Set("Content-Type", "text/html;charset=ISO-8859-1")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "<html><head><title>Error 401 Authentication required</title></head></html>") // a client that hung up
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type admin struct{ *Cluster }

// status is an error with a status of its own.
type status struct {
	code   int
	reason string
}

func (s status) Error() string { return s.reason }

func answer(w http.ResponseWriter, r *http.Request, f func(*http.Request) (any, error)) {
	body, err := f(r)
	code := http.StatusOK
	var own status
	switch {
	case err == nil && body == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	case err == nil:
	case errors.As(err, &own):
		code = own.code
	case errors.Is(err, ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, ErrExists):
		code = http.StatusConflict
	default:
		code = http.StatusPreconditionFailed
	}
	if err != nil {
		body = map[string]string{"reason": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a client that hung up
}

func namespace(r *http.Request) string { return r.PathValue("tenant") + "/" + r.PathValue("ns") }
func scalableOf(r *http.Request) string {
	return "topic://" + namespace(r) + "/" + r.PathValue("topic")
}
func regularOf(r *http.Request) string {
	return "persistent://" + namespace(r) + "/" + r.PathValue("topic")
}

// number reads a number of the path; anything else is no segment.
func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 1<<64 - 1
	}
	return n
}

// unchanged is what brokers answer where a layout cannot be changed like that.
func unchanged(topic string, err error) error {
	if err == nil || errors.Is(err, ErrNotFound) {
		return uninitialised(topic, err)
	}
	return status{http.StatusInternalServerError, "\n --- An unexpected error occurred in the server ---\n\nMessage: " + err.Error() + "\n"}
}

// uninitialised is what brokers answer about a scalable topic that is not there
// (5.0.1, observed), except to GET and DELETE of the topic itself.
func uninitialised(topic string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return status{http.StatusInternalServerError, "\n --- An unexpected error occurred in the server ---\n\nMessage: Failed to initialize controller for " + topic + "\n"}
	}
	return err
}

func (a admin) autoScale(r *http.Request) (any, error) {
	var policy struct {
		Enabled *bool `json:"enabled"`
	}
	if err := json.NewDecoder(r.Body).Decode(&policy); err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	topic := scalableOf(r)
	if policy.Enabled == nil {
		return nil, nil
	}
	return nil, uninitialised(topic, a.SetAutoScale(topic, *policy.Enabled))
}

func (a admin) create(r *http.Request) (any, error) {
	n := 1
	if text := r.FormValue("numInitialSegments"); text != "" {
		n = int(min(number(text), 1000))
	}
	return nil, a.CreateScalable(scalableOf(r), n)
}

func (a admin) layout(r *http.Request) (any, error) {
	l, err := a.Layout(scalableOf(r))
	if err != nil {
		return nil, err
	}
	segments := map[string]any{}
	for _, s := range l.Segments {
		state, sealedAt := "ACTIVE", int64(-1)
		if s.Sealed {
			state, sealedAt = "SEALED", s.SealedAt.UnixMilli()
		}
		segments[strconv.FormatUint(s.ID, 10)] = map[string]any{
			"segmentId": s.ID, "hashRange": map[string]uint16{"start": s.Start, "end": s.End}, "state": state,
			"parentIds": append([]uint64{}, s.Parents...), "childIds": append([]uint64{}, s.Children...),
			"entryBucketSplits": append([]uint16{}, s.Splits...), "createdAtMs": s.Created.UnixMilli(), "sealedAtMs": sealedAt,
			"sealed": s.Sealed, "active": !s.Sealed,
		}
	}
	return map[string]any{"epoch": l.Epoch, "segments": segments}, nil
}

func (a admin) remove(r *http.Request) (any, error) {
	return nil, a.DeleteScalable(scalableOf(r), r.FormValue("force") == "true")
}

func (a admin) list(r *http.Request) (any, error) {
	topics := []string{}
	a.locked(func() { topics = append(topics, a.core.list(namespace(r))...) })
	return topics, nil
}

func (a admin) split(r *http.Request) (any, error) {
	topic := scalableOf(r)
	return nil, unchanged(topic, a.Split(topic, number(r.PathValue("id"))))
}

func (a admin) merge(r *http.Request) (any, error) {
	topic := scalableOf(r)
	return nil, unchanged(topic, a.Merge(topic, number(r.PathValue("id")), number(r.PathValue("other"))))
}

func (a admin) rebucket(r *http.Request) (any, error) {
	topic, buckets := scalableOf(r), int(min(number(r.FormValue("bucketCount")), 2000))
	if buckets < 1 || buckets > 1024 {
		return nil, status{http.StatusPreconditionFailed, fmt.Sprintf("bucketCount must be in [1, 1024]: %d", buckets)}
	}
	return nil, unchanged(topic, a.Rebucket(topic, number(r.PathValue("id")), buckets))
}

func (a admin) subscription(f func(topic, sub string) error) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		topic := scalableOf(r)
		return nil, uninitialised(topic, f(topic, r.PathValue("sub")))
	}
}
