package ladder

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsartest"
	"github.com/geobridge/geobridge/reroute"
)

// copied is what was seen at the target, and in the parking topic.
type copied struct {
	mu      sync.Mutex
	entries map[place]bool
	all     []arrival
	texts   map[string]bool   // of the messages that have come
	parked  map[string]bool   // keys of the parking topic
	settled map[string]uint64 // by key: up to here all have
	wrong   []string          // entries that are not where they belong
}

type place struct {
	topic string
	at    pulsartest.Position
}

// arrival is one stored copy of a message.
type arrival struct {
	message
	segment uint64
	topic   string
	at      pulsartest.Position
	index   int
}

func newCopied() *copied {
	return &copied{entries: map[place]bool{}, texts: map[string]bool{}, parked: map[string]bool{}, settled: map[string]uint64{}}
}

// collect reads what the target has stored since the last time.
func (w *world) collect() {
	c := w.copied
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range w.west().layout().Segments() {
		topic := s.Topic(topicName)
		all, err := w.west().Entries(topic)
		if err != nil {
			continue // pruned meanwhile
		}
		for i := range all {
			if at := (place{topic, all[i].At}); !c.entries[at] {
				c.entries[at] = true
				c.take(s, topic, &all[i])
			}
		}
	}
	parked, err := w.east().Entries(parkingTopic)
	if err != nil {
		return // not made yet
	}
	for i := range parked {
		if at := (place{parkingTopic, parked[i].At}); !c.entries[at] {
			c.entries[at] = true
			c.unpark(&parked[i])
		}
	}
}

func (c *copied) take(s *reroute.Segment, topic string, e *pulsartest.Stored) {
	if e.Info.HasMarker {
		return
	}
	found, err := messagesOf(e)
	if err != nil {
		c.wrong = append(c.wrong, fmt.Sprintf("%s %v: %v", topic, e.At, err))
		return
	}
	stamp := reroute.NewStamp(e.Info.HashMin, e.Info.HashMax, e.Info.HasHashMin, e.Info.HasHashMax)
	for i, m := range found {
		c.arrived(arrival{m, s.ID, topic, e.At, i})
		if h := m.routing().Hash(); m.key != "" && (!s.Range.Contains(h.Segment) || !stamp.Contains(h.Bucket) || s.Bucket(stamp.Min) != s.Bucket(h.Bucket)) {
			c.wrong = append(c.wrong, fmt.Sprintf("%s (%04x, %04x) in %s, stamped %v", m.text(), h.Segment, h.Bucket, topic, stamp))
		}
	}
}

func (c *copied) arrived(a arrival) {
	c.all = append(c.all, a)
	c.texts[a.text()] = true
}

// unpark finds the messages of a parked entry: that gives up their order. A lost
// connection may park twice, under the same key.
func (c *copied) unpark(e *pulsartest.Stored) {
	if e.Info.Identity == nil || c.parked[string(e.Info.PartitionKey)] {
		return
	}
	c.parked[string(e.Info.PartitionKey)] = true
	for _, field := range strings.FieldsFunc(string(e.Payload), func(r rune) bool { return r != '=' && (r < '0' || r > '9') }) {
		if m, err := parse(field); err == nil && m.key == "" {
			c.all = append(c.all, arrival{m, 0, parkingTopic, e.At, 0})
			c.texts[m.text()] = true
		}
	}
}

func messagesOf(e *pulsartest.Stored) (all []message, err error) {
	info := e.Info
	info.Encrypted = false // the test's own are not
	plain, err := frame.Decompress(&info, e.Payload, 1<<20)
	if err != nil {
		return nil, err
	}
	texts := []string{string(plain)}
	if e.Info.Batch {
		b, err := frame.Open(&info, e.Metadata, e.Payload, 1<<20)
		if err != nil {
			return nil, err
		}
		texts = nil
		for _, m := range b.Messages {
			texts = append(texts, string(m.Payload))
		}
	}
	for _, text := range texts {
		m, err := parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// missing are the published messages that have not come.
func (w *world) missing() (all []message) {
	w.collect()
	w.copied.mu.Lock()
	defer w.copied.mu.Unlock()
	for key, last := range w.publisher.next {
		for seq := w.copied.settled[key] + 1; seq <= last; seq++ {
			if m := (message{key, seq}); !w.copied.texts[m.text()] {
				all = append(all, m)
			}
		}
	}
	return all
}

// forget lets go of what needs no more attention, once all has come.
func (w *world) forget() {
	c := w.copied
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.texts)
	maps.Copy(c.settled, w.publisher.next)
	live := map[string]bool{parkingTopic: true}
	for _, s := range w.west().layout().Segments() {
		live[s.Topic(topicName)] = true
	}
	maps.DeleteFunc(c.entries, func(at place, _ bool) bool { return !live[at.topic] })
}

// trail is where a message is stored.
func (w *world) trail(m message) (out []string) {
	for _, s := range w.sides {
		for _, seg := range s.layout().Segments() {
			all, err := s.Entries(seg.Topic(topicName))
			if err != nil {
				continue
			}
			for i := range all {
				if found, err := messagesOf(&all[i]); err == nil && slices.Contains(found, m) {
					out = append(out, fmt.Sprintf("%s segment %d at %v", s.name, seg.ID, all[i].At))
				}
			}
		}
	}
	return out
}

// unacked counts what the source still has for the bridge, over all segments.
func (w *world) unacked() (n int64) {
	for _, s := range w.east().layout().Segments() {
		b, err := w.east().Backlog(s.Topic(topicName), subscription)
		if err != nil {
			b = 1 // no subscription there yet
		}
		n += b
	}
	return n
}

// judge tells the checker what was stored, in the order of the segments that a
// key passes: a child has a larger id than its parents.
func (w *world) judge() keyorder.Report {
	w.collect()
	c := w.copied
	slices.SortStableFunc(c.all, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.at.Ledger, b.at.Ledger), cmp.Compare(a.at.Entry, b.at.Entry),
			cmp.Compare(a.index, b.index))
	})
	all := c.all
	c.all = nil
	for _, a := range all {
		w.check.Delivered("target", a.name(), keyorder.Position{Segment: a.topic, Ledger: a.at.Ledger, Entry: a.at.Entry, Index: a.index})
	}
	return w.check.Report()
}
