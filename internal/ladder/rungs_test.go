package ladder

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// The sides of a copy.
const (
	east = "east" // the source
	west = "west" // the target
)

// fault is what goes wrong at a point.
type fault string

const (
	drop      fault = "drop"
	delay     fault = "delay"
	reorder   fault = "reorder"
	cutBefore fault = "cut-before"
	cutAfter  fault = "cut-after"
	refuse    fault = "error"
	// of REST calls
	refused fault = "refused"
	mute    fault = "mute"
	status5 fault = "500"
	status4 fault = "404"
	cut     fault = "cut"
	// of what is more than one command
	event fault = "event"
)

// rung is one fault at one kind of point.
type rung struct {
	side  string
	point string // a command, a REST call, or an event
	sent  bool   // by the broker
	typ   pulsarpb.BaseCommand_Type
	fault fault
	code  pulsarpb.ServerError // of refuse
}

func (r rung) String() string {
	switch r.fault {
	case event:
		return r.side + " " + r.point
	case refuse:
		return fmt.Sprintf("%s %s error %s", r.side, r.point, r.code)
	}
	return fmt.Sprintf("%s %s %s", r.side, r.point, r.fault)
}

type base = pulsarpb.BaseCommand_Type

// received are the commands that geobridge sends. It has no use yet for schemas,
// GET_LAST_MESSAGE_ID (facts P22), REDELIVER and STREAM commands.
func received(side string) []base {
	types := []base{
		pulsarpb.BaseCommand_CONNECT, pulsarpb.BaseCommand_LOOKUP, pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP,
		pulsarpb.BaseCommand_SCALABLE_TOPIC_CLOSE, pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS,
		pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_CLOSE, pulsarpb.BaseCommand_PRODUCER, pulsarpb.BaseCommand_SEND,
		pulsarpb.BaseCommand_SUBSCRIBE, pulsarpb.BaseCommand_FLOW, pulsarpb.BaseCommand_ACK, pulsarpb.BaseCommand_CONSUMER_STATS,
		pulsarpb.BaseCommand_CLOSE_PRODUCER, pulsarpb.BaseCommand_CLOSE_CONSUMER, pulsarpb.BaseCommand_PING, pulsarpb.BaseCommand_PONG,
	}
	if side == west {
		types = append(types, pulsarpb.BaseCommand_SEEK) // the guard's
	}
	return types
}

// sent are the commands that geobridge is sent.
func sent() []base {
	return []base{
		pulsarpb.BaseCommand_CONNECTED, pulsarpb.BaseCommand_SUCCESS, pulsarpb.BaseCommand_ERROR, pulsarpb.BaseCommand_LOOKUP_RESPONSE,
		pulsarpb.BaseCommand_PRODUCER_SUCCESS, pulsarpb.BaseCommand_SEND_RECEIPT, pulsarpb.BaseCommand_SEND_ERROR,
		pulsarpb.BaseCommand_MESSAGE, pulsarpb.BaseCommand_ACK_RESPONSE, pulsarpb.BaseCommand_ACTIVE_CONSUMER_CHANGE,
		pulsarpb.BaseCommand_CLOSE_PRODUCER, pulsarpb.BaseCommand_CLOSE_CONSUMER, pulsarpb.BaseCommand_SCALABLE_TOPIC_UPDATE,
		pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_UPDATE, pulsarpb.BaseCommand_REACHED_END_OF_TOPIC,
		pulsarpb.BaseCommand_CONSUMER_STATS_RESPONSE, pulsarpb.BaseCommand_PING, pulsarpb.BaseCommand_PONG,
	}
}

// ordered are the commands whose order on a connection is part of their meaning.
func ordered(t base) bool {
	return slices.Contains([]base{
		pulsarpb.BaseCommand_CONNECT, pulsarpb.BaseCommand_CONNECTED, pulsarpb.BaseCommand_SEND, pulsarpb.BaseCommand_SEND_RECEIPT,
		pulsarpb.BaseCommand_MESSAGE, pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS_UPDATE,
	}, t)
}

