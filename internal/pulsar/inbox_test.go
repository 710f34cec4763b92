package pulsar

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
)

func unread(entry int64) Message {
	return Message{ID: MessageID{1, entry}, Entry: frame.NewEntry([]byte("m"), nil)}
}

// What came is taken before the reason why no more comes.
func TestInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewInbox(4)
		if _, ok, err := b.Next(t.Context(), time.Second); ok || err != nil {
			t.Errorf("of nothing: %v, %v", ok, err)
		}
		time.AfterFunc(time.Hour, func() { b.Message(unread(1)); b.Message(unread(2)); b.Closed(ErrClosedByBroker) })
		for n := range int64(2) {
			if m, ok, err := b.Next(t.Context(), 0); !ok || err != nil || m.ID.Entry != n+1 {
				t.Errorf("entry %v, %v, %v", m.ID, ok, err)
			}
		}
		if _, ok, err := b.Next(t.Context(), 0); ok || !errors.Is(err, ErrClosedByBroker) {
			t.Errorf("at the end: %v, %v", ok, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, ok, err := b.Next(ctx, time.Minute); ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when ctx ends: %v, %v", ok, err)
		}
	})
}

// A reader that is given more than it holds starts over, and blocks nobody.
func TestInboxOverflow(t *testing.T) {
	b := NewInbox(1)
	given := []Message{unread(1), unread(2), unread(3)}
	for _, m := range given {
		b.Message(m)
	}
	b.Closed(context.Canceled)
	if n := b.Len(); n != 1 {
		t.Errorf("%d entries", n)
	}
	b.Empty()
	if _, _, err := b.Next(t.Context(), 0); b.Len() != 0 || err == nil || !strings.Contains(err.Error(), "more than 1 unread entries") {
		t.Errorf("%d entries, error %v", b.Len(), err)
	}
	for _, m := range given {
		if !released(m.Entry) {
			t.Errorf("entry %v is not released", m.ID)
		}
	}
}

// What comes behind an entry that found no room is not taken: it would stand where that
// one is missing.
func TestInboxHasNoHole(t *testing.T) {
	b := NewInbox(2)
	for n := range int64(3) {
		b.Message(unread(n + 1))
	}
	for n := range int64(2) {
		m, ok, err := b.Next(t.Context(), time.Second)
		if !ok || err != nil || m.ID.Entry != n+1 {
			t.Fatalf("entry %v, %v, %v", m.ID, ok, err)
		}
		m.Entry.Release()
		late := unread(n + 4)
		b.Message(late)
		if !released(late.Entry) {
			t.Errorf("entry %v is taken behind the hole", late.ID)
		}
	}
	if m, ok, err := b.Next(t.Context(), time.Second); ok || err == nil || !strings.Contains(err.Error(), "more than 2 unread entries") {
		t.Errorf("entry %v, %v, %v", m.ID, ok, err)
	}
}

// released reports whether an entry has no reference left; another is taken if it has.
func released(e *frame.Entry) (gone bool) {
	defer func() { gone = recover() != nil }()
	e.Retain()
	return false
}
