package demo

import (
	"fmt"
	"math/rand/v2"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/reroute"
)

// kind is how a message travels.
type kind int

const (
	batched   kind = iota // with a key, in a batch
	keyless               // without a key, in a batch
	encrypted             // with a key, alone, its payload a secret
)

// message is one message of the traffic, numbered within its key.
type message struct {
	kind kind
	key  string
	// orderingKey chooses the bucket, where it is not "".
	orderingKey string
	seq         uint64
}

// source is whose numbers the messages have.
const source = "demo"

// order is the message as the checker knows it.
func (m message) order() keyorder.Message {
	return keyorder.Message{Source: source, Key: m.key, Seq: m.seq, Unordered: m.kind == keyless}
}

// route is what decides where the message goes.
func (m message) route() reroute.Key {
	return reroute.Key{
		Key: []byte(m.key), HasKey: m.kind != keyless,
		OrderingKey: []byte(m.orderingKey), HasOrderingKey: m.orderingKey != "",
	}
}

const (
	orders  = 200 // keys of batched messages
	secrets = 12  // keys of encrypted ones
	carts   = 10  // ordering keys
)

// traffic makes up messages: mostly of keys of which some are far busier than
// others, now and then a run of one key, a few without a key or encrypted.
type traffic struct {
	rng  *rand.Rand
	open bool // nothing is encrypted
	next map[string]uint64
	run  message // goes on for left messages
	left int
}

func newTraffic(seed uint64, open bool) *traffic {
	return &traffic{rng: rand.New(rand.NewPCG(seed, 1)), open: open, next: map[string]uint64{}}
}

// take makes the next n messages.
func (t *traffic) take(n int) []message {
	out := make([]message, 0, n)
	for range n {
		if t.left == 0 {
			t.choose()
		}
		t.left--
		m := t.run
		t.next[m.key]++
		m.seq = t.next[m.key]
		out = append(out, m)
	}
	return out
}

func (t *traffic) choose() {
	t.left = 1
	switch p := t.rng.IntN(100); {
	case p < 4:
		t.run = message{kind: keyless}
	case p < 5 && !t.open:
		t.run = message{kind: encrypted, key: fmt.Sprintf("secret-%02d", t.rng.IntN(secrets))}
	default:
		n := int(float64(orders) * t.rng.Float64() * t.rng.Float64())
		t.run = message{kind: batched, key: fmt.Sprintf("order-%03d", n)}
		if n%8 == 0 {
			t.run.orderingKey = fmt.Sprintf("cart-%d", n%carts)
		}
		if p < 13 {
			t.left = 5 + t.rng.IntN(15)
		}
	}
}
