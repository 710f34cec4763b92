package replicate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/cenkalti/backoff/v4"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// pieceSize is how much of a parked entry one message of the parking topic
// holds, in bytes: below every broker's limit.
const pieceSize = 1 << 20

// parks is the driver's side of the parking topic: its producer, and what waits
// for it, which one operation empties.
type parks struct {
	writer  *writer
	refused *backoff.ExponentialBackOff // makes the wait before it is taken again; nil once something was parked

	mu      sync.Mutex
	gen     int // of what waits
	waiting []poison
	running bool
}

func (q *parks) close() {
	if q.writer != nil {
		q.writer.close()
	}
}

// takeParking takes the parking topic as N(L) beside the driver, for as long as it
// takes, and looks for what the lane has parked if that is asked for.
func (s *session) takeParking(ef Effect) {
	old, again := s.parks.writer, s.parks.refused
	s.parks.writer = nil
	if old != nil && again == nil {
		s.parks.refused = newBackoff()
	}
	s.op(func(ctx context.Context) {
		if old != nil {
			old.close()
		}
		if again != nil {
			pause(ctx, again.NextBackOff())
		}
		wait := newBackoff()
		for {
			w, ev, err := s.openParking(ctx, ef)
			switch {
			case err == nil:
				s.box.put(letter{ev: ev, do: func() { s.parks.writer = w }})
				return
			case ctx.Err() != nil:
				return
			case errors.Is(err, pulsar.ErrProducerBusy) && s.deposed():
				s.box.post(Event{Kind: evFailed, Err: errDeposed})
				return
			}
			s.log.Warn("cannot take the parking topic, trying again", "topic", s.lane.env.ParkingTopic, "error", err)
			s.box.post(Event{Kind: evParkTrouble, Gen: ef.Gen, Err: err})
			pause(ctx, wait.NextBackOff())
		}
	})
}

func (s *session) openParking(ctx context.Context, ef Effect) (*writer, Event, error) {
	env := s.lane.env
	w, at, err := claimWriter(ctx, env.Source.Client, env.ParkingTopic, s.lane.name)
	if err != nil {
		return nil, Event{}, err
	}
	ev := Event{Kind: evParkingTaken, Gen: ef.Gen, Pos: at}
	if ef.From != noPosition() {
		ev.Found, _, err = env.ParkingScans.find(ctx, env.ParkingTopic, s.lane.name, ef.From, ev.Pos, nil)
	}
	if err != nil {
		w.close()
		return nil, Event{}, err
	}
	return w, ev, nil
}

// park has a poison entry written to the parking topic on the source cluster,
// and reports it only then.
func (s *session) park(gen int, p poison) {
	q, w := &s.parks, s.parks.writer
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gen != gen {
		q.gen, q.waiting = gen, nil
	}
	q.waiting = append(q.waiting, p)
	if !q.running {
		q.running = true
		s.op(func(ctx context.Context) { s.parkAll(ctx, w, gen) })
	}
}

// next returns what to park next; false: nothing, and the operation ends.
func (q *parks) next() (poison, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running = false
		return poison{}, false
	}
	p := q.waiting[0]
	q.waiting = q.waiting[1:]
	return p, true
}

// forget drops what waits: the machine asks again, under a later generation.
func (q *parks) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.running = nil, false
}

func (s *session) parkAll(ctx context.Context, w *writer, gen int) {
	for p, ok := s.parks.next(); ok; p, ok = s.parks.next() {
		if err := s.parkEntry(ctx, w, p); err != nil {
			if ctx.Err() == nil {
				s.log.Error("cannot park an entry, trying again", "entry", p.entry.pos, "reason", p.reason, "error", err)
			}
			s.parks.forget()
			s.box.post(Event{Kind: evParkingLost, Gen: gen, Err: err})
			return
		}
		s.log.Error("entry parked: the order of its keys is given up", "topic", s.lane.env.ParkingTopic, "entry", p.entry.pos,
			"messages", poisonCount(p), "reason", p.reason, "error", p.err)
		s.lane.metrics.parked.Inc()
		s.box.put(letter{ev: Event{Kind: evParked, Gen: gen}, do: func() { s.parks.refused = nil }})
	}
}

func poisonCount(p poison) int {
	if p.indices == nil {
		return p.entry.messages()
	}
	return len(p.indices)
}

// parkEntry writes the pieces, keyed by the identity. The last one bears it as its
// property, as a copy at the target does: an entry is parked when that one is
// stored.
func (s *session) parkEntry(ctx context.Context, w *writer, p poison) error {
	id := s.machine.cut.appendIdentity(nil, p.entry, p.indices)
	body := parkedBody(p)
	pieces := (len(body) + pieceSize - 1) / pieceSize
	properties := []*pulsarpb.KeyValue{
		property("reason", p.reason), property("mapping", s.lane.env.Mapping), property("lane", s.lane.name),
		property("entry", p.entry.pos.String()), property("identity", string(id)),
		property("metadata_size", strconv.Itoa(len(p.entry.raw.Metadata))), property("pieces", strconv.Itoa(pieces)),
	}
	for i := range pieces {
		piece := body[i*pieceSize : min((i+1)*pieceSize, len(body))]
		own := append(properties[:len(properties):len(properties)], property("piece", strconv.Itoa(i)))
		if i == pieces-1 {
			own = append(own, property(frame.IdentityProperty, string(id)))
		}
		if err := w.append(ctx, fmt.Sprintf("parked/%s/%d", id, i), piece, own...); err != nil {
			return err
		}
	}
	return nil
}

// parkedBody is the entry as stored: metadata, then payload. Of a batch of which
// only some messages are poison, the whole entry is kept; the identity says which.
func parkedBody(p poison) []byte {
	body := make([]byte, 0, p.entry.raw.Size())
	body = append(body, p.entry.raw.Metadata...)
	return append(body, p.entry.raw.Payload...)
}

func property(key, value string) *pulsarpb.KeyValue {
	return &pulsarpb.KeyValue{Key: proto.String(key), Value: proto.String(value)}
}
