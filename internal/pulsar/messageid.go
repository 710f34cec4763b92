package pulsar

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MessageID is the position of an entry: its ledger and its number in there.
// A missing position, which the wire spells as the largest unsigned number, is
// -1.
type MessageID struct{ Ledger, Entry int64 }

// Earliest is the position before the first entry of any topic.
func Earliest() MessageID { return MessageID{-1, -1} }

// Lowest is at or before the first entry of any topic. A reader that starts there is given what one at
// Earliest is, also by a sealed segment without an entry, where a broker refuses Earliest (5.0.1, observed).
func Lowest() MessageID { return MessageID{0, 0} }

// Latest is the position after the last entry of any topic.
func Latest() MessageID { return MessageID{math.MaxInt64, math.MaxInt64} }

// Missing reports whether the broker named no position: a receipt like that
// says that nothing was stored, since the broker judged the send a duplicate.
func (m MessageID) Missing() bool { return m.Ledger < 0 || m.Entry < 0 }

// Compare orders positions of one topic as the broker stores them.
func (m MessageID) Compare(o MessageID) int {
	return cmp.Or(cmp.Compare(m.Ledger, o.Ledger), cmp.Compare(m.Entry, o.Entry))
}

// String writes the position as ledger:entry.
func (m MessageID) String() string {
	return strconv.FormatInt(m.Ledger, 10) + ":" + strconv.FormatInt(m.Entry, 10)
}

// ParseMessageID reads what String wrote.
func ParseMessageID(s string) (MessageID, error) {
	ledger, entry, ok := strings.Cut(s, ":")
	if !ok {
		return MessageID{}, fmt.Errorf("message id %q: want ledger:entry", s)
	}
	l, err := parsePart(ledger)
	if err != nil {
		return MessageID{}, fmt.Errorf("message id %q: ledger: %w", s, err)
	}
	e, err := parsePart(entry)
	if err != nil {
		return MessageID{}, fmt.Errorf("message id %q: entry: %w", s, err)
	}
	return MessageID{l, e}, nil
}

// parsePart takes exactly what FormatInt writes, so that one position has one
// spelling.
func parsePart(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if n < -1 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%q is out of range", s)
	}
	return n, nil
}

// MarshalText gives the form of String.
func (m MessageID) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the form of String.
func (m *MessageID) UnmarshalText(text []byte) error {
	id, err := ParseMessageID(string(text))
	if err == nil {
		*m = id
	}
	return err
}
