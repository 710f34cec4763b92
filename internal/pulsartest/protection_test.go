package pulsartest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsartest"
)

// attached is a consumer of its own client, registered or not, and how it dies.
func (r *rig) attached(segment string, registered bool) (die func()) {
	r.t.Helper()
	other := r.newClient()
	if registered {
		r.register(other, "a", nil)
	}
	_, err := r.trySubscribe(other, streamConsumer(segment, "a"))
	r.must(err)
	return func() { r.must(other.Close()) }
}

// Facts 3.5: what keeps a sealed segment with ten entries that nobody acknowledged: a record, or a
// registration as long as it lives. Attached consumers do not.
func TestWhatKeepsData(t *testing.T) {
	for _, tt := range []struct {
		name   string
		setUp  func(r *rig, segment string) (end func())
		wait   time.Duration // of fake time, after the end
		pruned int
	}{
		{"registered and attached, died 59 s ago", func(r *rig, s string) func() { return r.attached(s, true) }, 59 * time.Second, 0},
		{"registered and attached, died 61 s ago", func(r *rig, s string) func() { return r.attached(s, true) }, 61 * time.Second, 1},
		{"attached", func(r *rig, s string) func() { r.attached(s, false); return func() {} }, 0, 1},
		{"unregistered", func(r *rig, _ string) func() { return r.register(r.Client, "a", nil).leave }, 0, 1},
		{"registered, never attached", func(r *rig, _ string) func() { r.register(r.Client, "a", nil); return func() {} }, time.Hour, 0},
		{"recorded, died", func(r *rig, s string) func() {
			r.must(r.RecordSubscription(scalableTopic, "s"))
			return r.attached(s, false)
		}, time.Hour, 0},
	} {
		inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
			segment := r.create(1)[0]
			r.produce(segment, "p").send("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
			end := tt.setUp(r, segment)
			synctest.Wait()
			r.must(r.Split(scalableTopic, 0))
			end()
			time.Sleep(tt.wait)
			if n, err := r.Prune(scalableTopic); n != tt.pruned || err != nil {
				t.Errorf("%s: %d pruned, want %d, %v", tt.name, n, tt.pruned, err)
			}
		})
	}
}

// autoScale is what the REST service answers to a policy.
func (r *rig) autoScale(policy string) int {
	r.t.Helper()
	path := "/admin/v2/scalable/public/default/t/autoScalePolicy"
	w := httptest.NewRecorder()
	r.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(policy)))
	return w.Code
}

// Facts 4.8, 13: the sixth consumer on 4 buckets makes it 8, unless the policy is off; at most once a minute.
func TestAutoScale(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		if code := r.autoScale(`{"enabled":false}`); code != http.StatusInternalServerError {
			t.Errorf("no topic: %d", code)
		}
		r.create(1)
		if code := r.autoScale(`{"enabled":false}`); code != http.StatusNoContent {
			t.Errorf("off: %d", code)
		}
		buckets := func(want int) {
			t.Helper()
			synctest.Wait()
			l, err := r.Cluster.Layout(scalableTopic)
			r.must(err)
			if s := l.Active(); len(s) != 1 || s[0].Buckets() != want {
				t.Errorf("%+v, want %d buckets", s, want)
			}
		}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			r.register(r.Client, name, nil)
		}
		time.Sleep(time.Hour) // of fake time, as all here
		buckets(4)
		if code := r.autoScale(`{"enabled":true}`); code != http.StatusNoContent {
			t.Errorf("on: %d", code)
		}
		time.Sleep(30 * time.Millisecond)
		buckets(8)
		for _, name := range []string{"g", "h", "i"} {
			r.register(r.Client, name, nil)
		}
		time.Sleep(59 * time.Second)
		buckets(8)
		time.Sleep(2 * time.Second)
		buckets(16)
		if code := r.autoScale("?"); code != http.StatusBadRequest {
			t.Errorf("nonsense: %d", code)
		}
	})
}
