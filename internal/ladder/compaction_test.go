package ladder

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Killed between its barrier and its record, with a compaction after that, an
// instance leaves a checkpoint topic whose last entries no compacted reader is ever
// given. The next one must see the end all the same.
func TestBarrierBelowTheHorizonOfACompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bare())
		defer w.close()
		w.start("one")
		sleep(w.ctx, 2*time.Second)
		w.publisher.burst(w.plan.rng, 20)
		w.settle("before the kill")
		w.running()[0].kill()
		client, err := pulsar.New(pulsar.Options{Cluster: west, ServiceURL: w.west().url(), Dial: w.net.Dial})
		w.must(err)
		defer client.Close()
		o := &outlet{answer: make(chan error, 1)}
		p, err := client.OpenProducer(t.Context(), pulsar.ProducerOptions{Topic: recordTopic, Name: "killed"}, o)
		w.must(err)
		marker := &pulsarpb.MessageMetadata{ProducerName: proto.String("killed"), SequenceId: proto.Uint64(0), PublishTime: proto.Uint64(1), MarkerType: proto.Int32(1000)}
		w.must(p.Send(pulsar.Outgoing{Metadata: mustMarshal(marker), Marker: true}))
		w.must(<-o.answer)
		w.must(w.west().Compact(recordTopic))
		began := time.Now()
		i := w.start("one")
		w.publisher.burst(w.plan.rng, 20)
		w.await("something is copied", func() bool { return i.count("messages_total") > 0 })
		if took := time.Since(began); took > 5*time.Second { // of the test's own clock; the time-out of an operation
			w.errorf("the start took %v", took)
		}
		w.settle("after the kill")
		i.stop()
		w.verdict(w.outcome())
	})
}
