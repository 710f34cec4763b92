//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geobridge/geobridge/e2e/restadmin"
	"github.com/geobridge/geobridge/e2e/witness"
)

// identityProperty is what geobridge adds to each entry.
const identityProperty = "__geobridge_source"

// flat lists the entries of all segments.
func flat(bySegment map[int64][]witness.Entry) []witness.Entry {
	var out []witness.Entry
	for _, entries := range bySegment {
		out = append(out, entries...)
	}
	return out
}

// complain fails the scenario with the first of the problems and their count.
func (s *scene) complain(what string, problems []string) {
	s.Helper()
	if len(problems) > 0 {
		s.Errorf("%s: %d problems, such as\n  %s", what, len(problems), strings.Join(problems[:min(len(problems), 8)], "\n  "))
	}
}

// checkRouting fails the scenario for each stored entry that is not all in one
// bucket of its segment, or does not carry the tightest stamp.
func (s *scene) checkRouting(layout restadmin.Layout, bySegment map[int64][]witness.Entry) {
	s.Helper()
	var problems []string
	for id, entries := range bySegment {
		segment := layout.Segments[fmt.Sprint(id)]
		for _, entry := range entries {
			if problem := routingProblem(segment, entry); problem != "" {
				problems = append(problems, fmt.Sprintf("segment %s, entry %s: %s", segment.Descriptor(), entry.Position, problem))
			}
		}
	}
	s.complain("routing and stamps", problems)
}

func routingProblem(segment restadmin.Segment, entry witness.Entry) string {
	if len(entry.Messages) != entry.Count {
		return fmt.Sprintf("%d messages where the metadata says %d", len(entry.Messages), entry.Count)
	}
	low, high := 0xFFFF, 0
	for _, m := range entry.Messages {
		if m.Key != nil && (m.SegmentHash < segment.Range.Start || m.SegmentHash > segment.Range.End) {
			return fmt.Sprintf("key %q hashes to %04x, outside the segment", *m.Key, m.SegmentHash)
		}
		low, high = min(low, m.BucketHash), max(high, m.BucketHash)
	}
	if segment.Bucket(low) != segment.Bucket(high) {
		return fmt.Sprintf("bucket hashes %04x-%04x lie in buckets %d and %d", low, high, segment.Bucket(low), segment.Bucket(high))
	}
	if entry.HashMin != low || entry.HashMax != high {
		return fmt.Sprintf("stamped %04x-%04x where the keys say %04x-%04x", entry.HashMin, entry.HashMax, low, high)
	}
	return ""
}

// source is where an entry says that it comes from: cluster and position, and
// which messages of it these are.
type source struct{ cluster, position, indices string }

// sourceOf reads the identity property: 1;cluster;lane;ledger:entry;indices;total;path.
func sourceOf(entry witness.Entry) (source, error) {
	parts := strings.Split(entry.Properties[identityProperty], ";")
	if len(parts) != 7 || parts[0] != "1" {
		return source{}, fmt.Errorf("entry %s has the identity %q", entry.Position, entry.Properties[identityProperty])
	}
	return source{cluster: parts[1], position: parts[3], indices: parts[4]}, nil
}

// checkWhole fails the scenario unless each source entry is stored at the
// target exactly once, as it was: payload, stamp, and all that an application
// or a broker reads of its metadata.
func (s *scene) checkWhole(from, to []witness.Entry) {
	s.Helper()
	var problems []string
	copies := map[string]witness.Entry{}
	for _, entry := range to {
		src, err := sourceOf(entry)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		if src.cluster != s.east.name || src.indices != "*" {
			problems = append(problems, fmt.Sprintf("entry %s says that it is %+v", entry.Position, src))
		}
		if _, twice := copies[src.position]; twice {
			problems = append(problems, fmt.Sprintf("source entry %s is stored twice", src.position))
		}
		copies[src.position] = entry
	}
	if len(copies) != len(from) {
		problems = append(problems, fmt.Sprintf("%d entries at the source, %d of them at the target", len(from), len(copies)))
	}
	for _, original := range from {
		copied, found := copies[original.Position]
		if !found {
			problems = append(problems, fmt.Sprintf("source entry %s is not at the target", original.Position))
			continue
		}
		if got, want := comparable(copied, s.east.name), comparable(original, s.east.name); got != want {
			problems = append(problems, fmt.Sprintf("source entry %s changed:\n was %s\n is  %s", original.Position, want, got))
		}
	}
	s.complain("whole copies", problems)
}

