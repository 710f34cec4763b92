package pulsar

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMessageIDText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := MessageID{rapid.Int64Min(-1).Draw(t, "ledger"), rapid.Int64Min(-1).Draw(t, "entry")}
		got, err := ParseMessageID(id.String())
		if err != nil || got != id {
			t.Fatalf("%s became %v, %v", id, got, err)
		}
		wire := wireID(id)
		if got := position(wire.GetLedgerId(), wire.GetEntryId()); got != id {
			t.Fatalf("%s became %s on the wire", id, got)
		}
	})
	for _, s := range []string{"", "1", "1:", ":1", "1:2:3", "-2:0", "01:2", "+1:2", "1: 2", "x:y", "9223372036854775808:0"} {
		if id, err := ParseMessageID(s); err == nil {
			t.Errorf("%q is no id, but became %v", s, id)
		}
	}
}

func TestMessageIDOrder(t *testing.T) {
	ids := []MessageID{Earliest(), {-1, 5}, {0, -1}, {0, 0}, {0, 7}, {1, 0}, {12, 3}, Latest()}
	if !slices.IsSortedFunc(ids, MessageID.Compare) {
		t.Error("not in order")
	}
	if !Earliest().Missing() || !(MessageID{3, -1}).Missing() || (MessageID{0, 0}).Missing() {
		t.Error("Missing")
	}
}

func TestServiceURL(t *testing.T) {
	tests := []struct {
		in    string
		tls   bool
		hosts []string // nil: refused
	}{
		{"pulsar://a", false, []string{"a:6650"}},
		{"pulsar+ssl://a", true, []string{"a:6651"}},
		{"pulsar://a:1, b,[::1],[::2]:5,::3/", false, []string{"a:1", "b:6650", "[::1]:6650", "[::2]:5", "[::3]:6650"}},
		{"a:6650", false, nil},
		{"http://a", false, nil},
		{"pulsar://", false, nil},
		{"pulsar://a,,b", false, nil},
		{"pulsar://a/b", false, nil},
		{"pulsar://:6650", false, nil},
		{"pulsar://a:", false, nil},
		{"pulsar://a:b:c", false, nil},
		{"pulsar://user@a", false, nil},
	}
	for _, tt := range tests {
		got, err := parseServiceURL(tt.in)
		if (err == nil) != (tt.hosts != nil) || !slices.Equal(got.hosts, tt.hosts) && tt.hosts != nil || err == nil && got.tls != tt.tls {
			t.Errorf("%q: %+v, %v", tt.in, got, err)
		}
		if _, err := New(Options{ServiceURL: tt.in}); (err == nil) != (tt.hosts != nil) {
			t.Errorf("New with %q: %v", tt.in, err)
		}
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		topic           string
		valid, openable bool
	}{
		{"segment://t/n/x/0000-ffff-0", true, true},
		{"persistent://t/n/x", true, true},
		{"persistent://t/n/__geobridge.g.checkpoint", true, true},
		{"persistent://t/n/ü x", true, true},
		{"topic://t/n/x", true, false},
		{"topic://bad", false, false},
		{"topic://t/n/", false, false},
		{"topic://t/n/x/y", false, false},
		{"segment://t/n/x", false, false},
		{"segment://t/n/x/", false, false},
		{"segment://t/n/x/a b", false, false},
		{"persistent://t/n/x/y", false, false},
		{"persistent://t t/n/x", false, false},
		{"persistent:///n/x", false, false},
		{"persistent://t/n/a\nb", false, false},
		{"persistent://t/n/\xff", false, false},
		{"non-persistent://t/n/x", false, false},
		{"x", false, false},
		{"", false, false},
	}
	for _, tt := range tests {
		if err := checkTopic(tt.topic); (err == nil) != tt.valid || err != nil && !errors.Is(err, ErrInvalidName) {
			t.Errorf("%q: %v, want valid %t", tt.topic, err, tt.valid)
		}
		if err := checkOpenable(tt.topic); (err == nil) != tt.openable || err != nil && !errors.Is(err, ErrInvalidName) {
			t.Errorf("%q: %v, want openable %t", tt.topic, err, tt.openable)
		}
	}
	for _, ns := range []string{"", "a", "a/", "/b", "a/b/c", "a b/c"} {
		if err := checkNamespace(ns); !errors.Is(err, ErrInvalidName) {
			t.Errorf("namespace %q: %v", ns, err)
		}
	}
}

// Every code of the protocol is in the table, once.
func TestVerdictsAreComplete(t *testing.T) {
	values := pulsarpb.ServerError(0).Descriptor().Values()
	seen := map[pulsarpb.ServerError]int{}
	for _, v := range verdicts() {
		seen[v.code]++
	}
	for i := range values.Len() {
		if code := pulsarpb.ServerError(values.Get(i).Number()); seen[code] != 1 {
			t.Errorf("%s is in the table %d times", code, seen[code])
		}
	}
}

func TestErrorClasses(t *testing.T) {
	server := func(code pulsarpb.ServerError) error {
		return fmt.Errorf("doing something: %w", &ServerError{Code: code, Message: "m"})
	}
	tests := []struct {
		err   error
		class Class
		retry Retry
		is    error
	}{
		{server(pulsarpb.ServerError_ProducerBusy), ClassBusy, RetryWait, ErrProducerBusy},
		{server(pulsarpb.ServerError_TopicTerminatedError), ClassTerminated, RetryNever, ErrTopicTerminated},
		{server(pulsarpb.ServerError_ChecksumError), ClassHandle, RetryReopen, ErrChecksum},
		{server(pulsarpb.ServerError_MetadataError), ClassNotReady, RetryReopen, ErrNotReady},
		{server(pulsarpb.ServerError(999)), ClassHandle, RetryReopen, nil},
		{&ConnectionError{Reason: ReasonEOF, Err: io.EOF}, ClassConnection, RetryReopen, ErrConnectionLost},
		{&ConnectionError{Reason: ReasonAuth, Err: io.EOF}, ClassAuth, RetryWait, io.EOF},
		{notSent(ErrClosedByBroker), ClassHandle, RetryReopen, ErrNotSent},
		{notSent(ErrTooLarge), ClassFatal, RetryNever, ErrTooLarge},
		{badName("topic", "x", "y"), ClassFatal, RetryNever, ErrInvalidName},
		{ErrTimeout, ClassHandle, RetryReopen, ErrTimeout},
		{io.EOF, ClassUnknown, RetryReopen, io.EOF},
		{nil, ClassUnknown, RetryReopen, nil},
	}
	for _, tt := range tests {
		if ClassOf(tt.err) != tt.class || RetryOf(tt.err) != tt.retry || tt.is != nil && !errors.Is(tt.err, tt.is) {
			t.Errorf("%v: %s, %s", tt.err, ClassOf(tt.err), RetryOf(tt.err))
		}
	}
	if errors.Is(server(pulsarpb.ServerError_UnknownError), ErrTopicNotFound) {
		t.Error("an unknown error is no missing topic")
	}
}
