package conformance

import (
	"strings"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// grant gives a role rights on the scenario's namespace.
func (t *T) grant(role string, actions ...string) {
	t.Helper()
	if a := t.REST(0, "POST", "namespaces/"+t.Namespace+"/permissions/"+role, actions); a.Code != 204 {
		t.Fatalf("grant %v to %s: %d %s", actions, role, a.Code, a.Body)
	}
}

// What a role may do, and what it is told where it may not: a role with no rights, one that
// may produce, one that may consume.
func rights(t *T) {
	topic := t.Scalable("t", 1)
	segment := t.Segment(topic, 0)
	t.BrokerOf(segment)
	t.grant("producer", "produce")
	t.grant("consumer", "consume")
	for role, allowed := range map[string]string{
		"nobody":   "",
		"producer": "LOOKUP WATCH NAMESPACE PRODUCER",
		"consumer": "LOOKUP WATCH NAMESPACE SUBSCRIBE STREAM",
	} {
		w := t.As(role)
		code := map[string]pulsarpb.ServerError{}
		found := w.LookUp(segment, false)
		code["LOOKUP"] = refusal(found.GetResponse() == pulsarpb.CommandLookupTopicResponse_Connect, found.GetError())
		w.Watch(topic.Topic(), 1)
		update := w.Update(1)
		code["WATCH"] = refusal(update.GetDag() != nil, update.GetError())
		w.WatchNamespace(t.Namespace, 2)
		names := w.Namespace(2)
		code["NAMESPACE"] = refusal(names.GetSnapshot() != nil, names.GetError())
		made := w.Ask(producer(segment, 1, ""))
		code["PRODUCER"] = refusal(made.GetProducerSuccess() != nil, made.GetError().GetError())
		attached := w.Ask(subscribe(segment, 1, role, exclusive))
		code["SUBSCRIBE"] = refusal(attached.GetSuccess() != nil, attached.GetError().GetError())
		registered := w.Ask(stream(topic.Topic(), "stream", role, 2)).GetScalableTopicSubscribeResponse()
		code["STREAM"] = refusal(registered.GetAssignment() != nil, registered.GetError())
		for what, got := range code {
			want := pulsarpb.ServerError_AuthorizationError
			if strings.Contains(allowed, what) {
				want = noError
			}
			if got != want {
				t.Errorf("%s of %s: %v, want %v", what, role, got, want)
			}
		}
	}
	restRights(t, string(topic))
}

// noError stands for success.
const noError = pulsarpb.ServerError(-1)

func refusal(good bool, code pulsarpb.ServerError) pulsarpb.ServerError {
	if good {
		return noError
	}
	return code
}

// restRights: 401 about topics, 403 about namespaces and about what changes a layout, in
// JSON.
func restRights(t *T, topic string) {
	t.Helper()
	regular := "persistent/" + t.Namespace + "/r"
	first := map[string]any{"ledgerId": -1, "entryId": -1}
	for _, row := range []struct {
		method, path               string
		body                       any
		nobody, producer, consumer int
	}{
		{"GET", "scalable/" + topic, nil, 401, 200, 200},
		{"GET", "scalable/" + topic + "/stats", nil, 401, 200, 200},
		{"GET", "scalable/" + t.Namespace, nil, 403, 200, 200},
		{"PUT", "scalable/" + topic + "/subscriptions/s", nil, 401, 401, 204},
		{"POST", "scalable/" + topic + "/subscriptions/s/skip-all", nil, 401, 401, 204},
		{"DELETE", "scalable/" + topic + "/subscriptions/s", nil, 401, 401, 204},
		{"POST", "scalable/" + topic + "/split/0", nil, 403, 403, 403},
		{"DELETE", "scalable/" + topic, nil, 403, 403, 403},
		{"PUT", regular, nil, 403, 403, 403},
		{"PUT", regular + "/subscription/s", first, 401, 401, 204},
		{"GET", regular + "/subscriptions", nil, 401, 401, 200},
		{"PUT", regular + "/compaction", nil, 401, 401, 401},
		{"GET", "namespaces/" + t.Namespace, nil, 403, 403, 403},
		{"PUT", "namespaces/" + t.Namespace + "/unload", nil, 401, 401, 401},
		{"GET", "brokers/configuration/runtime", nil, 401, 401, 401},
	} {
		for role, code := range map[string]int{"nobody": row.nobody, "producer": row.producer, "consumer": row.consumer} {
			a := t.rest(0, row.method, row.path, t.Token(role), row.body)
			if a.Code != code || a.Code > 299 && !strings.HasPrefix(a.Type, "application/json") {
				t.Errorf("%s %s as %s: %d %s, want %d: %s", row.method, row.path, role, a.Code, a.Type, code, a.Body)
			}
		}
	}
}
