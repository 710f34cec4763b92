package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Decompress gives the plain payload of an entry; payload itself if it is not
// compressed. It makes at most limit bytes, and none for a size that the
// compressed bytes can not yield. The error is an *UndecodableError. The
// formats are those of broker and Java client 5.0.1, observed: LZ4 and Snappy
// as raw blocks, zlib with its header, zstd frames; the length is the
// metadata's uncompressed_size.
func Decompress(info *Info, payload []byte, limit int) ([]byte, error) {
	if info.Encrypted {
		return nil, undecodable(ReasonEncrypted, nil)
	}
	if info.Compression == pulsarpb.CompressionType_NONE {
		return payload, nil
	}
	ratio, err := maxRatio(info.Compression)
	if err != nil {
		return nil, err
	}
	size := int(info.UncompressedSize)
	if size > limit {
		return nil, undecodable(ReasonSize, fmt.Errorf("%d bytes, at most %d", size, limit))
	}
	if size == 0 {
		return []byte{}, nil
	}
	if size/ratio > len(payload) {
		return nil, undecodable(ReasonSize, fmt.Errorf("%d bytes can not come from %d", size, len(payload)))
	}
	out, err := decode(info.Compression, payload, size)
	if err != nil {
		return nil, undecodable(ReasonCompression, err)
	}
	if len(out) != size {
		return nil, undecodable(ReasonSize, fmt.Errorf("%d bytes announced, %d found", size, len(out)))
	}
	return out, nil
}

// maxRatio is the most a codec can shrink data by: what bounds an allocation by
// the bytes that are really there.
func maxRatio(c pulsarpb.CompressionType) (int, error) {
	switch c {
	case pulsarpb.CompressionType_LZ4:
		return 255, nil // one length byte adds 255
	case pulsarpb.CompressionType_ZLIB:
		return 1032, nil // two bits copy 258 bytes
	case pulsarpb.CompressionType_ZSTD:
		return 1 << 15, nil // four bytes repeat one over a block of 128 KiB
	case pulsarpb.CompressionType_SNAPPY:
		return 22, nil // three bytes copy 64
	}
	return 0, undecodable(ReasonCodec, fmt.Errorf("compression %d", int32(c)))
}

var errLonger = errors.New("more than the announced size")

// decode makes at most size bytes.
func decode(c pulsarpb.CompressionType, src []byte, size int) ([]byte, error) {
	switch c {
	case pulsarpb.CompressionType_LZ4:
		dst := make([]byte, size)
		n, err := lz4.UncompressBlock(src, dst)
		if err != nil {
			return nil, err
		}
		return dst[:n], nil
	case pulsarpb.CompressionType_ZLIB:
		return decodeZlib(src, size)
	case pulsarpb.CompressionType_ZSTD:
		d, err := zstdDecoder()
		if err != nil {
			return nil, err
		}
		return d.DecodeAll(src, make([]byte, 0, size))
	default: // SNAPPY
		n, err := s2.DecodedLen(src)
		if err != nil {
			return nil, err
		}
		if n != size {
			return nil, fmt.Errorf("block of %d bytes, %d announced", n, size)
		}
		return s2.Decode(make([]byte, size), src)
	}
}

func decodeZlib(src []byte, size int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	dst := make([]byte, size)
	if _, err := io.ReadFull(r, dst); err != nil {
		return nil, err
	}
	// A stream of Java's does not end (5.0.1, observed: flushed, never finished,
	// so without zlib's own checksum); one that does end has to end here.
	var one [1]byte
	if n, err := r.Read(one[:]); n > 0 {
		return nil, errLonger
	} else if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	return dst, nil
}

// compress is the inverse of Decompress, with each codec's default level as
// the Java client has it. NONE gives src itself.
func compress(c pulsarpb.CompressionType, src []byte) ([]byte, error) {
	switch c {
	case pulsarpb.CompressionType_NONE:
		return src, nil
	case pulsarpb.CompressionType_LZ4:
		if len(src) == 0 {
			return []byte{0}, nil // a token without literals
		}
		dst := make([]byte, lz4.CompressBlockBound(len(src)))
		n, err := lz4.CompressBlock(src, dst, nil)
		if err != nil || n == 0 {
			return nil, undecodable(ReasonCompression, fmt.Errorf("lz4 of %d bytes: %w", len(src), err))
		}
		return dst[:n], nil
	case pulsarpb.CompressionType_ZLIB:
		var out bytes.Buffer
		w, _ := zlibWriters.Get().(*zlib.Writer)
		w.Reset(&out)
		defer zlibWriters.Put(w)
		if _, err := w.Write(src); err != nil {
			return nil, undecodable(ReasonCompression, err)
		}
		if err := w.Close(); err != nil {
			return nil, undecodable(ReasonCompression, err)
		}
		return out.Bytes(), nil
	case pulsarpb.CompressionType_ZSTD:
		e, err := zstdEncoder()
		if err != nil {
			return nil, undecodable(ReasonCompression, err)
		}
		return e.EncodeAll(src, nil), nil
	case pulsarpb.CompressionType_SNAPPY:
		return s2.EncodeSnappy(nil, src), nil
	}
	return nil, undecodable(ReasonCodec, fmt.Errorf("compression %d", int32(c)))
}

// The codecs below cost up to a megabyte to make and keep nothing from one call
// to the next, so all callers share them.
var (
	zlibWriters = sync.Pool{New: func() any { return zlib.NewWriter(io.Discard) }}

	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderCRC(false))
	})
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
	})
)
