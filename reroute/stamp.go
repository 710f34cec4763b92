package reroute

// Stamp is an entry's effective bucket-hash range: entry_hash_min and
// entry_hash_max of its cleartext metadata, both inclusive. It says nothing
// about segments, which are chosen by the other half of the hash. The zero
// value is no stamp.
type Stamp struct {
	Min, Max uint16
	Valid    bool
}

// NewStamp is the stamp that the two metadata fields make. A bound that is
// missing or above 0xFFFF, and min above max, make no stamp: brokers store
// those too (broker 5.0.1, observed: facts 5).
func NewStamp(lo, hi uint32, hasLo, hasHi bool) Stamp {
	if !hasLo || !hasHi || lo > hi || hi > 0xFFFF {
		return Stamp{}
	}
	return Stamp{Min: uint16(lo), Max: uint16(hi), Valid: true}
}

// Extend is the tightest stamp that holds s and the given bucket hash too.
// Extending no stamp gives the stamp of that one hash.
func (s Stamp) Extend(bucket uint16) Stamp {
	if !s.Valid {
		return Stamp{Min: bucket, Max: bucket, Valid: true}
	}
	s.Min, s.Max = min(s.Min, bucket), max(s.Max, bucket)
	return s
}

// Contains reports whether the stamp is valid and holds the bucket hash.
func (s Stamp) Contains(bucket uint16) bool {
	return s.Valid && s.Min <= bucket && bucket <= s.Max
}

// Violations counts the messages of one opened entry that contradict what was
// told of it in cleartext.
type Violations struct {
	Segment int // keyed messages whose segment hash lies outside the source segment
	Stamp   int // messages whose bucket hash lies outside a valid stamp
}

// Check compares the keys of an opened entry with the range of the segment it
// was stored in and with its stamp. Keyless messages bind no segment; without
// a valid stamp nothing can contradict it.
func Check(source HashRange, s Stamp, keys []Key) Violations {
	var v Violations
	for i := range keys {
		h := keys[i].Hash()
		if h.Keyed && !source.Contains(h.Segment) {
			v.Segment++
		}
		if s.Valid && !s.Contains(h.Bucket) {
			v.Stamp++
		}
	}
	return v
}
