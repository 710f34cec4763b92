package pulsartest

import (
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Command is what a hook sees. Nothing in it may be changed.
type Command struct {
	Broker *Broker
	Conn   int  // numbers the cluster's connections, from 1
	Sent   bool // by the broker; else it was received
	Type   pulsarpb.BaseCommand_Type
	// Topic is what a received command is about, where it says or its handle is
	// known.
	Topic string
	// Base is nil for these three, of which one is set then.
	Base    *pulsarpb.BaseCommand
	Send    *frame.SendCommand
	Entry   *frame.Entry // of Send
	Receipt *frame.ReceiptCommand
	Message *frame.MessageCommand
}

// Action is what becomes of a command.
type Action struct {
	kind    actionKind
	delay   time.Duration
	behind  int
	refusal *refusal
}

type actionKind int

const (
	actPass actionKind = iota
	actDrop
	actDelay
	actReorder
	actFail
	actCutBefore
	actCutAfter
)

// Pass lets the command through.
func Pass() Action { return Action{} }

// Drop loses it.
func Drop() Action { return Action{kind: actDrop} }

// Delay holds it, and all that follows it in its direction of the connection.
func Delay(d time.Duration) Action { return Action{kind: actDelay, delay: d} }

// Reorder holds it until n later ones have passed; it is lost if those never come.
func Reorder(n int) Action { return Action{kind: actReorder, behind: n} }

// Fail refuses a received command, with the answer that belongs to it; one that
// has no answer is dropped. A sent command passes.
func Fail(code pulsarpb.ServerError, message string) Action {
	return Action{kind: actFail, refusal: refuse(code, message)}
}

// CutBefore ends the connection instead of handling, or writing, the command.
func CutBefore() Action { return Action{kind: actCutBefore} }

// CutAfter ends the connection when a received command has been handled, before
// its answer, or when a sent one has been written.
func CutAfter() Action { return Action{kind: actCutAfter} }

// held is a command that waits for later ones to pass it.
type held[T any] struct {
	what T
	left int
}

// passed counts one command that went by, and takes out what is due.
func passed[T any](waiting []held[T]) (rest []held[T], due []T) {
	for _, h := range waiting {
		if h.left--; h.left <= 0 {
			due = append(due, h.what)
		} else {
			rest = append(rest, h)
		}
	}
	return rest, due
}
