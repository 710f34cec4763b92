package verify

import (
	"hash/maphash"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/replicate"
)

// copyOf is an entry of the target, taken apart to be forged.
type copyOf struct {
	raw
	id   replicate.Identity
	ours bool
}

// west reads what the target holds, parents first, markers left out.
func (w *world) west() (all []copyOf) {
	w.T.Helper()
	l := w.layout("west")
	segments := slices.Clone(l.Segments())
	ranks := generations(l)
	slices.SortFunc(segments, func(a, b *segment) int { return ranks[a.ID] - ranks[b.ID] })
	for _, s := range segments {
		entries, err := w.Sides["west"].Entries(s.Topic(topic))
		w.Must(err)
		for _, e := range entries {
			if e.Info.HasMarker {
				continue
			}
			c := copyOf{raw: raw{e.Metadata, e.Payload}}
			if c.id, err = replicate.ParseIdentity(e.Info.Identity); err == nil {
				c.ours = true
			}
			all = append(all, c)
		}
	}
	return all
}

// forge replaces west by a cluster of so many segments that holds these entries
// in that order, in the segment of each one's first message; and the records.
func (w *world) forge(all []copyOf, segments int) {
	w.T.Helper()
	records, err := w.Sides["west"].Entries(checkpoint)
	w.Must(err)
	west := w.serve("west", pulsartest.Options{Retention: true, NoAutoScale: true})
	w.Must(west.CreateScalable(topic, segments))
	w.Must(west.CreateRegular(checkpoint))
	w.Must(west.EnsureSubscription(checkpoint, "hold", true))
	client := w.Client("west")
	out := w.open(client, checkpoint)
	for _, r := range records {
		out.send(r.Metadata, r.Payload)
	}
	out.close()
	l := w.layout("west")
	outlets := map[uint64]*outlet{}
	for _, e := range all {
		seg := l.Active()[0]
		if segments > 1 {
			seg = l.ActiveAt(w.open1(e.raw).messages[0].hashOf())
		}
		if outlets[seg.ID] == nil {
			outlets[seg.ID] = w.open(client, seg.Topic(topic))
		}
		outlets[seg.ID].send(e.metadata, e.payload)
	}
	for _, o := range outlets {
		o.close()
	}
}

func (s *shown) hashOf() uint16 { return s.key.Hash().Segment }

// open1 opens an entry as verify does.
func (w *world) open1(e raw) content {
	return newOpener("east", maphash.MakeSeed()).open(w.message(e))
}

// identified gives an entry another identity.
func (w *world) identified(e copyOf) copyOf {
	e.metadata = frame.AppendPatched(nil, e.metadata, &frame.Patch{Identity: e.id.Append(nil)})
	return e
}

// part is an entry of some of another's messages, by place in it.
func (w *world) part(e copyOf, places ...int) copyOf {
	w.T.Helper()
	info, err := frame.Scan(e.metadata)
	w.Must(err)
	b, err := frame.Open(&info, e.metadata, e.payload, maxUncompressed)
	w.Must(err)
	id := e.id
	id.Indices = nil
	for _, i := range places {
		if e.id.Indices != nil {
			i = e.id.Indices[i]
		}
		id.Indices = append(id.Indices, i)
	}
	md, payload, err := b.Rebatch(e.metadata, &info, places, &frame.Patch{Identity: id.Append(nil)})
	w.Must(err)
	return copyOf{raw{md, payload}, id, true}
}

// edited changes the metadata of an entry.
func (w *world) edited(e copyOf, f func(*pulsarpb.MessageMetadata)) copyOf {
	w.T.Helper()
	var md pulsarpb.MessageMetadata
	w.Must(proto.Unmarshal(e.metadata, &md))
	f(&md)
	b, err := proto.Marshal(&md)
	w.Must(err)
	e.metadata = b
	return e
}

// replica is a bridged topic: what east holds, and the entries of west.
func (w *world) replica(messages, keys int) []copyOf {
	w.T.Helper()
	w.Must(w.Sides["east"].CreateScalable(topic, 2))
	w.Must(w.Sides["west"].CreateScalable(topic, 3))
	stop := w.bridging("bucket")
	w.publish("east", w.texts(messages/2, keys))
	w.Must(w.Sides["east"].Split(topic, 1))
	w.publish("east", w.texts(messages-messages/2, keys))
	w.copied("east")
	stop()
	return w.west()
}
