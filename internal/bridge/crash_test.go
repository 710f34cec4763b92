package bridge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/replicate"
)

// crash is kill -9 of an upkeep when a cluster has done the n-th thing that it was
// asked for, before it has answered.
type crash struct {
	line *line
	left atomic.Int64
}

func (x *crash) strikes() bool {
	if x == nil || x.left.Add(-1) != 0 {
		return false
	}
	x.line.kill()
	return true
}

func (w *world) judge(c pulsartest.Command) pulsartest.Action {
	if c.Sent || c.Type == pulsarpb.BaseCommand_PING || c.Type == pulsarpb.BaseCommand_PONG || !w.crash.Load().strikes() {
		return pulsartest.Pass()
	}
	return pulsartest.CutAfter()
}

func (w *world) crashing(admin http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.crash.Load().strikes() {
			admin.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		admin.ServeHTTP(rw, r)
	})
}

// crashAt has f crash at the n-th command; false: it came to its end before.
func (w *world) crashAt(n int, f func() error) bool {
	w.T.Helper()
	x := &crash{line: &line{w: w}}
	x.left.Store(int64(n))
	w.crash.Store(x)
	err := f()
	w.crash.Store(nil)
	if struck := x.left.Load() <= 0; struck == (err == nil) && !struck {
		w.T.Fatal(err) // nothing struck
	}
	return x.left.Load() <= 0
}

// crashes repeats a test with a crash at each command, or at each so many.
func crashes(t *testing.T, least, each int, f func(w *world, n int) bool) {
	for n := 1; ; n += each {
		struck := false
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options = ", on_gap: stop"
				struck = f(w, n)
			})
		})
		if !struck {
			if n < least {
				t.Errorf("only %d commands", n)
			}
			return
		}
	}
}

// began starts an instance for a moment.
func (w *world) began() {
	w.T.Helper()
	r := w.run()
	time.Sleep(3 * time.Second) // fake time
	r.endsWell()
}

// Wherever forget is killed: a second one brings it to its end, and a start in
// between loses nothing and takes it for nothing else.
func TestForgetKilled(t *testing.T) {
	crashes(t, 30, 3, func(w *world, n int) bool {
		w.copiedOnce(30)
		if !w.crashAt(n, func() error { _, err := w.tryForget(true, nil); return err }) {
			return false
		}
		if n%2 == 0 {
			w.began()
		}
		w.forget(true)
		if left := w.kept(); len(left) > 0 {
			w.T.Errorf("left: %v", left)
		}
		w.copiedOnce(10)
		w.wantLast(orders, w.published[orders]...)
		return true
	})
}

// The same of rewind.
func TestRewindKilled(t *testing.T) {
	crashes(t, 60, 7, func(w *world, n int) bool {
		w.loadedOnce()
		rewind := func() error { _, err := w.tryRewind(replicate.RewindOptions{Yes: true}, nil); return err }
		if !w.crashAt(n, rewind) {
			return false
		}
		if n%2 == 0 {
			w.copiedOnce(1)
			w.lastWords()
		}
		w.Must(rewind())
		w.copiedOnce(10)
		w.wantLast(orders, w.published[orders]...)
		return true
	})
}
