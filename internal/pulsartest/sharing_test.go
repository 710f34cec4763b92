package pulsartest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// byBucket declares the buckets that end there.
func byBucket(topic, name string, ends ...uint16) pulsar.SubscribeOptions {
	o := failover(topic, name)
	o.Type = pulsar.KeyShared
	o.KeyShared = &pulsar.KeySharing{Sticky: true, EntryBuckets: true}
	start := uint16(0)
	for _, end := range ends {
		o.KeyShared.Ranges = append(o.KeyShared.Ranges, pulsar.HashRange{Start: start, End: end})
		start = end + 1
	}
	return o
}

func halves(topic, name string) pulsar.SubscribeOptions {
	return byBucket(topic, name, 0x7fff, 0xffff)
}

// stamped sends an entry with a stamp of one hash.
func (p *producer) stamped(hash uint32, payload string, messages int32) {
	p.r.t.Helper()
	p.r.must(p.Send(p.entry(payload, func(m *pulsarpb.MessageMetadata) {
		m.EntryHashMin, m.EntryHashMax = proto.Uint32(hash), proto.Uint32(hash)
		if messages > 1 {
			m.NumMessagesInBatch = proto.Int32(messages)
		}
	})))
}

func (c *consumer) ack(at ...pulsar.MessageID) {
	c.r.t.Helper()
	done := make(chan error, 1)
	c.AckIndividual(at, func(err error) { done <- err })
	c.r.must(<-done)
}

// Facts 4.3: what a consumer is refused that does not declare what its peers do.
func TestSharedAttachment(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		exclusive := streamConsumer(segment, "x")
		plain := halves(segment, "x")
		plain.KeyShared.EntryBuckets = false
		split := halves(segment, "x")
		split.KeyShared.Sticky = false
		gap := halves(segment, "x")
		gap.KeyShared.Ranges[1].Start++
		refused := func(when string, o pulsar.SubscribeOptions, want error, text string) {
			t.Helper()
			if _, err := r.trySubscribe(r.Client, o); !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", when, err)
			}
		}
		refused("a part", byBucket(segment, "x", 0x7fff), pulsar.ErrConsumerAssign, "must tile the 16-bit ring")
		refused("a gap", gap, pulsar.ErrConsumerAssign, "ascending, contiguous")
		first := r.subscribe(exclusive, 1)
		refused("beside Exclusive", halves(segment, "y"), pulsar.ErrConsumerBusy, "different type")
		r.must(first.Close(t.Context()))
		r.subscribe(halves(segment, "a"), 1)
		r.subscribe(halves(segment, "b"), 1)
		refused("a part, beside others", byBucket(segment, "x", 0x7fff), pulsar.ErrConsumerAssign, "must tile the 16-bit ring")
		refused("other buckets", byBucket(segment, "x", 0xffff), pulsar.ErrConsumerAssign, "declares different entry-bucket boundaries")
		for when, o := range map[string]pulsar.SubscribeOptions{"no flag": plain, "AUTO_SPLIT": split, "Exclusive": exclusive} {
			refused(when, o, pulsar.ErrConsumerBusy, "Subscription is of different type")
		}
	})
}

// Keys and what they hash to. The base64 key stands for the high one, and its text hashes low.
const (
	lowKey    = "a"    // 69b2
	highKey   = "f"    // 883b
	highKey64 = "Zg==" // 40ad
)

// Facts 5, P40: where an entry goes.
func TestBucketOfEntry(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		low, high := r.subscribe(halves(segment, "a"), 100), r.subscribe(halves(segment, "b"), 100)
		p := r.produce(segment, "p")
		for _, tt := range []struct {
			name   string
			change func(*pulsarpb.MessageMetadata)
			to     *consumer
		}{
			{"stamp", func(m *pulsarpb.MessageMetadata) {
				m.EntryHashMin, m.EntryHashMax = proto.Uint32(0x7fff), proto.Uint32(0x7fff)
			}, low},
			{"stamp's other end", func(m *pulsarpb.MessageMetadata) {
				m.EntryHashMin, m.EntryHashMax = proto.Uint32(0x8000), proto.Uint32(0x8000)
			}, high},
			{"straddles", func(m *pulsarpb.MessageMetadata) {
				m.EntryHashMin, m.EntryHashMax = proto.Uint32(1), proto.Uint32(0xffff)
			}, low},
			{"stamp lies", func(m *pulsarpb.MessageMetadata) {
				m.EntryHashMin, m.EntryHashMax, m.PartitionKey = proto.Uint32(1), proto.Uint32(1), proto.String(highKey)
			}, low},
			{"key", func(m *pulsarpb.MessageMetadata) { m.PartitionKey = proto.String(highKey) }, high},
			{"another key", func(m *pulsarpb.MessageMetadata) { m.PartitionKey = proto.String(lowKey) }, low},
			{"ordering key", func(m *pulsarpb.MessageMetadata) {
				m.PartitionKey, m.OrderingKey = proto.String(highKey), []byte(lowKey)
			}, low},
			{"base64", func(m *pulsarpb.MessageMetadata) {
				m.PartitionKey, m.PartitionKeyB64Encoded = proto.String(highKey64), proto.Bool(true)
			}, high},
		} {
			r.must(p.Send(p.entry(tt.name, tt.change)))
			other := low
			if tt.to == low {
				other = high
			}
			if to, rest := tt.to.take(), other.take(); len(to) != 1 || len(rest) != 0 {
				t.Errorf("%s: %q, and the other %q", tt.name, to, rest)
			}
		}
		for range 20 {
			p.send("no key")
		}
		if l, h := len(low.take()), len(high.take()); l == 0 || h == 0 || l+h != 20 {
			t.Errorf("without a key: %d and %d", l, h)
		}
	})
}

