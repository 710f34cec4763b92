package demo

import (
	"strings"
	"sync"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/replicate"
	"github.com/geobridge/geobridge/reroute"
)

// cell is one of the matrix: a source segment, and a bucket of a target segment.
type cell struct {
	from, to uint64
	bucket   int
}

// share is what of a cell's entries travelled whole, and what are parts.
type share struct{ whole, split int }

// observer sees what the target cluster is sent, and counts what it stores: an
// entry counts with its receipt. It is the hook of that cluster.
type observer struct {
	lane func(name string) (segment uint64, ok bool)
	next func(pulsartest.Command) pulsartest.Action // a test's own hook

	mu      sync.Mutex
	pending map[handle][]stored
	cells   map[cell]share
	target  func(segment uint64) (reroute.Segment, bool)
	known   map[uint64]reroute.Segment
}

// handle is a producer as its connection knows it.
type handle struct {
	conn     int
	producer uint64
}

// stored is an entry that waits for its receipt.
type stored struct {
	sequence uint64
	at       cell
	part     bool
}

func (o *observer) hook(c pulsartest.Command) pulsartest.Action {
	switch {
	case c.Send != nil && strings.HasPrefix(c.Topic, "segment://") && c.Entry != nil:
		o.sent(c)
	case c.Receipt != nil:
		o.receipted(c)
	case c.Type == pulsarpb.BaseCommand_CLOSE_PRODUCER:
		o.mu.Lock()
		delete(o.pending, handle{c.Conn, c.Base.GetCloseProducer().GetProducerId()})
		o.mu.Unlock()
	}
	if o.next != nil {
		return o.next(c)
	}
	return pulsartest.Pass()
}

// sent notes an entry of the bridge: who sent it stands in its identity, where it
// belongs in its stamp.
func (o *observer) sent(c pulsartest.Command) {
	info, err := frame.Scan(c.Entry.Metadata)
	if err != nil || info.Identity == nil {
		return
	}
	id, err := replicate.ParseIdentity(info.Identity)
	scalable, _, target, err2 := reroute.ParseSegmentTopic(c.Topic)
	if err != nil || err2 != nil || scalable != topic {
		return
	}
	from, ok := o.lane(id.Lane)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.segment(target)
	stamp := reroute.NewStamp(info.HashMin, info.HashMax, info.HasHashMin, info.HasHashMax)
	if !ok || !stamp.Valid {
		return
	}
	h := handle{c.Conn, c.Send.ProducerID}
	o.pending[h] = append(o.pending[h], stored{c.Send.SequenceID, cell{from, target, s.Bucket(stamp.Min)}, id.Indices != nil})
}

func (o *observer) segment(id uint64) (reroute.Segment, bool) {
	s, ok := o.known[id]
	if !ok {
		if s, ok = o.target(id); ok {
			o.known[id] = s
		}
	}
	return s, ok
}

func (o *observer) receipted(c pulsartest.Command) {
	h := handle{c.Conn, c.Receipt.ProducerID}
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := o.pending[h]
	for i, s := range waiting {
		if s.sequence != c.Receipt.SequenceID {
			continue
		}
		o.pending[h] = append(waiting[:i:i], waiting[i+1:]...)
		n := o.cells[s.at]
		if s.part {
			n.split++
		} else {
			n.whole++
		}
		o.cells[s.at] = n
		return
	}
}

// matrix returns the cells of the target's present segments, and forgets the rest.
func (o *observer) matrix(active map[uint64]bool) map[cell]share {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[cell]share{}
	for at, n := range o.cells {
		if active[at.to] {
			out[at] = n
		} else {
			delete(o.cells, at)
		}
	}
	return out
}
