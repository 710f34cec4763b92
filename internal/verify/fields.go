package verify

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

func appendSized(dst, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}

// field is one of a protobuf message: n of a varint, val of bytes.
type field struct {
	num  protowire.Number
	n    uint64
	val  []byte
	size int
}

// next reads the first field of b. It is what reading a message costs most, hence
// no second look at what is in one byte.
func next(b []byte) (f field, ok bool) {
	tag, n := uvarint(b)
	if n == 0 {
		return f, false
	}
	f.num = protowire.Number(tag >> 3)
	switch typ := protowire.Type(tag & 7); typ {
	case protowire.VarintType:
		v, m := uvarint(b[n:])
		f.n, f.size = v, n+m
		return f, m > 0
	case protowire.BytesType:
		v, m := uvarint(b[n:])
		from := n + m
		if m == 0 || v > uint64(len(b)-from) {
			return f, false
		}
		f.size = from + int(v)
		f.val = b[from:f.size:f.size]
		return f, true
	default:
		m := protowire.ConsumeFieldValue(f.num, typ, b[n:])
		f.size = n + m
		return f, m >= 0
	}
}

// uvarint is protowire.ConsumeVarint, quicker for one byte; 0 bytes: malformed.
func uvarint(b []byte) (v uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return longUvarint(b)
}

func longUvarint(b []byte) (v uint64, n int) {
	v, n = protowire.ConsumeVarint(b)
	return v, max(n, 0)
}

func fields(b []byte, f func(field)) {
	for len(b) > 0 {
		x, ok := next(b)
		if !ok {
			return
		}
		f(x)
		b = b[x.size:]
	}
}
