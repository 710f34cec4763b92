package ladder

import (
	"strings"
	"testing"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// Two lanes read the same target segment after a crash, slowly: the status says how far
// they are, and the gauge how much is left, which goes down to nothing.
func TestScanShowsHowFarItIs(t *testing.T) {
	taking(t, func(w *world) {
		w.must(w.east().Split(topicName, w.east().layout().Active()[0].ID))
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.copy()
		w.dieInFlight()
		w.west().injector.play(func(c pulsartest.Command) (pulsartest.Action, bool) {
			return pulsartest.Delay(200 * time.Millisecond), c.Sent && c.Message != nil
		})
		i := w.start("two")
		left := func() float64 { return i.count("recovery_scan_bytes") }
		reason := func() (reasons []string) {
			for _, l := range i.board.Report().Mappings[0].Lanes {
				if l.State == "recovering" {
					reasons = append(reasons, l.Reason)
				}
			}
			return reasons
		}
		w.await("a lane says how far it is", func() bool {
			return strings.Contains(strings.Join(reason(), "; "), "reads target segment 0 for what is stored already, 1 KiB of ")
		})
		first := left()
		if first == 0 {
			w.errorf("nothing left to read: %v", reason())
		}
		w.await("less is left", func() bool { return left() < first })
		w.settle("in the end")
		if left() != 0 {
			w.errorf("left %v when nothing recovers", left())
		}
		w.west().injector.play(nil)
	})
}

// play lets a script judge commands, before anything else does.
func (i *injector) play(script func(pulsartest.Command) (pulsartest.Action, bool)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.script = script
}

// losesReceipts has no receipt come, until something else is played.
func (i *injector) losesReceipts() {
	i.play(func(c pulsartest.Command) (pulsartest.Action, bool) {
		return pulsartest.Drop(), c.Sent && c.Type == pulsarpb.BaseCommand_SEND_RECEIPT
	})
}
