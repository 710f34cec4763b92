package demo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/geobridge/geobridge/internal/pulsartest"
)

// change is one change of a layout, in words.
type change struct {
	text   string
	pruned bool // drained segments went; no segment was cut
}

// changes tells what happened between two layouts of a topic, oldest first.
func changes(before, after pulsartest.Layout) []change {
	known := map[uint64]pulsartest.Segment{}
	for _, s := range before.Segments {
		known[s.ID] = s
	}
	born := map[uint64][]pulsartest.Segment{} // by epoch
	for _, s := range after.Segments {
		if _, old := known[s.ID]; !old {
			born[s.CreatedEpoch] = append(born[s.CreatedEpoch], s)
		}
	}
	var out []change
	for _, epoch := range slices.Sorted(maps.Keys(born)) {
		out = append(out, change{text: birth(known, born[epoch])})
		for _, s := range born[epoch] {
			known[s.ID] = s
		}
	}
	var gone []string
	for _, s := range before.Segments {
		if !slices.ContainsFunc(after.Segments, func(a pulsartest.Segment) bool { return a.ID == s.ID }) {
			gone = append(gone, strconv.FormatUint(s.ID, 10))
		}
	}
	if len(gone) > 0 {
		out = append(out, change{text: "prunes drained " + strings.Join(gone, ", "), pruned: true})
	}
	return out
}

// birth tells how segments of one epoch came to be.
func birth(known map[uint64]pulsartest.Segment, born []pulsartest.Segment) string {
	parents := born[0].Parents
	first := born[0]
	switch {
	case len(born) > 1 && len(parents) == 1:
		return fmt.Sprintf("splits %s into %s", named(known, parents[0]), listed(born))
	case len(parents) > 1:
		return fmt.Sprintf("merges %d and %d into %s", parents[0], parents[1], listed(born))
	case len(parents) == 1:
		return fmt.Sprintf("rebuckets %s to %s, as %d", named(known, parents[0]), plural(len(first.Splits)+1, "bucket"), first.ID)
	}
	return "makes " + listed(born)
}

func named(known map[uint64]pulsartest.Segment, id uint64) string {
	if s, ok := known[id]; ok {
		return segmentName(s)
	}
	return strconv.FormatUint(id, 10)
}

func segmentName(s pulsartest.Segment) string {
	return fmt.Sprintf("%d %04x-%04x", s.ID, s.Start, s.End)
}

func listed(segs []pulsartest.Segment) string {
	var names []string
	for _, s := range segs {
		names = append(names, segmentName(s))
	}
	return strings.Join(names, " and ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, y := strings.CutSuffix(what, "y"); y {
		what = stem + "ie"
	}
	return grouped(n) + " " + what + "s"
}
