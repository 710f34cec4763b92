package pulsar

import (
	"errors"
	"fmt"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Errors to test for with errors.Is. Those that stand for an answer of the
// broker are matched through *ServerError, which carries its code and text.
var (
	// ErrTopicNotFound: the topic, or the scalable topic of a watch, is not there.
	ErrTopicNotFound = errors.New("topic not found")
	// ErrSubscriptionNotFound: the subscription is not there and may not be created.
	ErrSubscriptionNotFound = errors.New("subscription not found")
	// ErrTopicTerminated: the topic was sealed, it takes no entry any more.
	ErrTopicTerminated = errors.New("topic terminated")
	// ErrProducerBusy: another producer holds the name.
	ErrProducerBusy = errors.New("producer name is held by another producer")
	// ErrProducerFenced: another producer took exclusive access.
	ErrProducerFenced = errors.New("producer fenced")
	// ErrConsumerBusy: the subscription is held by others, or in another type.
	ErrConsumerBusy = errors.New("subscription is held by another consumer")
	// ErrConsumerAssign: the declared hash ranges do not fit those of the peers.
	ErrConsumerAssign = errors.New("consumer does not fit the subscription's hash ranges")
	// ErrNotReady: the broker does not serve the topic now; look it up again.
	ErrNotReady = errors.New("broker does not serve the topic now")
	// ErrAuthentication: the credential was refused.
	ErrAuthentication = errors.New("authentication failed")
	// ErrAuthorization: the role may not do this.
	ErrAuthorization = errors.New("not authorized")
	// ErrQuotaExceeded: a backlog quota blocks the topic's producers.
	ErrQuotaExceeded = errors.New("backlog quota exceeded")
	// ErrIncompatibleSchema: the topic's schema policy refuses the schema.
	ErrIncompatibleSchema = errors.New("incompatible schema")
	// ErrChecksum: the broker computed another checksum than was sent.
	ErrChecksum = errors.New("checksum failed on the broker")
	// ErrUnsupported: the broker lacks what the call needs.
	ErrUnsupported = errors.New("not supported by the broker")

	// ErrConnectionLost: the connection died, see *ConnectionError. What was
	// queued or unanswered may or may not have happened.
	ErrConnectionLost = errors.New("connection lost")
	// ErrClosedByBroker: the broker closed the handle and kept the connection:
	// a seal, an unload, a deletion or a seek all look like this.
	ErrClosedByBroker = errors.New("closed by the broker")
	// ErrClosed: the handle, or the whole client, was closed on this side.
	ErrClosed = errors.New("closed")
	// ErrTimeout: the broker did not answer in time; it may still act.
	ErrTimeout = errors.New("operation timed out")
	// ErrNotSent: certainly no byte of it was written.
	ErrNotSent = errors.New("not sent")
	// ErrTooLarge: the entry exceeds what the broker can store.
	ErrTooLarge = errors.New("entry too large")
	// ErrProtocol: the broker sent what the protocol does not allow.
	ErrProtocol = errors.New("protocol violation")
)

// ServerError is the broker's own refusal.
type ServerError struct {
	Code    pulsarpb.ServerError
	Message string
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("broker: %s: %s", e.Code, e.Message)
}

// Is matches the error that the code stands for.
func (e *ServerError) Is(target error) bool {
	v, ok := verdictOf(e.Code)
	return ok && v.err != nil && target == v.err
}

// ConnectionError tells why a connection could not be made, or died.
type ConnectionError struct {
	Broker string // host:port
	Reason Reason
	Err    error
}

func (e *ConnectionError) Error() string {
	return fmt.Sprintf("connection to %s (%s): %v", e.Broker, e.Reason, e.Err)
}

// Is matches ErrConnectionLost.
func (e *ConnectionError) Is(target error) bool { return target == ErrConnectionLost }

func (e *ConnectionError) Unwrap() error { return e.Err }

// Reason says in one word what ended a connection: fit for a metric's label.
type Reason string

// The reasons a connection was not made, or ended.
const (
	ReasonDial      Reason = "dial"      // could not be reached
	ReasonTLS       Reason = "tls"       // handshake failed
	ReasonAuth      Reason = "auth"      // credential missing, refused or run out
	ReasonHandshake Reason = "handshake" // no CONNECTED
	ReasonEOF       Reason = "eof"       // closed or reset by the other side
	ReasonSilence   Reason = "silence"   // no byte for the keep-alive time
	ReasonWrite     Reason = "write"     // a write failed
	ReasonProtocol  Reason = "protocol"  // unreadable frames
	ReasonClosed    Reason = "closed"    // by this side
)

// Class says what an error is about, and so what died of it.
type Class int

// The classes of errors. One that is not in the table is ClassUnknown.
const (
	ClassUnknown    Class = iota
	ClassConnection       // the connection and all its handles
	ClassHandle           // this handle or request only
	ClassTerminated       // the topic: sealed for good
	ClassNotFound         // the topic or subscription is not there
	ClassBusy             // the name or subscription is someone else's
	ClassNotReady         // the broker does not serve the topic now
	ClassAuth             // credential or right
	ClassQuota            // backlog quota
	ClassFatal            // this request can never succeed
)

func (c Class) String() string {
	names := [...]string{"unknown", "connection", "handle", "terminated", "not found", "busy", "not ready", "auth", "quota", "fatal"}
	if c < 0 || int(c) >= len(names) {
		return names[0]
	}
	return names[c]
}

// Retry says what may help.
type Retry int

// What may help after an error.
const (
	RetryReopen Retry = iota // look up and open again, with backoff
	RetryWait                // the same, and it may take until someone else acts
	RetryNever               // the same request can never succeed
)

func (r Retry) String() string {
	names := [...]string{"reopen", "wait", "never"}
	if r < 0 || int(r) >= len(names) {
		return names[0]
	}
	return names[r]
}

// verdict is a row of the table of server codes.
type verdict struct {
	code  pulsarpb.ServerError
	class Class
	retry Retry
	err   error // what errors.Is matches; nil where nobody needs to tell it apart
}

// verdicts is the one place that judges the broker's codes.
func verdicts() []verdict {
	return []verdict{
		{pulsarpb.ServerError_UnknownError, ClassHandle, RetryReopen, nil},
		{pulsarpb.ServerError_MetadataError, ClassNotReady, RetryReopen, ErrNotReady},
		{pulsarpb.ServerError_PersistenceError, ClassHandle, RetryReopen, nil},
		{pulsarpb.ServerError_AuthenticationError, ClassAuth, RetryWait, ErrAuthentication},
		{pulsarpb.ServerError_AuthorizationError, ClassAuth, RetryWait, ErrAuthorization},
		{pulsarpb.ServerError_ConsumerBusy, ClassBusy, RetryWait, ErrConsumerBusy},
		{pulsarpb.ServerError_ServiceNotReady, ClassNotReady, RetryReopen, ErrNotReady},
		{pulsarpb.ServerError_ProducerBlockedQuotaExceededError, ClassQuota, RetryWait, ErrQuotaExceeded},
		{pulsarpb.ServerError_ProducerBlockedQuotaExceededException, ClassQuota, RetryWait, ErrQuotaExceeded},
		{pulsarpb.ServerError_ChecksumError, ClassHandle, RetryReopen, ErrChecksum},
		{pulsarpb.ServerError_UnsupportedVersionError, ClassFatal, RetryNever, ErrUnsupported},
		{pulsarpb.ServerError_TopicNotFound, ClassNotFound, RetryWait, ErrTopicNotFound},
		{pulsarpb.ServerError_SubscriptionNotFound, ClassNotFound, RetryWait, ErrSubscriptionNotFound},
		{pulsarpb.ServerError_ConsumerNotFound, ClassHandle, RetryReopen, nil},
		{pulsarpb.ServerError_TooManyRequests, ClassNotReady, RetryReopen, ErrNotReady},
		{pulsarpb.ServerError_TopicTerminatedError, ClassTerminated, RetryNever, ErrTopicTerminated},
		{pulsarpb.ServerError_ProducerBusy, ClassBusy, RetryWait, ErrProducerBusy},
		{pulsarpb.ServerError_InvalidTopicName, ClassFatal, RetryNever, ErrInvalidName},
		{pulsarpb.ServerError_IncompatibleSchema, ClassFatal, RetryWait, ErrIncompatibleSchema},
		{pulsarpb.ServerError_ConsumerAssignError, ClassBusy, RetryReopen, ErrConsumerAssign},
		{pulsarpb.ServerError_TransactionCoordinatorNotFound, ClassFatal, RetryNever, nil},
		{pulsarpb.ServerError_InvalidTxnStatus, ClassFatal, RetryNever, nil},
		{pulsarpb.ServerError_NotAllowedError, ClassFatal, RetryNever, nil},
		{pulsarpb.ServerError_TransactionConflict, ClassFatal, RetryNever, nil},
		{pulsarpb.ServerError_TransactionNotFound, ClassFatal, RetryNever, nil},
		{pulsarpb.ServerError_ProducerFenced, ClassHandle, RetryWait, ErrProducerFenced},
	}
}

func verdictOf(code pulsarpb.ServerError) (verdict, bool) {
	all := verdicts()
	i := slices.IndexFunc(all, func(v verdict) bool { return v.code == code })
	if i < 0 {
		return verdict{}, false
	}
	return all[i], true
}

// ClassOf tells what err is about. The broker's own code counts most; a dead
// connection comes next, unless it died of a refused credential.
func ClassOf(err error) Class {
	c, _ := judge(err)
	return c
}

// RetryOf tells what may help against err.
func RetryOf(err error) Retry {
	_, r := judge(err)
	return r
}

func judge(err error) (Class, Retry) {
	var server *ServerError
	if errors.As(err, &server) {
		if v, ok := verdictOf(server.Code); ok {
			return v.class, v.retry
		}
		return ClassHandle, RetryReopen // a code newer than this table
	}
	var conn *ConnectionError
	switch {
	case errors.As(err, &conn) && conn.Reason == ReasonAuth:
		return ClassAuth, RetryWait
	case errors.Is(err, ErrInvalidName), errors.Is(err, ErrTooLarge), errors.Is(err, ErrUnsupported):
		return ClassFatal, RetryNever
	case errors.Is(err, ErrSchemaNotFound):
		return ClassNotFound, RetryWait
	case errors.Is(err, ErrConnectionLost):
		return ClassConnection, RetryReopen
	case errors.Is(err, ErrClosedByBroker), errors.Is(err, ErrTimeout), errors.Is(err, ErrClosed), errors.Is(err, ErrProtocol):
		return ClassHandle, RetryReopen
	}
	return ClassUnknown, RetryReopen
}
