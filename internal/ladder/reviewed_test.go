package ladder

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobridge/geobridge/replicate"
)

// holds has a side's admin service wait before it does what a call of that name asks, for
// as long as the function says.
func (s *side) holds(point, of string, wait func(call int) time.Duration) {
	next := s.rest.Handler
	var calls atomic.Int64
	s.rest.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if restPoint(r) == point && strings.Contains(r.URL.Path, of) {
			call := int(calls.Add(1))
			s.w.note("%s of %s, call %d", point, of, call)
			sleep(r.Context(), wait(call))
		}
		next.ServeHTTP(w, r)
	})
}

// answersLate has a side's admin service answer the second call of that name late, as things
// were.
func (s *side) answersLate(point string, by time.Duration) {
	next := s.rest.Handler
	var calls atomic.Int64
	s.rest.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if restPoint(r) != point || calls.Add(1) != 2 {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		s.w.note("%s is answered late", point)
		sleep(r.Context(), by)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// Two instances start a mapping for the first time. The second one hears that there is no
// subscription yet, and then that the mapping has run before: the first one was faster.
func TestSlowStartIsNoGap(t *testing.T) {
	taking(t, func(w *world) {
		w.options = ", on_gap: stop"
		w.east().answersLate("GET stats", 4*time.Second)
		w.east().holds("PUT subscription", subscription, func(int) time.Duration { return time.Second })
		one := w.start("one")
		sleep(w.ctx, 500*time.Millisecond)
		two := w.start("two")
		sleep(w.ctx, time.Minute)
		w.copy()
		for _, i := range []*instance{one, two} {
			if n, notes := i.count("source_gaps_total"), i.board.Report().Mappings[0].Notes; n != 0 || len(notes) != 0 {
				w.errorf("%s: %v gaps, notes %v", i.name, n, notes)
			}
		}
	})
}

// Two instances start a mapping for the first time, and the target is slow to move the
// guard for the second one: the first one copies by then.
func TestGuardIsNotMovedByASlowStart(t *testing.T) {
	taking(t, func(w *world) {
		guard := replicate.GuardName(subscription)
		late := func(which int, by time.Duration) func(int) time.Duration {
			return func(call int) time.Duration {
				if call == which {
					return by
				}
				return 0
			}
		}
		w.east().holds("PUT subscription", subscription, late(1, 2*time.Second))
		w.west().holds("POST skip-all", guard, late(2, 4*time.Second))
		w.publisher.burst(w.plan.rng, 20)
		one := w.start("one")
		sleep(w.ctx, time.Second)
		two := w.start("two")
		w.settle("both")
		sleep(w.ctx, time.Minute)
		for _, i := range []*instance{one, two} {
			if !i.protected("guard") {
				w.errorf("%s: the guard does not protect", i.name)
			}
		}
	})
}

// A subscription that was deleted, and made again, is one gap. That its drained segment is
// loaded anew, later, is none.
func TestReloadAfterUnsubscribingIsNoGap(t *testing.T) {
	taking(t, func(w *world) {
		i := w.away(func() { w.must(w.east().DeleteSubscription(topicName, subscription)) })
		w.gaps(i, "unsubscribed", 1)
		w.copy()
		sleep(w.ctx, 10*time.Second)
		for range 2 {
			w.east().Unload(w.east().layout().Active()[0].Topic(topicName))
			sleep(w.ctx, time.Minute)
			w.copy()
		}
		if n := i.count("source_gaps_total"); n != 1 {
			w.errorf("%v gaps", n)
		}
	})
}
