package replicate

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// How far a reading is, is known while it goes on, and counts once for the lanes that
// share it.
func TestReadingTellsHowFarItIs(t *testing.T) {
	inScanRig(t, func(r *scanRig) {
		identities := make([]string, 10)
		_, barrier := r.store(identities...)
		r.messages.Store(int64(time.Second)) // between one and the next
		var all readings
		var asking sync.WaitGroup
		for i, lane := range []string{"geobridge-a", "geobridge-b", "geobridge-c"} {
			asking.Go(func() {
				target := TargetID{Segment: 1}
				follow := func(far *reading) { all.follow(lane, target, far) }
				if _, _, err := r.scans.find(r.t.Context(), scannedTopic, lane, noPosition(), barrier, follow); err != nil {
					t.Error(err)
				}
				follow(nil)
			})
			if i == 0 {
				synctest.Wait() // the first reads alone, the others together
			}
		}
		synctest.Wait()
		if got := all.text("geobridge-a"); got != "0 of 11 entries" || all.left() != 11 {
			t.Errorf("before the first: %q, left %d", got, all.left())
		}
		time.Sleep(4*time.Second + time.Millisecond)
		synctest.Wait()
		size := all.of[readingKey{"geobridge-a", TargetID{Segment: 1}}].bytes.Load() / 4
		if got, want := all.left(), 7*size; got != want || size == 0 {
			t.Errorf("after four of 11: left %d, want %d", got, want)
		}
		if got := all.text("geobridge-a"); got != "1 KiB of 1 KiB" {
			t.Errorf("after four of 11: %q", got)
		}
		if got := all.text("geobridge-b"); got != "" {
			t.Errorf("the second waits: %q", got)
		}
		time.Sleep(8 * time.Second) // the markers are no messages
		synctest.Wait()
		b, c := all.of[readingKey{"geobridge-b", TargetID{Segment: 1}}], all.of[readingKey{"geobridge-c", TargetID{Segment: 1}}]
		if b == nil || b != c {
			t.Fatalf("they do not share: %p, %p", b, c)
		}
		if all.left() != b.left() || b.left() == 0 {
			t.Errorf("shared: left %d, each %d", all.left(), b.left())
		}
		asking.Wait()
		if len(all.of) != 0 || all.left() != 0 {
			t.Errorf("in the end: left %d of %v", all.left(), all.of)
		}
	})
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 KiB", 1: "1 KiB", 1 << 10: "1 KiB", 1<<20 - 1: "1024 KiB", 1 << 20: "1 MiB", 40<<20 + 5: "40 MiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
