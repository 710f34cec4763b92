package ladder

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/geobridge/geobridge/internal/keyorder"
)

// summary adds up what runs came to.
type summary struct {
	mu                             sync.Mutex
	runs, messages, lost, disorder int
	doubled, doubledRuns, beyond   int
	struck, flying, undrained      int
	avoided                        float64
	avoidedRuns                    int
	pairs                          map[string]pair
	failed                         []uint64
}

// pair is a command and a fault, whatever the codes of refusals.
type pair struct{ tried, struck, flying int }

func newSummary() *summary { return &summary{pairs: map[string]pair{}} }

func pairOf(r rung) string {
	r.code = 0
	return strings.TrimSuffix(r.String(), " UnknownError")
}

func (s *summary) add(out outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages += out.report.Published
	s.lost += out.report.Found[keyorder.Lost]
	s.disorder += out.report.Found[keyorder.OutOfOrder]
	if n := out.report.Found[keyorder.Duplicate]; n > 0 {
		s.doubled += n
		s.doubledRuns++
		if !out.claim.allows(out) {
			s.beyond += n
		}
	}
	p := s.pairs[pairOf(out.rung)]
	p.tried++
	if out.struck {
		s.struck++
		p.struck++
	}
	if out.flying {
		s.flying++
		p.flying++
	}
	if out.avoided > 0 {
		s.avoided += out.avoided
		s.avoidedRuns++
	}
	if out.undrained {
		s.undrained++
	}
	s.pairs[pairOf(out.rung)] = p
}

func (s *summary) ended(failed bool, seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	if failed {
		s.failed = append(s.failed, seed)
	}
}

func (s *summary) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	hit := 0
	var idle, never []string
	for name, p := range s.pairs {
		switch {
		case p.flying > 0:
			hit++
		case p.struck > 0:
			idle = append(idle, name)
		default:
			never = append(never, name)
		}
	}
	slices.Sort(idle)
	slices.Sort(never)
	slices.Sort(s.failed)
	out := []string{
		fmt.Sprintf("runs %d, failed %d, messages %d, lost %d, out of order %d", s.runs, len(s.failed), s.messages, s.lost, s.disorder),
		fmt.Sprintf("doubled %d in %d runs, of which not allowed %d; recoveries found %.0f stored in %d runs; runs with a session that did not drain %d",
			s.doubled, s.doubledRuns, s.beyond, s.avoided, s.avoidedRuns, s.undrained),
		fmt.Sprintf("the fault struck in %d runs, with sends in flight in %d", s.struck, s.flying),
		fmt.Sprintf("(command, fault) pairs: %d tried, %d hit with sends in flight, %d only without, %d never", len(s.pairs), hit, len(idle), len(never)),
	}
	for _, name := range idle {
		out = append(out, "  only without sends in flight: "+name+whyNot(name))
	}
	for _, name := range never {
		out = append(out, "  never: "+name+whyNot(name))
	}
	if len(s.failed) > 0 {
		out = append(out, fmt.Sprintf("failed seeds: %v", s.failed))
	}
	return out
}

// whyNot says why the point of a pair is seldom passed while sends are in flight.
func whyNot(pair string) string {
	for _, row := range []struct{ point, why string }{
		{"TOPICS_CLOSE", "passed when an instance ends, after it has drained"},
		{"TOPIC_CLOSE", "passed when an instance ends, after it has drained, and each 5 minutes"},
		{"west CLOSE_CONSUMER", "passed when the guard lets a pruned segment go, and when an instance ends"},
		{"CLOSE_CONSUMER", "passed when a session has drained"},
		{"east SEND", "passed while something is parked"},
		{"east PRODUCER", "passed when something is parked"},
		{"east CLOSE_PRODUCER", "passed when something has been parked"},
		{"REACHED_END", "passed at the end of a segment that is drained"},
		{"PUT topic", "passed once when an instance starts"},
		{"POST skip-all", "passed before anything is copied"},
	} {
		if strings.Contains(pair, row.point) {
			return ": " + row.why
		}
	}
	return ": by chance of these seeds"
}
