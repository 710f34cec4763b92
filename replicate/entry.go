package replicate

import (
	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/reroute"
)

// entry is one source entry on its way.
type entry struct {
	order uint64 // rises by one with each entry of a session
	pos   Position
	raw   *frame.Entry
	info  frame.Info
	bad   error // checksum or metadata undecodable

	batch *frame.Batch  // once opened
	keys  []reroute.Key // of the batch's messages

	cut     bool // its parts were handed to targets, the parking topic or nobody
	left    int  // parts and parked pieces without receipt yet
	opened  bool // decompressed to route it
	outcome Outcome
}

func (e *entry) complete() bool { return e.cut && e.left == 0 }

// messages returns the number of messages in the entry, as its metadata has it
// and the broker counts it.
func (e *entry) messages() int { return max(e.info.NumMessages, 1) }

// key returns the cleartext key of a single-message entry.
func (e *entry) key() reroute.Key {
	return reroute.Key{
		Key: e.info.PartitionKey, HasKey: e.info.HasPartitionKey && !e.info.NullPartitionKey,
		OrderingKey: e.info.OrderingKey, HasOrderingKey: e.info.HasOrderingKey,
	}
}

func (e *entry) stamp() reroute.Stamp {
	return reroute.NewStamp(e.info.HashMin, e.info.HashMax, e.info.HasHashMin, e.info.HasHashMax)
}

// shut lets go of what open made: a batch can be much larger than its entry.
func (e *entry) shut() { e.batch, e.keys = nil, nil }

// open decompresses the batch, once, and reads its keys.
func (e *entry) open() error {
	if e.batch != nil {
		return nil
	}
	batch, err := frame.Open(&e.info, e.raw.Metadata, e.raw.Payload, maxUncompressed)
	if err != nil {
		return err
	}
	e.batch = batch
	e.keys = make([]reroute.Key, len(batch.Messages))
	for i := range batch.Messages {
		m := &batch.Messages[i]
		e.keys[i] = reroute.Key{Key: m.Key, HasKey: m.HasKey, OrderingKey: m.OrderingKey, HasOrderingKey: m.HasOrderingKey}
	}
	return nil
}

// maxUncompressed bounds what a batch may unfold to, in bytes. Pulsar's
// producers close a batch at 128 KiB by default and at the broker's maximum
// message size at most, before compression.
const maxUncompressed = 64 << 20

// Outcome is how a source entry ended: the labels of entries_total.
type Outcome struct{ Outcome, Reason string }

// The outcomes that interface.md lists.
const (
	outcomeWhole   = "whole"
	outcomeSplit   = "split"
	outcomeParked  = "parked"
	outcomeSkipped = "skipped"
)

// Outcomes lists every label pair of entries_total, so that each series starts at 0.
func Outcomes() []Outcome {
	return []Outcome{
		{outcomeWhole, "stamp"}, {outcomeWhole, "opened"}, {outcomeWhole, "single"},
		{outcomeSplit, "segment"}, {outcomeSplit, "bucket"},
		{outcomeParked, "encrypted"}, {outcomeParked, "too_large"}, {outcomeParked, "undecodable"},
		{outcomeSkipped, "replicated_from"}, {outcomeSkipped, "replicate_to"}, {outcomeSkipped, "present"},
	}
}

// part is what one SEND carries: a whole entry, or some messages of one.
type part struct {
	entry    *entry
	segment  *reroute.Segment
	indices  []int // messages of the entry; nil: all of it, payload untouched
	stamp    reroute.Stamp
	setStamp bool // whole: the entry carries no valid stamp of its own

	metadata, payload []byte // built when cut; both nil for a whole entry
	messages          int
	size              int // bytes, an upper bound
	seq               uint64
}

func (p *part) whole() bool { return p.indices == nil }

// poison is what cannot be sent: a whole entry (indices nil) or some messages of it.
type poison struct {
	entry   *entry
	indices []int
	reason  string
	err     error
}
