package demo

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/reroute"
)

func TestCodec(t *testing.T) {
	c, err := newCodec(9)
	if err != nil {
		t.Fatal(err)
	}
	batch := func(codec pulsarpb.CompressionType, msgs ...message) func() ([]byte, []byte, error) {
		return func() ([]byte, []byte, error) { return c.batch(msgs, codec, 5, time.Now()) }
	}
	key := message{key: "order-001", seq: 7}
	other := message{key: "order-002", seq: 9}
	none := message{kind: keyless, seq: 3}
	for _, tt := range []struct {
		name  string
		write func() ([]byte, []byte, error)
		want  []message
		stamp bool
	}{
		{"a batch", batch(pulsarpb.CompressionType_NONE, key, other), []message{key, other}, true},
		{"lz4", batch(pulsarpb.CompressionType_LZ4, key, other), []message{key, other}, true},
		{"zstd", batch(pulsarpb.CompressionType_ZSTD, key), []message{key}, true},
		{"without keys", batch(pulsarpb.CompressionType_NONE, none, none), []message{none, none}, true},
		{"encrypted", func() ([]byte, []byte, error) { return c.seal(key, 5, time.Now()) }, []message{key}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			metadata, payload, err := tt.write()
			if err != nil {
				t.Fatal(err)
			}
			info, err := frame.Scan(metadata)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.open(&info, frame.NewEntry(metadata, payload))
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(message{})); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			stamp := reroute.NewStamp(info.HashMin, info.HashMax, info.HasHashMin, info.HasHashMax)
			if stamp.Valid != tt.stamp || stamp.Valid && !stamp.Contains(tt.want[0].route().Hash().Bucket) {
				t.Errorf("stamp %v", stamp)
			}
			if !ours(&info) {
				t.Errorf("producer %q is not ours", info.ProducerName)
			}
			payload = append([]byte(nil), payload...)
			payload[len(payload)-1] ^= 1
			if _, err := c.open(&info, frame.NewEntry(metadata, payload)); !errors.Is(err, errForeign) {
				t.Errorf("damaged: %v", err)
			}
		})
	}
}

// TestTraffic: all kinds come, numbered within their keys, the same for a seed.
func TestTraffic(t *testing.T) {
	a, b := newTraffic(4, false), newTraffic(4, false)
	last, kinds, ordered := map[string]uint64{}, map[kind]int{}, 0
	all := a.take(5000)
	for _, m := range all {
		if m.seq != last[m.key]+1 {
			t.Fatalf("%v follows %d", m, last[m.key])
		}
		last[m.key] = m.seq
		kinds[m.kind]++
		if m.orderingKey != "" {
			ordered++
		}
	}
	if len(last) < orders/2 || kinds[keyless] == 0 || kinds[encrypted] == 0 || ordered == 0 {
		t.Errorf("%d keys, kinds %v, %d with an ordering key", len(last), kinds, ordered)
	}
	for _, m := range newTraffic(4, true).take(5000) {
		if m.kind == encrypted {
			t.Fatal("encrypted, though it should be open")
		}
	}
	same := append(b.take(1), b.take(4999)...)
	if diff := cmp.Diff(all, same, cmp.AllowUnexported(message{})); diff != "" {
		t.Errorf("the same seed differs:\n%s", diff)
	}
}
