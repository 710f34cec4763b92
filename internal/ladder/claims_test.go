package ladder

import "slices"

// claim is what geobridge claims about doubling under a fault: nothing is doubled,
// for what a lost holder or connection had stored is found by the scan (design
// 3.3). A weaker claim needs a row in the table, with its reason.
type claim int

const (
	// never: nothing is doubled.
	never claim = iota
	// drained: nothing is doubled unless a session of a lane ended undrained, and
	// geobridge said so ("lane opens again", clean=false).
	drained
	// mayDouble: what was in flight may be.
	mayDouble
)

func (c claim) String() string {
	return [...]string{"nothing is doubled", "nothing is doubled if all sessions drained", "what was in flight may be doubled"}[c]
}

func (c claim) allows(out outcome) bool {
	return c == mayDouble || c == drained && out.undrained
}

// claimRow says what the rungs that match may do. The first row that matches
// counts.
type claimRow struct {
	side   string   // "": both
	points []string // nil: all
	faults []fault  // nil: all
	claim  claim
	why    string
}

// claims is the table; what is in no row is never.
func claims() []claimRow {
	return nil
}

func claimOf(p plan) claim {
	for _, row := range claims() {
		if (row.side == "" || row.side == p.rung.side) && (row.points == nil || slices.Contains(row.points, p.rung.point)) &&
			(row.faults == nil || slices.Contains(row.faults, p.rung.fault)) {
			return row.claim
		}
	}
	return never
}
