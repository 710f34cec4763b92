package replicate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

// heard is what a claim's sink was told, in order.
type heard []string

func listen() (*claimEvents, *heard) {
	h := &heard{}
	return &claimEvents{barrier: make(chan Position, 1), failed: make(chan error, 1), sink: sink{
		receipt: func(seq uint64, pos Position) { *h = append(*h, fmt.Sprintf("receipt %d at %v", seq, pos)) },
		doubt:   func(err error) { *h = append(*h, fmt.Sprintf("doubt: %v", err)) },
	}}, h
}

var (
	errGone     = errors.New("gone")
	noReceipt   = Position{Ledger: -1, Entry: -1}
	barrierSeen = Position{Ledger: 4, Entry: 9}
)

// What is told before the barrier's receipt ends the claim, and reaches no sink.
func TestClaimBeforeBarrier(t *testing.T) {
	for _, row := range []struct {
		name string
		tell func(*claimEvents)
		want string
	}{
		{"refused", func(c *claimEvents) { c.SendError(3, errGone) }, "sequence id 3: gone"},
		{"closed by the broker", func(c *claimEvents) { c.BrokerClosed(errGone) }, "gone"},
		{"closed", func(c *claimEvents) { c.Closed(errGone) }, "gone"},
		{"closed without a reason", func(c *claimEvents) { c.Closed(nil) }, pulsar.ErrClosed.Error()},
		{"receipt without a position", func(c *claimEvents) { c.Receipt(3, noReceipt) }, "receipt of sequence id 3 without a position"},
		{"receipt without an entry", func(c *claimEvents) { c.Receipt(3, Position{Ledger: 1, Entry: -1}) }, "without a position"},
		{"receipt without a ledger", func(c *claimEvents) { c.Receipt(3, Position{Ledger: -1, Entry: 1}) }, "without a position"},
		{"the first reason counts", func(c *claimEvents) { c.SendError(3, errGone); c.Closed(errors.New("later")) }, "sequence id 3: gone"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, h := listen()
			row.tell(c)
			if len(*h) != 0 || len(c.barrier) != 0 || c.open {
				t.Errorf("heard %q, barrier %v", *h, c.open)
			}
			select {
			case err := <-c.failed:
				if !strings.Contains(err.Error(), row.want) {
					t.Errorf("error %v, want %q", err, row.want)
				}
			default:
				t.Error("the claim goes on")
			}
		})
	}
}

// After it, everything reaches the sink, and the barrier's receipt does not.
func TestClaimAfterBarrier(t *testing.T) {
	c, h := listen()
	c.Receipt(0, barrierSeen)
	if got := <-c.barrier; got != barrierSeen || len(*h) != 0 {
		t.Fatalf("barrier %v, heard %q", got, *h)
	}
	c.Receipt(1, Position{Ledger: 4, Entry: 10})
	c.Receipt(2, noReceipt)
	c.SendError(3, errGone)
	c.BrokerClosed(errGone)
	c.Receipt(4, Position{Ledger: 4, Entry: 11}) // those that still come are taken
	c.Closed(nil)
	want := heard{
		"receipt 1 at 4:10", "doubt: receipt of sequence id 2 without a position", "doubt: sequence id 3: gone",
		"doubt: gone", "receipt 4 at 4:11", "doubt: " + pulsar.ErrClosed.Error(),
	}
	if strings.Join(*h, "\n") != strings.Join(want, "\n") {
		t.Errorf("heard\n%s\nwant\n%s", strings.Join(*h, "\n"), strings.Join(want, "\n"))
	}
	if len(c.failed) != 0 || len(c.barrier) != 0 {
		t.Error("the claim was told, too")
	}
}

func TestBarrierForm(t *testing.T) {
	md, err := barrier("geobridge-x", 17)
	if err != nil {
		t.Fatal(err)
	}
	info, err := frame.Scan(md)
	if err != nil {
		t.Fatal(err)
	}
	if string(info.ProducerName) != "geobridge-x" || info.SequenceID != 17 || !info.HasMarker || info.MarkerType != 1000 || info.Batch {
		t.Errorf("%+v", info)
	}
}

func TestErrorsOfTopics(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("claim: %w", err) }
	if !terminated(wrapped(pulsar.ErrTopicTerminated)) || terminated(wrapped(pulsar.ErrTopicNotFound)) || terminated(nil) {
		t.Error("terminated")
	}
	if !notFound(wrapped(pulsar.ErrTopicNotFound)) || notFound(wrapped(pulsar.ErrTopicTerminated)) || notFound(nil) {
		t.Error("notFound")
	}
}

func TestWriterEvents(t *testing.T) {
	for _, row := range []struct {
		name string
		tell func(*writerEvents)
		want string // "": a receipt
	}{
		{"receipt", func(w *writerEvents) { w.Receipt(1, barrierSeen) }, ""},
		{"receipt without a position", func(w *writerEvents) { w.Receipt(1, noReceipt) }, "receipt without a position"},
		{"refused", func(w *writerEvents) { w.SendError(1, errGone) }, "gone"},
		{"closed by the broker, then closed", func(w *writerEvents) { w.BrokerClosed(errGone); w.Closed(errors.New("later")) }, "gone"},
		{"closed", func(w *writerEvents) { w.Closed(errGone) }, "gone"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := &writerEvents{receipts: make(chan Position, 1), failed: make(chan error, 1)}
			row.tell(w)
			if row.want == "" {
				if len(w.receipts) != 1 || <-w.receipts != barrierSeen {
					t.Error("no receipt")
				}
				return
			}
			if len(w.receipts) != 0 || len(w.failed) != 1 {
				t.Fatalf("%d receipts, %d failures", len(w.receipts), len(w.failed))
			}
			if err := <-w.failed; !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want %q", err, row.want)
			}
		})
	}
}
