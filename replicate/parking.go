package replicate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// pieceSize is how much of a parked entry one message of the parking topic
// holds, in bytes: below every broker's limit.
const pieceSize = 1 << 20

// parkQueue holds what waits for the parking topic; one operation empties it.
type parkQueue struct {
	mu      sync.Mutex
	waiting []poison
	running bool
}

// park has a poison entry written to the parking topic on the source cluster,
// and reports it only then.
func (s *session) park(p poison) {
	q := &s.parks
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, p)
	if !q.running {
		q.running = true
		s.op(s.parkAll)
	}
}

// next returns what to park next; false: nothing, and the operation ends.
func (q *parkQueue) next() (poison, bool) {
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

func (s *session) parkAll(ctx context.Context) {
	var w *writer
	defer func() {
		if w != nil {
			w.close()
		}
	}()
	for p, ok := s.parks.next(); ok; p, ok = s.parks.next() {
		wait := newBackoff()
		for {
			var err error
			if w, err = s.parkEntry(ctx, w, p); err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			s.log.Error("cannot park an entry, trying again", "entry", p.entry.pos, "reason", p.reason, "error", err)
			s.box.post(Event{Kind: evParkTrouble, Err: err})
			pause(ctx, wait.NextBackOff())
		}
		s.log.Error("entry parked: the order of its keys is given up", "topic", s.lane.env.ParkingTopic, "entry", p.entry.pos,
			"messages", poisonCount(p), "reason", p.reason, "error", p.err)
		s.lane.metrics.parked.Inc()
		s.box.post(Event{Kind: evParked, Poison: p})
	}
}

func poisonCount(p poison) int {
	if p.indices == nil {
		return p.entry.messages()
	}
	return len(p.indices)
}

// parkEntry writes the pieces, keyed by the identity, so that a crash in between
// does not park it twice once the topic is compacted. It returns the writer to go
// on with, nil after an error.
func (s *session) parkEntry(ctx context.Context, w *writer, p poison) (*writer, error) {
	env := s.lane.env
	if w == nil {
		var err error
		if w, err = openWriter(ctx, env.Source.Client, env.ParkingTopic, ""); err != nil {
			return nil, err
		}
	}
	id := s.machine.cut.appendIdentity(nil, p.entry, p.indices)
	body := parkedBody(p)
	pieces := (len(body) + pieceSize - 1) / pieceSize
	for i := range pieces {
		piece := body[i*pieceSize : min((i+1)*pieceSize, len(body))]
		key := parkedKey(id, i)
		err := w.append(ctx, key, piece,
			property("reason", p.reason), property("mapping", env.Mapping), property("lane", s.lane.name),
			property("entry", p.entry.pos.String()), property("identity", string(id)),
			property("metadata_size", strconv.Itoa(len(p.entry.raw.Metadata))),
			property("piece", strconv.Itoa(i)), property("pieces", strconv.Itoa(pieces)))
		if err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

const parkedPrefix = "parked/"

func parkedKey(id []byte, piece int) string { return fmt.Sprintf("%s%s/%d", parkedPrefix, id, piece) }

// ParkedIdentity reads what a key of the parking topic says is parked; false: the
// key is of something else.
func ParkedIdentity(key string) (Identity, bool) {
	rest, ok := strings.CutPrefix(key, parkedPrefix)
	end := strings.LastIndexByte(rest, '/')
	if !ok || end < 0 {
		return Identity{}, false
	}
	id, err := ParseIdentity([]byte(rest[:end]))
	return id, err == nil
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
