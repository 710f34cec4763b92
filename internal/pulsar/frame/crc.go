package frame

import "hash/crc32"

// Checksum continues the CRC32C (Castagnoli) crc over p; start with 0.
func Checksum(crc uint32, p []byte) uint32 {
	return crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), p)
}

// CombineCRC gives the CRC32C of A followed by B from those of A and of B, and
// B's length. It costs some hundred instructions, whatever the length.
func CombineCRC(crcA, crcB uint32, lenB int) uint32 {
	if lenB <= 0 {
		return crcA
	}
	// Appending B multiplies A's remainder by x^(8·lenB); the pre- and
	// post-conditioning of both sums cancel out.
	shift := uint32(1 << 31) // x^0; the top bit is the lowest power
	for n, k := uint64(lenB), 3; n > 0; n, k = n>>1, k+1 {
		if n&1 != 0 {
			shift = mulMod(powers[k%31], shift)
		}
	}
	return mulMod(shift, crcA) ^ crcB
}

// powers[k] is x^(2^k) modulo the Castagnoli polynomial, bit-reflected. The
// order of x is 2^31-1, so the row repeats after 31.
var powers = squarings()

func squarings() (t [31]uint32) {
	p := uint32(1 << 30) // x^1
	for k := range t {
		t[k] = p
		p = mulMod(p, p)
	}
	return t
}

// mulMod multiplies two reflected polynomials modulo Castagnoli's.
func mulMod(a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		p ^= b & -(a >> 31)
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return p
}
