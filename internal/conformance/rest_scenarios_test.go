package conformance

import (
	"fmt"
	"slices"
)

func restScenarios() []Scenario {
	return []Scenario{
		{Name: "RESTCodes", Facts: []string{"13"}, Run: restCodes},
		{Name: "RESTLayout", Facts: []string{"13"}, Run: restLayout},
		{Name: "RESTStats", Facts: []string{"13", "3.5"}, Run: restStats},
	}
}

// The status codes of what geobridge and its set-ups call.
func restCodes(t *T) {
	topic, missing := "scalable/"+string(t.Name("t")), "scalable/"+string(t.Name("missing"))
	regular := "persistent/" + t.Namespace + "/r"
	for _, row := range []struct {
		method, path string
		body         any
		code         int
	}{
		{"PUT", topic + "?numInitialSegments=3", nil, 204},
		{"PUT", topic, nil, 409},
		{"GET", topic, nil, 200},
		{"GET", missing, nil, 404},
		{"DELETE", missing, nil, 404},
		{"GET", missing + "/stats", nil, 500},
		{"PUT", missing + "/subscriptions/s", nil, 500},
		{"POST", missing + "/split/0", nil, 500},
		{"POST", topic + "/autoScalePolicy", map[string]bool{"enabled": false}, 204},
		{"POST", topic + "/split/0", nil, 204},
		{"POST", topic + "/split/0", nil, 500}, // sealed
		{"POST", topic + "/split/99", nil, 500},
		{"POST", topic + "/merge/3/2", nil, 500}, // no neighbours
		{"POST", topic + "/merge/4/1", nil, 204},
		{"POST", topic + "/rebucket/2?bucketCount=0", nil, 412},
		{"POST", topic + "/rebucket/2?bucketCount=1025", nil, 412},
		{"POST", topic + "/rebucket/2?bucketCount=8", nil, 204},
		{"GET", topic + "/stats", nil, 200},
		{"GET", topic + "/segments/6/stats", nil, 200},
		{"GET", topic + "/segments/99/stats", nil, 404},
		{"PUT", topic + "/subscriptions/s", nil, 204},
		{"PUT", topic + "/subscriptions/s", nil, 204},
		{"POST", topic + "/subscriptions/s/skip-all", nil, 204},
		{"POST", topic + "/subscriptions/unknown/skip-all", nil, 204},
		{"DELETE", topic + "/subscriptions/s", nil, 204},
		{"DELETE", topic + "/subscriptions/s", nil, 204},
		{"GET", "scalable/" + t.Namespace, nil, 200},
		{"PUT", regular, nil, 204},
		{"PUT", regular, nil, 409},
		{"PUT", "persistent/public/c-no-such-namespace/r", nil, 404},
		{"PUT", regular + "/subscription/s", map[string]any{"ledgerId": -1, "entryId": -1}, 204},
		{"PUT", regular + "/subscription/s", map[string]any{"ledgerId": -1, "entryId": -1}, 409},
		{"GET", regular + "/subscriptions", nil, 200},
		{"GET", "persistent/" + t.Namespace + "/missing/subscriptions", nil, 404},
		{"PUT", regular + "/compaction", nil, 204},
		{"GET", regular + "/compaction", nil, 200},
		{"GET", "namespaces/" + t.Namespace, nil, 200},
		{"GET", "namespaces/public/c-no-such-namespace", nil, 404},
		{"PUT", "namespaces/" + t.Namespace, nil, 409},
		{"PUT", "namespaces/" + t.Namespace + "/unload", nil, 204},
		{"GET", "brokers/configuration/runtime", nil, 200},
		{"DELETE", topic + "?force=true", nil, 204},
		{"GET", topic, nil, 404},
	} {
		if a := t.REST(0, row.method, row.path, row.body); a.Code != row.code {
			t.Errorf("%s %s: %d, want %d: %s", row.method, row.path, a.Code, row.code, a.Body)
		}
	}
}

// What the layout over REST says is what set-ups read of it.
func restLayout(t *T) {
	topic := t.Scalable("t", 2)
	t.Must(t.Rig.Split(t.Context(), topic, 1))
	l := t.Layout(topic)
	var lines []string
	for _, s := range l.Segments {
		lines = append(lines, fmt.Sprintf("%s %s %v %v %v %v %v", s.Descriptor(), s.State, s.Active, s.Parents, s.Children, s.Splits, s.CreatedMs > 0))
	}
	slices.Sort(lines)
	want := []string{
		"0000-7fff-0 ACTIVE true [] [] [32768] true",
		"8000-bfff-2 ACTIVE true [1] [] [] true",
		"8000-ffff-1 SEALED false [] [2 3] [32768] true",
		"c000-ffff-3 ACTIVE true [1] [] [] true",
	}
	if l.Epoch != 1 || !slices.Equal(lines, want) {
		t.Errorf("epoch %d:\n%q\nwant\n%q", l.Epoch, lines, want)
	}
}

// The stats tell a recorded subscription from loose cursors, and count its backlog.
func restStats(t *T) {
	topic := t.Scalable("t", 2)
	first := t.Segment(topic, 0)
	t.record(string(topic), "recorded")
	at := t.StoreAll(first, 3)
	w := t.At(first)
	w.Subscribe(first, 1, "loose", exclusive)
	w.Ack(1, at[0])
	type group struct {
		Type      string
		Backlog   int64   `json:"msgBacklog"`
		Uncovered []int64 `json:"uncoveredSegmentIds"`
		Segments  map[string]struct {
			Backlog   int64 `json:"msgBacklog"`
			Consumers int   `json:"consumerCount"`
		}
	}
	var stats struct {
		Layout        struct{ Epoch int64 }
		Subscriptions map[string]group
	}
	t.REST(0, "GET", "scalable/"+string(topic)+"/stats", nil).Into(t, &stats)
	for name, want := range map[string]string{
		"recorded": "{STREAM 3 [] map[0:{3 0} 1:{0 0}]}",
		"loose":    "{QUEUE 2 [1] map[0:{2 1}]}",
	} {
		if got := fmt.Sprint(stats.Subscriptions[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	var segment struct {
		Terminated    bool
		Producers     []struct{ ProducerName string }
		Subscriptions map[string]struct {
			Backlog   int64 `json:"msgBacklog"`
			Type      string
			Consumers []struct{ ConsumerName string }
		}
	}
	w.Produce(first, 1, "p")
	t.REST(0, "GET", "scalable/"+string(topic)+"/segments/0/stats", nil).Into(t, &segment)
	if got := fmt.Sprint(segment); got != "{false [{p}] map[loose:{2 Exclusive [{consumer-1}]} recorded:{3 None []}]}" {
		t.Errorf("segment: %s", got)
	}
}
