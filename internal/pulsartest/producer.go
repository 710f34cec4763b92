package pulsartest

import (
	"fmt"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// producer is one attached producer; topic is nil once it was closed.
type producer struct {
	peer  peer
	id    uint64
	name  string
	topic *topic
}

// add is one SEND that is not stored yet.
type add struct {
	from  *producer // nil: nobody waits for the receipt
	name  string    // of the producer
	cmd   frame.SendCommand
	entry *entry
}

// maxMessageSize is the default of Pulsar (facts 9.1).
const maxMessageSize = 5 << 20

// produce attaches a producer (facts 5 to 7).
func (t *topic) produce(p *producer) *refusal {
	blocked := t.blocked()
	switch {
	case t.log.terminated:
		return refuse(pulsarpb.ServerError_TopicTerminatedError, "Topic was already terminated")
	case blocked != nil:
		return blocked
	case p.name == "":
		t.env.names++
		p.name = fmt.Sprintf("%s-0-%d", t.env.opts.Cluster, t.env.names)
	case t.producers[p.name] != nil:
		return refuse(pulsarpb.ServerError_ProducerBusy, fmt.Sprintf("Producer with name '%s' is already connected to topic", p.name))
	}
	p.topic = t
	t.producers[p.name] = p
	return nil
}

// lastSequence is what PRODUCER_SUCCESS tells (facts 7).
func (p *producer) lastSequence() int64 {
	if last, ok := p.topic.sequences[p.name]; ok {
		return last
	}
	return -1
}

// release lets go of the name. What the producer sent may still be stored.
func (p *producer) release() {
	if p.topic != nil && p.topic.producers[p.name] == p {
		delete(p.topic.producers, p.name)
	}
	p.topic = nil
}

// send takes an entry; its receipt follows at once unless storage is held.
func (p *producer) send(cmd frame.SendCommand, e *frame.Entry, damage error) {
	t := p.topic
	a := &add{from: p, name: p.name, cmd: cmd}
	if damage != nil { // facts 5: without magic and checksum it would pass unchecked
		a.fail(pulsarpb.ServerError_ChecksumError, "Checksum failed on the broker")
		return
	}
	a.entry = newEntry(e)
	if len(e.Metadata)+len(e.Payload) > maxMessageSize {
		t.wedged = true // facts 9.1: no receipt, no error, for anybody, until a restart
	}
	t.pending = append(t.pending, a)
	if !t.holding {
		t.land(len(t.pending))
	}
}

// land stores the first n pending sends, as one, and tells their senders.
func (t *topic) land(n int) {
	if t.wedged {
		return
	}
	n = min(n, len(t.pending))
	for _, a := range t.pending[:n] {
		t.store(a)
	}
	t.pending = t.pending[n:]
	t.dispatchAll()
}

// landLate stores what of the pending sends survives the end of a load: always a
// prefix, and never after it (P18). No receipts are sent (P19). It returns the last
// one that was stored, nil for none.
func (t *topic) landLate() (last *add) {
	n := len(t.pending)
	if t.wedged {
		n = 0
	} else if survive := t.env.opts.Survive; survive != nil {
		n = min(max(survive(t.name, n), 0), n)
	}
	if t.landSilently(n); n > 0 {
		last = t.pending[n-1]
	}
	t.pending = nil
	return last
}

// landSilently stores the first n pending sends without receipts, and leaves them pending.
func (t *topic) landSilently(n int) {
	for _, a := range t.pending[:n] {
		silent := *a
		silent.from = nil
		t.store(&silent)
	}
}

func (t *topic) store(a *add) {
	if t.deduplicates() && t.duplicate(a) {
		a.receipt(noPosition()) // facts 7
		return
	}
	t.log.append(a.entry)
	a.receipt(a.entry.at)
}

// duplicate judges by the SEND's own ids, and remembers them: an entry at or below
// the last one of its name is dropped whole (facts 7).
func (t *topic) duplicate(a *add) bool {
	seq := int64(a.cmd.SequenceID)
	if last, ok := t.sequences[a.name]; ok && seq <= last {
		return true
	}
	if a.cmd.HasHighestSequenceID {
		seq = max(seq, int64(a.cmd.HighestSequenceID))
	}
	t.sequences[a.name] = seq
	return false
}

func (a *add) receipt(at Position) {
	if a.from == nil || a.from.topic == nil {
		return
	}
	a.from.peer.send(outgoing{receipt: &frame.ReceiptCommand{
		ProducerID: a.from.id, SequenceID: a.cmd.SequenceID, Ledger: at.Ledger, Entry: at.Entry,
		HighestSequenceID: a.cmd.HighestSequenceID, HasHighestSequenceID: a.cmd.HasHighestSequenceID,
	}})
}

func (a *add) fail(code pulsarpb.ServerError, message string) {
	if a.from != nil {
		a.from.peer.send(command(sendError(a.from.id, a.cmd.SequenceID, code, message)))
	}
}
