package conformance

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns: others come first while a scenario waits, unless it holds its turn; and
// Eventually asks again, however long its first check had to wait for one.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := make(chan struct{}, 1)
		one, other := &T{T: t, World: &realWorld{}, turns: turns}, &T{T: t, World: &realWorld{}, turns: turns}
		one.begin()
		worked := 0
		go func() {
			for range 3 {
				other.begin()
				<-time.After(10 * time.Minute)
				worked++
				other.end()
			}
		}()
		w := &Wire{t: one, in: make(chan Got)}
		waits := func() { w.take(func(Got) bool { return false }, time.Minute) }
		one.Hold()
		waits()
		one.Pass(time.Minute)
		one.Release()
		if worked > 0 {
			t.Errorf("others worked %d times beside who held its turn", worked)
		}
		waits()
		if worked != 1 {
			t.Errorf("others worked %d times while one waited for a command", worked)
		}
		one.Pass(time.Minute)
		if worked != 2 {
			t.Errorf("others worked %d times while one let time pass", worked)
		}
		asked := 0
		one.Eventually("content", func() error {
			waits()
			asked++
			if asked == 1 {
				return errors.New("ask again")
			}
			return nil
		})
		if worked != 3 {
			t.Errorf("others worked %d times while one asked", worked)
		}
		one.end()
	})
}
