package pulsar

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Who leaves waits for the broker, but not for ever: it is dead then, too.
func TestLeave(t *testing.T) {
	for _, tt := range []struct {
		name  string
		mute  bool
		waits time.Duration
	}{{"answered", false, 0}, {"not answered", true, 2 * leaveTimeout}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				b := r.broker("a:6650")
				c, p := &consumerRecorder{}, &producerRecorder{}
				consumer, producer := subscribeTest(t, r, c), openTestProducer(t, r, p)
				if tt.mute {
					b.on(pulsarpb.BaseCommand_CLOSE_CONSUMER, func(*fakeConn, *frame.Frame) {})
					b.on(pulsarpb.BaseCommand_CLOSE_PRODUCER, func(*fakeConn, *frame.Frame) {})
				}
				began := time.Now()
				consumer.Leave()
				producer.Leave()
				if took := time.Since(began); took != tt.waits {
					t.Errorf("took %v, want %v", took, tt.waits)
				}
				consumer.Leave() // again
				producer.Leave()
				if n, _ := c.end(); n != 1 {
					t.Errorf("the consumer was closed %d times", n)
				}
				if n, _ := p.end(); n != 1 {
					t.Errorf("the producer was closed %d times", n)
				}
			})
		})
	}
	var none *Consumer
	none.Leave()
	var nobody *Producer
	nobody.Leave()
}
