package reroute

import "testing"

// Vectors by ScalableTopicHashing of the 5.0.1 jars.
func TestHashAgreesWithBroker(t *testing.T) {
	for _, tc := range []struct {
		key             string
		segment, bucket uint16
	}{
		{"", 0x0000, 0x0000},
		{"a", 0x3c25, 0x69b2},
		{"key-1", 0x98b1, 0x15a0},
		{"ключ", 0x9a59, 0x2042},
		{"orders", 0x7518, 0x4c89},
		{"0123456789abcdef0", 0x8efa, 0x0e6d},
		{"🙂", 0x3e22, 0x6063},
		{"AAE=", 0x38d0, 0xb1c4}, // base64 text of 00 01
	} {
		got := Key{Key: []byte(tc.key), HasKey: true}.Hash()
		if want := (Hash{Segment: tc.segment, Bucket: tc.bucket, Keyed: true}); got != want {
			t.Errorf("hash of %q = %+v, want %+v", tc.key, got, want)
		}
	}
}

func TestHashOfOrderingKey(t *testing.T) {
	for _, tc := range []struct {
		name string
		key  Key
		want Hash
	}{
		{"no key", Key{}, Hash{}},
		{"bytes without the flag are no key", Key{Key: []byte("a"), OrderingKey: []byte("a")}, Hash{}},
		{"empty key is a key", Key{HasKey: true}, Hash{Keyed: true}},
		{"ordering key moves the bucket only", Key{Key: []byte("a"), HasKey: true, OrderingKey: []byte("orders"), HasOrderingKey: true},
			Hash{Segment: 0x3c25, Bucket: 0x4c89, Keyed: true}},
		{"empty ordering key counts", Key{Key: []byte("a"), HasKey: true, HasOrderingKey: true},
			Hash{Segment: 0x3c25, Bucket: 0, Keyed: true}},
		{"ordering key without key binds no segment", Key{OrderingKey: []byte("orders"), HasOrderingKey: true},
			Hash{Bucket: 0x4c89}},
	} {
		if got := tc.key.Hash(); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestHashAllocatesNothing(t *testing.T) {
	k := Key{Key: []byte("0123456789abcdef0"), HasKey: true, OrderingKey: []byte("x"), HasOrderingKey: true}
	if n := testing.AllocsPerRun(100, func() { k.Hash() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHashRange(t *testing.T) {
	r := HashRange{0x1000, 0x1fff}
	if r.Contains(0x0fff) || !r.Contains(0x1000) || !r.Contains(0x1fff) || r.Contains(0x2000) {
		t.Error("Contains: bounds are inclusive")
	}
	for _, tc := range []struct {
		o                HashRange
		covers, overlaps bool
	}{
		{r, true, true},
		{HashRange{0x1001, 0x1001}, true, true},
		{HashRange{0x1fff, 0x2000}, false, true},
		{HashRange{0x0000, 0x1000}, false, true},
		{FullRange(), false, true},
		{HashRange{0x2000, 0xffff}, false, false},
		{HashRange{0x0000, 0x0fff}, false, false},
	} {
		if got := r.Covers(tc.o); got != tc.covers {
			t.Errorf("%v covers %v: %v", r, tc.o, got)
		}
		if got := r.Overlaps(tc.o); got != tc.overlaps {
			t.Errorf("%v overlaps %v: %v", r, tc.o, got)
		}
	}
	if got := r.String(); got != "1000-1fff" {
		t.Errorf("String = %q", got)
	}
}

func TestNewStamp(t *testing.T) {
	for _, tc := range []struct {
		name           string
		lo, hi         uint32
		hasLo, hasHi   bool
		valid          bool
		wantLo, wantHi uint16
	}{
		{"range", 1, 2, true, true, true, 1, 2},
		{"one hash", 0, 0, true, true, true, 0, 0},
		{"whole ring", 0, 0xFFFF, true, true, true, 0, 0xFFFF},
		{"min above max", 2, 1, true, true, false, 0, 0},
		{"above 16 bits", 0, 0x10000, true, true, false, 0, 0},
		{"both above 16 bits", 0x10001, 0x10002, true, true, false, 0, 0},
		{"no min", 0, 2, false, true, false, 0, 0},
		{"no max", 0, 2, true, false, false, 0, 0},
		{"neither", 0, 0, false, false, false, 0, 0},
	} {
		want := Stamp{Min: tc.wantLo, Max: tc.wantHi, Valid: tc.valid}
		if got := NewStamp(tc.lo, tc.hi, tc.hasLo, tc.hasHi); got != want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, want)
		}
	}
}

func TestExtendStamp(t *testing.T) {
	s := Stamp{}.Extend(7)
	if s != (Stamp{7, 7, true}) {
		t.Errorf("no stamp extended by 7: %+v", s)
	}
	if s = s.Extend(3).Extend(9).Extend(5); s != (Stamp{3, 9, true}) {
		t.Errorf("7 extended by 3, 9, 5: %+v", s)
	}
}

func TestCheck(t *testing.T) {
	a := Key{Key: []byte("a"), HasKey: true} // 3c25, 69b2
	for _, tc := range []struct {
		name  string
		src   HashRange
		stamp Stamp
		keys  []Key
		want  Violations
	}{
		{"all true", HashRange{0x3000, 0x3fff}, Stamp{0x69b2, 0x69b2, true}, []Key{a}, Violations{}},
		{"outside the segment", HashRange{0x4000, 0xffff}, Stamp{}, []Key{a, a}, Violations{Segment: 2}},
		{"outside the stamp", FullRange(), Stamp{0, 0x69b1, true}, []Key{a, {}}, Violations{Stamp: 1}},
		{"keyless binds no segment but bucket 0", HashRange{1, 1}, Stamp{1, 1, true}, []Key{{}}, Violations{Stamp: 1}},
	} {
		if got := Check(tc.src, tc.stamp, tc.keys); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}
