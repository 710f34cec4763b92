package replicate

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// pieceSize is how much of a parked entry one message of the parking topic
// holds, in bytes: below every broker's limit.
const pieceSize = 1 << 20

// park writes a poison entry to the parking topic on the source cluster, and
// reports it only then. The pieces are keyed by the identity, so that a crash in
// between does not park it twice once the topic is compacted.
func (s *session) park(ctx context.Context, p poison) {
	env := s.lane.env
	wait := newBackoff()
	for {
		err := parkEntry(ctx, env.Source.Client, env.ParkingTopic, s.lane.name, s.machine.cut.identity(p.entry, p.indices), p, env.Mapping)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		s.log.Error("cannot park an entry, trying again", "entry", p.entry.pos, "reason", p.reason, "error", err)
		pause(ctx, wait.NextBackOff())
	}
	s.log.Error("entry parked: the order of its keys is given up", "topic", env.ParkingTopic, "entry", p.entry.pos,
		"messages", len(p.indices), "reason", p.reason, "error", p.err)
	s.lane.metrics.parked.Inc()
	s.box.post(Event{Kind: evParked, Poison: p})
}

func parkEntry(ctx context.Context, client *pulsar.Client, topic, name string, id []byte, p poison, mapping string) error {
	w, err := openWriter(ctx, client, topic, "")
	if err != nil {
		return err
	}
	defer w.close()
	body := parkedBody(p)
	pieces := (len(body) + pieceSize - 1) / pieceSize
	for i := range pieces {
		piece := body[i*pieceSize : min((i+1)*pieceSize, len(body))]
		key := fmt.Sprintf("parked/%s/%d", id, i)
		err := w.append(ctx, key, piece,
			property("reason", p.reason), property("mapping", mapping), property("lane", name),
			property("entry", p.entry.pos.String()), property("identity", string(id)),
			property("metadata_size", strconv.Itoa(len(p.entry.raw.Metadata))),
			property("piece", strconv.Itoa(i)), property("pieces", strconv.Itoa(pieces)))
		if err != nil {
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
