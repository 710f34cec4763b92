package pulsartest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func isShared(typ pulsarpb.CommandSubscribe_SubType) bool {
	return typ == pulsarpb.CommandSubscribe_Shared || typ == pulsarpb.CommandSubscribe_Key_Shared
}

// byBucket tells whether a consumer wants entries by their buckets; nothing else of
// Key_Shared is here.
func byBucket(m *pulsarpb.KeySharedMeta) bool {
	return m.GetKeySharedMode() == pulsarpb.KeySharedMode_STICKY && m.GetEntryBucketDispatch() && !m.GetAllowOutOfOrderDelivery()
}

// boundaries are the buckets that a consumer declares: all of the ring, in order
// (facts 4.3).
func boundaries(m *pulsarpb.KeySharedMeta) ([]bucket, *refusal) {
	unfit := func(format string, args ...any) *refusal {
		return refuse(pulsarpb.ServerError_ConsumerAssignError, fmt.Sprintf("Entry-bucket boundaries must "+format, args...))
	}
	var all []bucket
	next := int32(0)
	for _, r := range m.GetHashRanges() {
		if r.GetStart() != next || r.GetEnd() < r.GetStart() || r.GetEnd() > 0xffff {
			return nil, unfit("be ascending, contiguous and start at 0: found [%d,%d] where start %d was expected", r.GetStart(), r.GetEnd(), next)
		}
		all = append(all, bucket{uint16(r.GetStart()), uint16(r.GetEnd())})
		next = r.GetEnd() + 1
	}
	if next != 1<<16 {
		return nil, unfit("tile the 16-bit ring: last range ends at %d", next-1)
	}
	return all, nil
}

func listed(buckets []bucket) string {
	var text []string
	for _, b := range buckets {
		text = append(text, fmt.Sprintf("[%d, %d]", b.start, b.end))
	}
	return "[" + strings.Join(text, ", ") + "]"
}

// fits tells whether one more consumer may share the subscription as it is shared
// (facts 4.3).
func (g *sharing) fits(m *pulsarpb.KeySharedMeta, buckets []bucket) *refusal {
	switch {
	case g.buckets == nil:
		return nil
	case !byBucket(m):
		return refuse(pulsarpb.ServerError_ConsumerBusy, "Subscription is of different type")
	case !slices.Equal(g.buckets, buckets):
		return refuse(pulsarpb.ServerError_ConsumerAssignError, "Consumer declares different entry-bucket boundaries than the subscription: "+
			listed(buckets)+" != "+listed(g.buckets))
	}
	return nil
}

// bucketOf is where an entry belongs: by its stamp's lower bound, even if that lies;
// without one, by its key (facts 5).
func (g *sharing) bucketOf(e *entry) int {
	if g.buckets == nil {
		return 0
	}
	hash := uint16(e.info.HashMin)
	if !e.info.HasHashMin {
		hash = uint16(murmur(e.sticky()))
	}
	return sort.Search(len(g.buckets), func(i int) bool { return g.buckets[i].start > hash }) - 1
}

// sticky is the key by which the broker places an entry without a stamp: of a base64
// key the bytes, and without a key something of its own (P40).
func (e *entry) sticky() []byte {
	switch {
	case e.info.HasOrderingKey:
		return e.info.OrderingKey
	case !e.info.HasPartitionKey:
		return fmt.Appendf(nil, "%s-%d", e.info.ProducerName, e.info.SequenceID)
	}
	var m pulsarpb.MessageMetadata
	if proto.Unmarshal(e.metadata, &m) == nil && m.GetPartitionKeyB64Encoded() {
		if key, err := base64.StdEncoding.DecodeString(m.GetPartitionKey()); err == nil {
			return key
		}
	}
	return e.info.PartitionKey
}
