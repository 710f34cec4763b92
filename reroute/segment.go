package reroute

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const (
	topicScheme   = "topic://"
	segmentScheme = "segment://"
)

// Segment is one node of a scalable topic's layout, as the layout watch and the
// admin interface describe it. Range is over segment hashes. Splits are the
// start hashes of buckets 1..N-1, strictly ascending and above 0; none means
// one bucket over the whole ring (SegmentInfoProto.entry_bucket_splits).
// Times are the broker's wall clock in milliseconds since 1970; they tell
// incarnations apart and decide nothing else. SealedAtMs is 0 or negative while
// the segment is active.
type Segment struct {
	ID          uint64
	Range       HashRange
	Splits      []uint16
	Sealed      bool
	LegacyTopic string // the persistent:// topic behind a migrated partition; "" otherwise
	Parents     []uint64
	Children    []uint64
	CreatedAtMs int64
	SealedAtMs  int64
}

// Legacy reports whether the segment is a partition from before the topic
// became scalable. Its range says nothing about its keys: they were placed by
// masked hash modulo the number of partitions.
func (s *Segment) Legacy() bool { return s.LegacyTopic != "" }

// Topic is the name of the topic that stores the segment of the given scalable
// topic (topic://tenant/namespace/name):
// segment://tenant/namespace/name/<start>-<end>-<id>, or the legacy topic.
// Source: SegmentTopicName of broker 5.0.1, observed in its stats.
func (s *Segment) Topic(scalable string) string {
	if s.Legacy() {
		return s.LegacyTopic
	}
	return segmentScheme + strings.TrimPrefix(scalable, topicScheme) + "/" + s.Range.String() +
		"-" + strconv.FormatUint(s.ID, 10)
}

// ParseSegmentTopic takes a segment topic's name apart into its scalable topic,
// range and id. A name that is not exactly as Topic writes it is an error.
func ParseSegmentTopic(name string) (scalable string, r HashRange, id uint64, err error) {
	rest, ok := strings.CutPrefix(name, segmentScheme)
	slash := strings.LastIndexByte(rest, '/')
	if !ok || slash < 0 {
		return "", HashRange{}, 0, fmt.Errorf("not a segment topic: %q", name)
	}
	scalable = topicScheme + rest[:slash]
	part := strings.SplitN(rest[slash+1:], "-", 3)
	if len(part) == 3 {
		start, errStart := strconv.ParseUint(part[0], 16, 16)
		end, errEnd := strconv.ParseUint(part[1], 16, 16)
		n, errID := strconv.ParseUint(part[2], 10, 64)
		seg := Segment{ID: n, Range: HashRange{Start: uint16(start), End: uint16(end)}}
		if errStart == nil && errEnd == nil && errID == nil && start <= end && seg.Topic(scalable) == name {
			return scalable, seg.Range, n, nil
		}
	}
	return "", HashRange{}, 0, fmt.Errorf("segment topic %q: descriptor is not start-end-id", name)
}

// Buckets is the number of entry buckets, at least 1.
func (s *Segment) Buckets() int { return len(s.Splits) + 1 }

// Bucket is the index of the bucket that holds bucket hash h.
func (s *Segment) Bucket(h uint16) int {
	return sort.Search(len(s.Splits), func(i int) bool { return s.Splits[i] > h })
}

// BucketRange is the range of bucket hashes of bucket i, which must be at least
// 0 and below Buckets.
func (s *Segment) BucketRange(i int) HashRange {
	r := FullRange()
	if i > 0 {
		r.Start = s.Splits[i-1]
	}
	if i < len(s.Splits) {
		r.End = s.Splits[i] - 1
	}
	return r
}

func (s *Segment) validate() error {
	if s.Range.Start > s.Range.End {
		return fmt.Errorf("segment %d: range %v ends before it starts", s.ID, s.Range)
	}
	last := uint16(0)
	for _, split := range s.Splits {
		if split <= last {
			return fmt.Errorf("segment %d: bucket splits %v do not ascend from above 0", s.ID, s.Splits)
		}
		last = split
	}
	if s.Legacy() && !s.Sealed {
		return fmt.Errorf("segment %d: %w (%s)", s.ID, ErrNotMigrated, s.LegacyTopic)
	}
	return nil
}

func (s *Segment) clone() *Segment {
	c := *s
	c.Splits = slices.Clone(s.Splits)
	c.Parents = slices.Clone(s.Parents)
	c.Children = slices.Clone(s.Children)
	return &c
}
