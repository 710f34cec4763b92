package ladder

import (
	"slices"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// claim is what geobridge claims about doubling under a fault. The source of all
// is ARCHITECTURE.md, "Recovery without a scan": after a crash, a lost connection
// or a hand-over that could not drain, what was in flight above the last record
// is sent again.
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
	cuts := []fault{cutBefore, cutAfter}
	return []claimRow{
		{west, []string{"crash", "unload", "pause", "late adds", "kill -9"}, nil, mayDouble,
			"sends are stored whose receipts nobody gets"},
		{west, []string{"restart", "join", "hand-over"}, nil, drained, "a stop and a hand-over await the receipts"},
		{east, []string{"crash", "unload", "pause"}, nil, drained, "the source's consumer is lost; what was begun is brought to its end, and recorded"},
		{"", []string{"idle topics deleted"}, nil, drained, "with a stop before it"},

		{west, []string{"PRODUCER", "PRODUCER_SUCCESS sent", "SEND", "SEND_RECEIPT sent", "SEND_ERROR sent", "CLOSE_PRODUCER", "CLOSE_PRODUCER sent",
			"CONNECT", "CONNECTED sent", "PING", "PONG", "PING sent", "PONG sent", "SUCCESS sent", "ERROR sent"}, cuts, mayDouble,
			"a connection is lost that carries sends"},
		{west, []string{"SEND", "SEND_ERROR sent"}, []fault{refuse, drop, reorder}, mayDouble,
			"sends before the refused or lost one may be stored without a receipt when the producer is closed"},
		{west, []string{"SEND_RECEIPT sent"}, []fault{drop}, mayDouble, "the send is stored, and nobody knows"},
		{west, nil, []fault{delay}, mayDouble, "a delay beyond stall_timeout or the keep-alive time is a loss"}, // shorter ones: see claimOf

		{east, []string{"MESSAGE sent", "FLOW", "SUBSCRIBE", "ACK", "ACK_RESPONSE sent", "CONSUMER_STATS", "CONSUMER_STATS_RESPONSE sent",
			"ACTIVE_CONSUMER_CHANGE sent", "CLOSE_CONSUMER", "CLOSE_CONSUMER sent", "REACHED_END_OF_TOPIC sent", "SUCCESS sent", "ERROR sent",
			"CONNECT", "CONNECTED sent", "PING", "PONG", "PING sent", "PONG sent"}, nil, drained,
			"the source's consumer is lost, or opened anew; what was begun is brought to its end"},
	}
}

// short is a delay that runs into no time-out.
const short = 2 * time.Second

func claimOf(p plan) claim {
	base := never
	if p.joins {
		base = drained // a hand-over and a stop in every run of these
	}
	if p.rung.fault == delay && p.held <= short && p.rung.typ != pulsarpb.BaseCommand_SEND_ERROR { // that is provoked
		return base
	}
	for _, row := range claims() {
		if (row.side == "" || row.side == p.rung.side) && (row.points == nil || slices.Contains(row.points, p.rung.point)) &&
			(row.faults == nil || slices.Contains(row.faults, p.rung.fault)) {
			return max(base, row.claim)
		}
	}
	return base
}
