package pulsartest

import (
	"cmp"
	"fmt"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Position is where an entry is stored: the number of its ledger, and its own in
// there.
type Position struct{ Ledger, Entry int64 }

func (p Position) compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Ledger, o.Ledger), cmp.Compare(p.Entry, o.Entry))
}

// String writes the position as ledger:entry.
func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Ledger, p.Entry) }

// noPosition is what receipts of duplicates carry, and where topics begin.
func noPosition() Position { return Position{-1, -1} }

// positionOf reads a position off the wire, which spells -1 as 2^64-1.
func positionOf(m *pulsarpb.MessageIdData) Position {
	return Position{int64(m.GetLedgerId()), int64(m.GetEntryId())}
}