// refusals are the codes that a command is plausibly refused with; none: it has
// no answer.
func refusals(t base) []pulsarpb.ServerError {
	some := []pulsarpb.ServerError{pulsarpb.ServerError_ServiceNotReady, pulsarpb.ServerError_UnknownError}
	switch t {
	case pulsarpb.BaseCommand_LOOKUP:
		return append(some, pulsarpb.ServerError_MetadataError, pulsarpb.ServerError_TooManyRequests, pulsarpb.ServerError_AuthorizationError)
	case pulsarpb.BaseCommand_PRODUCER:
		return append(some, pulsarpb.ServerError_PersistenceError, pulsarpb.ServerError_MetadataError, pulsarpb.ServerError_ProducerBusy,
			pulsarpb.ServerError_TopicNotFound, pulsarpb.ServerError_TopicTerminatedError, pulsarpb.ServerError_NotAllowedError)
	case pulsarpb.BaseCommand_SUBSCRIBE:
		return append(some, pulsarpb.ServerError_PersistenceError, pulsarpb.ServerError_MetadataError, pulsarpb.ServerError_ConsumerBusy,
			pulsarpb.ServerError_TopicNotFound)
	case pulsarpb.BaseCommand_SEND:
		return append(some, pulsarpb.ServerError_PersistenceError, pulsarpb.ServerError_TopicTerminatedError, pulsarpb.ServerError_ChecksumError,
			pulsarpb.ServerError_ProducerBlockedQuotaExceededError)
	case pulsarpb.BaseCommand_ACK, pulsarpb.BaseCommand_SEEK, pulsarpb.BaseCommand_CONSUMER_STATS:
		return append(some, pulsarpb.ServerError_ConsumerNotFound, pulsarpb.ServerError_PersistenceError)
	case pulsarpb.BaseCommand_SCALABLE_TOPIC_LOOKUP, pulsarpb.BaseCommand_WATCH_SCALABLE_TOPICS:
		return append(some, pulsarpb.ServerError_MetadataError)
	case pulsarpb.BaseCommand_CONNECT:
		return append(some, pulsarpb.ServerError_AuthenticationError)
	case pulsarpb.BaseCommand_CLOSE_PRODUCER, pulsarpb.BaseCommand_CLOSE_CONSUMER:
		return some
	}
	return nil
}

// restCalls are the admin calls that the bridge makes on each side.
func restCalls(side string) []string {
	calls := []string{"GET configuration", "GET stats", "PUT subscription", "PUT topic", "PUT compaction", "GET namespace"}
	if side == west {
		calls = append(calls, "POST skip-all") // the guard's
	}
	return calls
}

// events are what is more than one command; events_test.go does them.
func events(side string) []string {
	both := []string{"crash", "unload", "pause", "idle topics deleted"}
	if side == west {
		return append(both, "late adds", "unclean seal", "kill -9", "kills in a row", "restart", "join", "hand-over", "storm", "nothing")
	}
	return append(both, "starved cursor", "storm")
}

func rungs() (all []rung) {
	for _, side := range []string{east, west} {
		for _, t := range received(side) {
			r := rung{side: side, point: t.String(), typ: t}
			all = append(all, r.with(drop), r.with(delay), r.with(cutBefore), r.with(cutAfter))
			if !ordered(t) {
				all = append(all, r.with(reorder))
			}
			for _, code := range refusals(t) {
				r.code = code
				all = append(all, r.with(refuse))
			}
		}
		for _, t := range sent() {
			r := rung{side: side, point: t.String() + " sent", typ: t, sent: true}
			all = append(all, r.with(drop), r.with(delay), r.with(cutBefore), r.with(cutAfter))
			if !ordered(t) {
				all = append(all, r.with(reorder))
			}
		}
		for _, call := range restCalls(side) {
			r := rung{side: side, point: call}
			all = append(all, r.with(refused), r.with(mute), r.with(status5), r.with(cut))
			if call != "GET configuration" {
				all = append(all, r.with(status4))
			}
		}
		for _, e := range events(side) {
			all = append(all, rung{side: side, point: e, fault: event})
		}
	}
	return all
}

func (r rung) with(f fault) rung {
	r.fault = f
	return r
}

// seedOf is a seed that stands for the rung at index i of n: what is left by n
// names the rung.
func seedOf(name string, i, n int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	seed := h.Sum64() >> 24      // few enough digits to type
	return seed - seed%uint64(n) + uint64(i)
}
