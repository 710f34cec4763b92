package pulsartest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// trap is a hook that acts once, on the command of that type numbered nth from 0.
type trap struct {
	typ    pulsarpb.BaseCommand_Type
	sent   bool
	nth    int
	action pulsartest.Action
	hit    *pulsartest.Command
}

func (tr *trap) hook(c pulsartest.Command) pulsartest.Action {
	if c.Type != tr.typ || c.Sent != tr.sent || tr.hit != nil {
		return pulsartest.Pass()
	}
	if tr.nth--; tr.nth >= 0 {
		return pulsartest.Pass()
	}
	tr.hit = &c
	return tr.action
}

// What each action does to the second of four sends, or to its receipt.
func TestActions(t *testing.T) {
	const send, receipt = pulsarpb.BaseCommand_SEND, pulsarpb.BaseCommand_SEND_RECEIPT
	const r0, r1, r2, r3 = "receipt 0 at 0", "receipt 1 at 1", "receipt 2 at 2", "receipt 3 at 3"
	for _, tt := range []struct {
		name   string
		typ    pulsarpb.BaseCommand_Type
		action pulsartest.Action
		told   []string
		stored int
	}{
		{"pass", send, pulsartest.Pass(), []string{r0, r1, r2, r3}, 4},
		{"send dropped", send, pulsartest.Drop(), []string{r0, "receipt 2 at 1", "receipt 3 at 2"}, 3},
		{"send refused", send, pulsartest.Fail(pulsarpb.ServerError_PersistenceError, "as told"),
			[]string{r0, "error 1 PersistenceError", "receipt 2 at 1", "receipt 3 at 2"}, 3},
		{"send overtaken", send, pulsartest.Reorder(1), []string{r0, "receipt 2 at 1", "receipt 1 at 2", r3}, 4},
		{"cut before the send", send, pulsartest.CutBefore(), []string{r0, "closed"}, 1},
		{"cut after the send", send, pulsartest.CutAfter(), []string{r0, "closed"}, 2},
		{"receipt dropped", receipt, pulsartest.Drop(), []string{r0, r2, r3}, 4},
		{"receipt overtaken", receipt, pulsartest.Reorder(2), []string{r0, r2, r3, r1}, 4},
		{"cut before the receipt", receipt, pulsartest.CutBefore(), []string{r0, "closed"}, 2},
		{"cut after the receipt", receipt, pulsartest.CutAfter(), []string{r0, r1, "closed"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := &trap{typ: tt.typ, sent: tt.typ == receipt, nth: 1, action: tt.action}
			inBubble(t, pulsartest.Options{Hook: tr.hook}, func(t *testing.T, r *rig) {
				segment := r.create(1)[0]
				p := r.produce(segment, "p")
				for _, payload := range []string{"a", "b", "c", "d"} {
					if err := p.Send(p.entry(payload, func(*pulsarpb.MessageMetadata) {})); err != nil {
						break // cut
					}
					synctest.Wait()
				}
				r.want(&p.notes, tt.told...)
				if n := len(r.stored(segment)); n != tt.stored {
					t.Errorf("%d stored, want %d", n, tt.stored)
				}
				if tr.hit == nil || tr.hit.Conn == 0 || tt.typ == send && (tr.hit.Topic != segment || tr.hit.Send.SequenceID != 1) {
					t.Errorf("hit %+v", tr.hit)
				}
			})
		})
	}
}

func TestDelay(t *testing.T) {
	for _, typ := range []pulsarpb.BaseCommand_Type{pulsarpb.BaseCommand_SEND, pulsarpb.BaseCommand_SEND_RECEIPT} {
		tr := &trap{typ: typ, sent: typ == pulsarpb.BaseCommand_SEND_RECEIPT, action: pulsartest.Delay(10 * time.Second)}
		inBubble(t, pulsartest.Options{Hook: tr.hook}, func(t *testing.T, r *rig) {
			p := r.produce(r.create(1)[0], "p")
			p.send("a", "b")
			r.want(&p.notes)
			time.Sleep(10 * time.Second) // of fake time
			r.want(&p.notes, "receipt 0 at 0", "receipt 1 at 1")
		})
	}
}

// A refusal has the form that belongs to the command.
func TestFail(t *testing.T) {
	refused := pulsartest.Fail(pulsarpb.ServerError_ServiceNotReady, "as told")
	ask := map[pulsarpb.BaseCommand_Type]func(*rig, string) error{
		pulsarpb.BaseCommand_LOOKUP:   func(r *rig, s string) error { _, err := r.Lookup(r.t.Context(), s); return err },
		pulsarpb.BaseCommand_PRODUCER: func(r *rig, s string) error { _, err := r.tryProduce(r.Client, s, "p"); return err },
		pulsarpb.BaseCommand_SUBSCRIBE: func(r *rig, s string) error {
			_, err := r.trySubscribe(r.Client, failover(s, "c"))
			return err
		},
		pulsarpb.BaseCommand_CLOSE_PRODUCER: func(r *rig, s string) error { return r.produce(s, "p").Close(r.t.Context()) },
		pulsarpb.BaseCommand_CLOSE_CONSUMER: func(r *rig, s string) error { return r.subscribe(failover(s, "c"), 0).Close(r.t.Context()) },
		pulsarpb.BaseCommand_CONSUMER_STATS: func(r *rig, s string) error {
			_, err := r.subscribe(failover(s, "c"), 0).Stats(r.t.Context())
			return err
		},
		pulsarpb.BaseCommand_SEEK: func(r *rig, s string) error {
			return r.subscribe(failover(s, "c"), 0).Seek(r.t.Context(), pulsar.Latest())
		},
		pulsarpb.BaseCommand_ACK: func(r *rig, s string) error {
			return r.subscribe(failover(s, "c"), 0).ackTo(pulsar.Earliest())
		},
		pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP: func(r *rig, _ string) error {
			return r.WatchLayout(r.t.Context(), scalableTopic, func(pulsar.LayoutUpdate) {})
		},
		pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS: func(r *rig, _ string) error {
			return r.WatchTopics(r.t.Context(), "public/default", func(pulsar.TopicsUpdate) {})
		},
		pulsarpb.BaseCommand_CONNECT: func(r *rig, _ string) error { _, err := r.Connect(r.t.Context()); return err },
	}
	for typ, do := range ask {
		t.Run(typ.String(), func(t *testing.T) {
			tr := &trap{typ: typ, action: refused}
			inBubble(t, pulsartest.Options{Hook: tr.hook}, func(t *testing.T, r *rig) {
				if err := do(r, r.create(1)[0]); !errors.Is(err, pulsar.ErrNotReady) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// A hook may change the cluster: here, it seals the segment on the way to a receipt.
func TestHookActsOnTheCluster(t *testing.T) {
	var seal func()
	hook := func(c pulsartest.Command) pulsartest.Action {
		if c.Type == pulsarpb.BaseCommand_SEND_RECEIPT && c.Receipt.SequenceID == 1 {
			seal()
		}
		return pulsartest.Pass()
	}
	inBubble(t, pulsartest.Options{Hook: hook}, func(t *testing.T, r *rig) {
		seal = func() { r.must(r.Split(scalableTopic, 0)) }
		p := r.produce(r.create(1)[0], "p")
		p.send("a", "b")
		r.want(&p.notes, "receipt 0 at 0", "receipt 1 at 1", "broker closed")
	})
}