// comparable renders what must be equal in an original and its whole copy; what
// is meant to change is undone first.
func comparable(entry witness.Entry, cluster string) string {
	properties := map[string]string{}
	for key, value := range entry.Properties {
		if key != identityProperty {
			properties[key] = value
		}
	}
	key := "none"
	if entry.Key != nil {
		key = *entry.Key
	}
	return fmt.Sprintf("payload %s (%d bytes), stamp %d-%d, producer %s, sequence %d, published %d, key %s, batch %v of %d, "+
		"compression %s (%d), encrypted %v, properties %v", entry.Digest, entry.Size, entry.HashMin, entry.HashMax,
		strings.TrimSuffix(entry.Producer, "@"+cluster), entry.Sequence, entry.Published, key, entry.Batch, entry.Count,
		entry.Compression, entry.Uncompressed, entry.Encrypted, properties)
}

// checkMarks fails the scenario for an entry at the target that does not say
// where it comes from, or carries what must not travel.
func (s *scene) checkMarks(entries []witness.Entry) {
	s.Helper()
	var problems []string
	for _, entry := range entries {
		if entry.ReplicatedFrom != s.east.name {
			problems = append(problems, fmt.Sprintf("entry %s has replicated_from %q", entry.Position, entry.ReplicatedFrom))
		}
		if !strings.HasSuffix(entry.Producer, "@"+s.east.name) {
			problems = append(problems, fmt.Sprintf("entry %s has producer_name %q", entry.Position, entry.Producer))
		}
		if entry.Txn {
			problems = append(problems, fmt.Sprintf("entry %s carries a transaction id", entry.Position))
		}
		if entry.Doubled != "" {
			problems = append(problems, fmt.Sprintf("entry %s has property %s twice", entry.Position, entry.Doubled))
		}
		if _, err := sourceOf(entry); err != nil {
			problems = append(problems, err.Error())
		}
	}
	s.complain("marks", problems)
}

// doubledHere returns those of the messages that arrived more than once which
// the target stores more often than the source did. Pulsar's own producer,
// without deduplication, may store its pending batches twice when their segment
// is sealed under load; a faithful copy has both, from two source entries. The
// target must keep what was read (KeepAll), else nothing is excused.
func (s *scene) doubledHere(at end, duplicates map[string]int) []string {
	s.Helper()
	excused, guilty := map[string]int{}, map[string]string{}
	from := map[string]witness.Entry{} // message and source entry → the copy
	for _, entry := range flat(s.dump(at.at, at.name)) {
		for _, m := range entry.Messages {
			if duplicates[m.ID] == 0 {
				continue
			}
			src, err := sourceOf(entry)
			if err != nil {
				guilty[m.ID] = err.Error()
				continue
			}
			key := m.ID + " of " + src.position
			if other, twice := from[key]; twice {
				guilty[m.ID] = fmt.Sprintf("%s is stored at %s and %s", key, other.Position, entry.Position)
			}
			from[key] = entry
			excused[m.ID]++
		}
	}
	var out []string
	for id, extra := range duplicates {
		switch {
		case guilty[id] != "":
			out = append(out, guilty[id])
		case excused[id] != extra+1:
			out = append(out, fmt.Sprintf("%s arrived %d times, %d copies are stored", id, extra+1, excused[id]))
		}
	}
	slices.Sort(out)
	s.Logf("%d messages arrived more than once; %d of them are stored more than once by the source's own producer", len(duplicates),
		len(duplicates)-len(out))
	return out
}