// Facts 9.2, and one bucket holds back no other.
func TestBucketFlow(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		for range 8 {
			p.stamped(1, "low", 10)
		}
		p.stamped(0xffff, "high", 1)
		synctest.Wait()
		low := r.subscribe(halves(segment, "a"), 0)
		high := r.subscribe(halves(segment, "b"), 1)
		r.want(&high.notes, "message 8 high")
		r.must(low.Flow(5))
		if got := low.take(); len(got) != 5 {
			t.Errorf("5 permits: %q", got)
		}
		r.must(low.Flow(20))
		r.want(&low.notes)
		r.must(low.Flow(26))
		r.want(&low.notes, "message 5 low")
	})
}

// Facts 9.2: a Shared subscription stops at the permits; the dead one's come to the other.
func TestShared(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		for range 4 {
			p.stamped(1, "batch", 10)
		}
		synctest.Wait()
		o := failover(segment, "a")
		o.Type = pulsar.Shared
		a := r.subscribe(o, 11)
		r.want(&a.notes, "message 0 batch", "message 1 batch")
		b := r.subscribe(o, 40)
		r.want(&b.notes, "message 2 batch", "message 3 batch")
		r.must(a.ackTo(r.stored(segment)[3]))
		if n := b.backlog(); n != 4 {
			t.Errorf("backlog %d after a cumulative acknowledgement", n)
		}
		a.ack(r.stored(segment)[1], r.stored(segment)[3])
		r.must(a.Close(t.Context()))
		r.want(&b.notes, "message 0 batch")
		b.ack(r.stored(segment)[0], r.stored(segment)[2])
		if n := b.backlog(); n != 0 {
			t.Errorf("backlog %d", n)
		}
	})
}

// Facts 4.5: a bucket that moves is withheld until its old owner's are acknowledged, one by one.
func TestBucketMoves(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		a := r.subscribe(halves(segment, "a"), 100)
		p.stamped(1, "l0", 1)
		p.stamped(0xffff, "h1", 1)
		p.stamped(0xffff, "h2", 1)
		r.want(&a.notes, "message 0 l0", "message 1 h1", "message 2 h2")
		b := r.subscribe(halves(segment, "b"), 100)
		p.stamped(0xffff, "h3", 1)
		p.stamped(1, "l4", 1)
		r.want(&a.notes, "message 4 l4")
		at := r.stored(segment)
		r.must(a.ackTo(at[2])) // answered, and ignored
		if n := a.backlog(); n != 5 {
			t.Errorf("backlog %d", n)
		}
		a.ack(at[1])
		r.want(&b.notes)
		a.ack(at[2])
		r.want(&b.notes, "message 3 h3")
		r.must(b.Close(t.Context()))
		r.want(&a.notes, "message 3 h3")
	})
}

// Facts 4.5, 4.7: what a dead peer held comes to the survivors, in its order, as if it were new; so
// does what an Exclusive one held.
func TestPeerDies(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		other := r.newClient()
		a, err := r.trySubscribe(other, streamConsumer(segment, "a"))
		r.must(err)
		r.must(a.Flow(2))
		p.stamped(1, "0", 1)
		p.stamped(0xffff, "1", 1)
		p.stamped(1, "2", 1)
		r.want(&a.notes, "message 0 0", "message 1 1")
		r.must(a.Close(t.Context()))
		a, err = r.trySubscribe(other, halves(segment, "a"))
		r.must(err)
		r.must(a.Flow(2))
		synctest.Wait()
		b := r.subscribe(halves(segment, "b"), 10)
		r.want(&a.notes, "message 0 0", "message 1 1")
		r.want(&b.notes)
		r.must(other.Close())
		r.want(&b.notes, "message 0 0", "message 1 1", "message 2 2")
	})
}
