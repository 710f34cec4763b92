package frame

import (
	"bufio"
	"bytes"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"pgregory.net/rapid"
)

// wholePath carries entries from a source's connection to a target's the way a
// lane does with one that goes on whole.
type wholePath struct {
	source *bufio.Reader
	limits Limits
	frame  Frame
	header []byte
	vec    net.Buffers
	space  [2][]byte
	patch  Patch
	sent   uint64
}

func (w *wholePath) step(out io.Writer) (int, error) {
	if err := ReadCommand(w.source, w.limits, &w.frame); err != nil {
		return 0, err
	}
	e := w.frame.Entry
	defer e.Release()
	if w.frame.EntryErr != nil {
		return 0, w.frame.EntryErr
	}
	info, err := Scan(e.Metadata)
	if err != nil {
		return 0, err
	}
	md := AppendPatched(e.Scratch(), e.Metadata, &w.patch)
	w.sent++
	send := SendCommand{ProducerID: 1, SequenceID: w.sent, NumMessages: int32(info.NumMessages)}
	w.header = AppendSend(w.header[:0], &send, md, len(e.Payload), e.PayloadCRC)
	w.space = [2][]byte{w.header, e.Payload}
	w.vec = w.space[:]
	_, err = w.vec.WriteTo(out)
	return e.Size(), err
}

// loop repeats the same bytes without end.
type loop struct {
	data []byte
	at   int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.data[l.at:])
	l.at = (l.at + n) % len(l.data)
	return n, nil
}

func newWholePath(payload []byte, metadata []byte) *wholePath {
	m := MessageCommand{ConsumerID: 1, Ledger: 10, Entry: 20, Partition: -1}
	raw := append(AppendMessage(nil, &m, metadata, len(payload), Checksum(0, payload)), payload...)
	return &wholePath{
		source: bufio.NewReaderSize(&loop{data: raw}, 64<<10),
		limits: Limits{Pool: &Pool{}},
		patch: Patch{ProducerName: []byte("app-seg-0@east"), ReplicatedFrom: []byte("east"),
			Identity: []byte("1;east;geobridge-AAAAAAAAAAAAAAAAAAAAAA;10:20;*;100;")},
	}
}

func metadataOfBatch(t rapid.TB) []byte {
	return readOne(t, captured(t)["v5-batch-none.0"]).Entry.Metadata
}

func TestWholePathKeepsChecksumAndAllocatesNothing(t *testing.T) {
	payload := make([]byte, 100_000)
	for i := range payload {
		payload[i] = byte(rand.Uint32())
	}
	w := newWholePath(payload, metadataOfBatch(t))
	var out bytes.Buffer
	if _, err := w.step(&out); err != nil {
		t.Fatal(err)
	}
	f := readOne(t, out.Bytes())
	if f.EntryErr != nil || !bytes.Equal(f.Entry.Payload, payload) || f.Send.NumMessages != 3 || f.Send.SequenceID != 1 {
		t.Errorf("sent %+v, entry error %v", f.Send, f.EntryErr)
	}
	info := checkInfo(t, f.Entry.Metadata)
	if string(info.ProducerName) != "app-seg-0@east" || string(info.ReplicatedFrom) != "east" || info.Identity == nil {
		t.Errorf("patched: %q %q %q", info.ProducerName, info.ReplicatedFrom, info.Identity)
	}
	allocs := testing.AllocsPerRun(200, func() {
		if _, err := w.step(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
	if allocs >= 1 { // a garbage collection may empty the pool once
		t.Errorf("%v allocations an entry", allocs)
	}
}

// BenchmarkWholePath shows the cost of an entry that goes on whole beside that
// of the one checksum pass over its payload: the difference is what the path
// adds, one copy out of the read buffer and some hundred nanoseconds.
func BenchmarkWholePath(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		payload := make([]byte, size)
		name := map[int]string{1 << 10: "1KiB", 100 << 10: "100KiB", 1 << 20: "1MiB"}[size]
		b.Run(name+"/path", func(b *testing.B) {
			w := newWholePath(payload, metadataOfBatch(b))
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := w.step(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/checksum", func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				Checksum(0, payload)
			}
		})
		b.Run(name+"/copy", func(b *testing.B) {
			dst := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				copy(dst, payload)
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	md := metadataOfBatch(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Scan(md); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPatched(b *testing.B) {
	w := newWholePath(nil, metadataOfBatch(b))
	md := metadataOfBatch(b)
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendPatched(dst[:0], md, &w.patch)
	}
}

func BenchmarkCombineCRC(b *testing.B) {
	for b.Loop() {
		CombineCRC(1, 2, 100<<10)
	}
}

func BenchmarkReceipt(b *testing.B) {
	raw := AppendReceipt(nil, &ReceiptCommand{ProducerID: 1, SequenceID: 1 << 20, Ledger: 100, Entry: 1000})
	r := bufio.NewReaderSize(&loop{data: raw}, 64<<10)
	var f Frame
	b.ReportAllocs()
	for b.Loop() {
		if err := ReadCommand(r, Limits{}, &f); err != nil || f.Type != pulsarpb.BaseCommand_SEND_RECEIPT {
			b.Fatal(err)
		}
	}
}

func TestPowersAreSquarings(t *testing.T) {
	last := powers[len(powers)-1]
	if mulMod(last, last) != powers[0] {
		t.Error("the squarings of x do not repeat after 31")
	}
	if got := Checksum(0, []byte("123456789")); got != 0xe3069283 || got != crc32.Checksum([]byte("123456789"), crc32.MakeTable(crc32.Castagnoli)) {
		t.Errorf("check value %08x", got)
	}
}
