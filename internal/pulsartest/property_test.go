package pulsartest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// ledgerClient keeps which sends were receipted, and where.
type ledgerClient struct {
	client
	receipts map[uint64]Position
}

func (c *ledgerClient) send(o outgoing) {
	if o.receipt != nil {
		c.receipts[o.receipt.SequenceID] = Position{o.receipt.Ledger, o.receipt.Entry}
	}
}

// Whatever happens to a topic: what was receipted is stored where the receipt says, what
// is stored was receipted or pending when a load ended (P18, P19), the order is that of the
// sends, and nothing comes after a seal (facts 6).
func TestWhatIsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		survive := 0
		c := coreOf(Options{Retention: true, Survive: func(_ string, n int) int { return min(survive, n) }})
		topic := c.addTopic("segment://public/default/t/0000-ffff-0")
		peer := &ledgerClient{receipts: map[uint64]Position{}}
		var p *producer
		next, late, sealedAt := uint64(0), map[uint64]bool{}, -1
		down := func(end func()) {
			survive = rapid.IntRange(0, 5).Draw(t, "survive")
			for _, a := range topic.pending {
				late[a.cmd.SequenceID] = true
			}
			end()
			p = nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				if p == nil || p.topic == nil {
					topic.load()
					p = &producer{peer: peer, id: 1, name: "p"}
					if refused := topic.produce(p); refused != nil {
						if refused.code != pulsarpb.ServerError_TopicTerminatedError || sealedAt < 0 {
							t.Fatal(refused)
						}
						p = nil
						return
					}
				}
				p.send(frame.SendCommand{ProducerID: 1, SequenceID: next}, frame.NewEntry(metadataOf(next), nil), nil)
				next++
			},
			"hold":    func(*rapid.T) { topic.holding = true },
			"release": func(*rapid.T) { topic.holding = false; topic.land(len(topic.pending)) },
			"land":    func(t *rapid.T) { topic.land(rapid.IntRange(0, 3).Draw(t, "n")) },
			"unload":  func(*rapid.T) { down(topic.unload) },
			"crash": func(*rapid.T) {
				if p != nil {
					p.release()
				}
				down(topic.crash)
			},
			"seal": func(t *rapid.T) {
				if sealedAt < 0 && rapid.IntRange(0, 9).Draw(t, "dice") == 0 {
					topic.seal()
					sealedAt = len(topic.log.entries)
				}
			},
			"": func(t *rapid.T) {
				stored, before := map[uint64]Position{}, noPosition()
				last := -1
				for _, e := range topic.log.entries {
					seq := e.info.SequenceID
					if e.at.compare(before) <= 0 || int(seq) <= last {
						t.Fatalf("%d at %v follows %d at %v", seq, e.at, last, before)
					}
					before, last, stored[seq] = e.at, int(seq), e.at
					if _, receipted := peer.receipts[seq]; !receipted && !late[seq] {
						t.Fatalf("%d is stored without a receipt", seq)
					}
				}
				for seq, at := range peer.receipts {
					if stored[seq] != at {
						t.Fatalf("%d was receipted at %v and is at %v", seq, at, stored[seq])
					}
				}
				if sealedAt >= 0 && len(topic.log.entries) != sealedAt {
					t.Fatal("stored after the seal")
				}
			},
		})
	})
}

// Whatever is acknowledged in whatever order: the backlog counts what is not, the mark never
// goes back but by a crash, and then only to what was written down.
func TestCursorCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := int64(0)
		l, c := newLog(&ids), newCursor(0)
		acked := map[int64]bool{}
		for range rapid.IntRange(1, 20).Draw(t, "entries") {
			l.append(&entry{})
		}
		saved := map[int64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"ack": func(t *rapid.T) {
				n := rapid.Int64Range(0, l.end()-1).Draw(t, "n")
				c.ack(n)
				acked[n] = true
			},
			"ackTo": func(t *rapid.T) {
				n := rapid.Int64Range(0, l.end()).Draw(t, "n")
				c.ackTo(n)
				for i := range n {
					acked[i] = true
				}
			},
			"save": func(*rapid.T) {
				c.save(c.savedAt, 0)
				clear(saved)
				for n := range acked {
					saved[n] = true
				}
			},
			"rollBack": func(*rapid.T) {
				c.rollBack()
				clear(acked)
				for n := range saved {
					acked[n] = true
				}
			},
			"": func(t *rapid.T) {
				mark := int64(0)
				for acked[mark] {
					mark++
				}
				if want := l.end() - int64(len(acked)); c.backlog(l) != want || c.mark != mark || c.read < c.mark {
					t.Fatalf("backlog %d, want %d; mark %d, want %d; read %d", c.backlog(l), want, c.mark, mark, c.read)
				}
			},
		})
	})
}
