//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// stored is a copy of one message of a topic, as a non-durable reader got it.
type stored struct {
	key        string
	properties map[string]string
	payload    []byte
}

// shelf collects what a reader is given.
type shelf struct{ all chan stored }

func (h shelf) Message(m pulsar.Message) {
	md := new(pulsarpb.MessageMetadata)
	if proto.Unmarshal(m.Entry.Metadata, md) == nil {
		out := stored{key: md.GetPartitionKey(), properties: map[string]string{}, payload: bytes.Clone(m.Entry.Payload)}
		for _, p := range md.GetProperties() {
			out.properties[p.GetKey()] = p.GetValue()
		}
		h.all <- out
	}
	m.Entry.Release()
}
func (shelf) ActiveChanged(bool) {}
func (shelf) EndOfTopic()        {}
func (shelf) Closed(error)       {}

// read reads n messages of a regular topic from its beginning.
func (s *scene) read(at site, topic string, n int) []stored {
	s.Helper()
	client, err := pulsar.New(pulsar.Options{Cluster: at.name, ServiceURL: at.service})
	s.must(err)
	defer client.Close()
	h, start := shelf{make(chan stored, 10_000)}, pulsar.Earliest()
	consumer, err := client.Subscribe(s.ctx, pulsar.SubscribeOptions{Topic: topic, Subscription: "e2e-shelf", ConsumerName: "e2e",
		Type: pulsar.Exclusive, Start: &start}, h)
	s.must(err)
	s.must(consumer.Flow(10_000))
	var out []stored
	ctx := s.within(20*time.Second, "reading "+topic)
	for len(out) < n {
		select {
		case m := <-h.all:
			out = append(out, m)
		case <-ctx.Done():
			s.Errorf("%d of %d messages in %s: %v", len(out), n, topic, context.Cause(ctx))
			return out
		}
	}
	return out
}

// reassemble puts parked entries together from their pieces, by identity.
func (s *scene) reassemble(messages []stored) map[string][]byte {
	s.Helper()
	out := map[string][]byte{}
	pieces := map[string][]stored{}
	for _, m := range messages {
		if id := m.properties["identity"]; id != "" {
			pieces[id] = append(pieces[id], m)
		}
	}
	for id, all := range pieces {
		number := func(m stored) int { n, _ := strconv.Atoi(m.properties["piece"]); return n }
		slices.SortFunc(all, func(a, b stored) int { return number(a) - number(b) })
		if want, _ := strconv.Atoi(all[0].properties["pieces"]); want != len(all) {
			s.Errorf("%d pieces of %s, want %d", len(all), id, want)
		}
		for _, m := range all {
			out[all[0].properties["entry"]+" "+all[0].properties["reason"]] = append(out[all[0].properties["entry"]+" "+all[0].properties["reason"]], m.payload...)
		}
	}
	return out
}

// A target whose limit is a fifth of the source's: what fits arrives, a batch
// that does not is cut, and a message that does not is parked as it was.
func TestTrapSizeLimits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	t.Cleanup(cancel)
	east, _, err := shared.pair(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 20
	small, err := rig.NewStandalone(shared.box, shared.spawner, "small", fmt.Sprintf("maxMessageSize=%d", limit))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(small.Kill)
	if err := small.Start(ctx); err != nil {
		t.Fatal(err)
	}
	s := newSceneAt(t, ctx, standaloneSite(east), standaloneSite(small))
	n := s.create(s.east, "large", 1, 1)
	s.create(s.west, "large", 1, 1)
	reader := s.consume(s.west, n, 1)
	f := s.forge(s.east, n, onlyActive(s, s.east, n))
	d := s.run(s.mapping("large", s.east, s.west, "large"))
	seq := int64(0)
	publish := func(size, messages int, arrives bool) (whole []byte) {
		seq++
		e := forged{id: fmt.Sprintf("s%d-%d", size, seq), key: "k", seq: seq, size: size}
		if messages > 1 {
			for i := range messages {
				e.batch = append(e.batch, order.Message{ID: fmt.Sprintf("b%d-%d-%d", size, seq, i), Key: fmt.Sprintf("key%d", i), Seq: seq})
			}
		}
		for _, m := range append([]order.Message{{ID: e.id, Key: e.key, Seq: e.seq}}, e.batch...) {
			if arrives && (m.ID == e.id) == (e.batch == nil) {
				reader.Expect(m, true)
			}
		}
		metadata, payload := e.build("forger", f.next)
		f.send(metadata, payload, max(1, messages))
		return append(metadata, payload...)
	}
	parked := 0
	var bodies [][]byte
	publish(100, 1, true)
	for _, below := range []int{8000, 4000, 3000, 2600} {
		publish(limit-below, 1, true)
	}
	// Near the limit either is right, as long as nothing is lost or stuck.
	for _, size := range []int{limit - 1, limit, limit + 1, 2 * limit, 4 * limit} {
		bodies = append(bodies, publish(size, 1, false))
		parked++
	}
	publish(limit/5, 4, true)     // fits
	publish(limit/3, 4, true)     // is cut in two
	publish(limit/10, 40, true)   // is cut in many
	publish(limit/2-200, 2, true) // the batch fits the source's limit only
	publish(100, 1, true)
	s.allCome(reader, "copying what fits")
	s.parked(d, float64(parked))
	s.verdict(reader)
	pieces := 0
	for _, body := range bodies {
		pieces += (len(body) + limit - 1) / limit
	}
	parking := s.reassemble(s.read(s.east, "persistent://"+s.namespace+"/__geobridge.geobridge.parking", pieces+1))
	if len(parking) != parked {
		s.Errorf("%d parked entries, want %d", len(parking), parked)
	}
	for _, body := range bodies {
		found := false
		for _, got := range parking {
			found = found || bytes.Equal(got, body)
		}
		if !found {
			s.Errorf("a parked entry of %d bytes is not as it was", len(body))
		}
	}
	m := s.metrics(d)
	if got := m.Sum("parked_entries"); got != float64(parked) {
		s.Errorf("parked_entries %v, want %d", got, parked)
	}
	s.healthy(d)
	s.terminate(d)
}
