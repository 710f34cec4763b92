package frame

import (
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message on the wire. Of varints only num is set, of
// length-delimited ones only val.
type field struct {
	num  protowire.Number
	typ  protowire.Type
	n    uint64
	val  []byte
	size int // of the whole field, tag included
}

// next decodes the first field of b. Fields of an unknown number and any wire
// type are skipped whole, groups too.
func next(b []byte) (f field, ok bool) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, false
	}
	f.num, f.typ = num, typ
	var m int
	switch typ {
	case protowire.VarintType:
		f.n, m = protowire.ConsumeVarint(b[n:])
	case protowire.BytesType:
		f.val, m = protowire.ConsumeBytes(b[n:])
	default:
		m = protowire.ConsumeFieldValue(num, typ, b[n:])
	}
	f.size = n + m
	return f, m >= 0
}

func scanType(b []byte) (typ pulsarpb.BaseCommand_Type, ok bool) {
	for len(b) > 0 {
		f, good := next(b)
		if !good {
			return 0, false
		}
		if f.num == 1 && f.typ == protowire.VarintType {
			typ, ok = pulsarpb.BaseCommand_Type(int32(f.n)), true
			if typ == pulsarpb.BaseCommand_MESSAGE {
				return typ, true
			}
		}
		b = b[f.size:]
	}
	return typ, ok
}

// body finds the sub-command of the given number; the last one wins.
func body(b []byte, num protowire.Number) (val []byte, ok bool) {
	for len(b) > 0 {
		f, good := next(b)
		if !good {
			return nil, false
		}
		if f.num == num && f.typ == protowire.BytesType {
			val, ok = f.val, true
		}
		b = b[f.size:]
	}
	return val, ok
}

// scanMessage reads CommandMessage: consumer_id 1, message_id 2,
// redelivery_count 3, ack_set 4, consumer_epoch 5.
func scanMessage(b []byte, m *MessageCommand) bool {
	b, ok := body(b, 9)
	if !ok {
		return false
	}
	m.Partition, m.BatchIndex = -1, -1
	var seen uint8
	for len(b) > 0 {
		f, good := next(b)
		if !good {
			return false
		}
		switch {
		case f.num == 1 && f.typ == protowire.VarintType:
			m.ConsumerID, seen = f.n, seen|1
		case f.num == 2 && f.typ == protowire.BytesType:
			if !scanMessageID(f.val, m) {
				return false
			}
			seen |= 2
		case f.num == 3 && f.typ == protowire.VarintType:
			m.RedeliveryCount = uint32(f.n)
		case f.num == 4:
			if m.AckSet, good = appendInts(m.AckSet, f); !good {
				return false
			}
		case f.num == 5 && f.typ == protowire.VarintType:
			m.ConsumerEpoch, m.HasEpoch = f.n, true
		}
		b = b[f.size:]
	}
	return seen == 3
}

// scanMessageID reads MessageIdData: ledgerId 1, entryId 2, partition 3,
// batch_index 4.
func scanMessageID(b []byte, m *MessageCommand) bool {
	var seen uint8
	for len(b) > 0 {
		f, ok := next(b)
		if !ok {
			return false
		}
		if f.typ == protowire.VarintType {
			switch f.num {
			case 1:
				m.Ledger, seen = int64(f.n), seen|1
			case 2:
				m.Entry, seen = int64(f.n), seen|2
			case 3:
				m.Partition = int32(f.n)
			case 4:
				m.BatchIndex = int32(f.n)
			}
		}
		b = b[f.size:]
	}
	return seen == 3
}

// appendInts reads a repeated varint, packed or not.
func appendInts(dst []int64, f field) ([]int64, bool) {
	if f.typ == protowire.VarintType {
		return append(dst, int64(f.n)), true
	}
	for b := f.val; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return dst, false
		}
		dst, b = append(dst, int64(v)), b[n:]
	}
	return dst, true
}

// scanReceipt reads CommandSendReceipt: producer_id 1, sequence_id 2,
// message_id 3, highest_sequence_id 4.
func scanReceipt(b []byte, r *ReceiptCommand) bool {
	b, ok := body(b, 7)
	if !ok {
		return false
	}
	id := MessageCommand{Ledger: -1, Entry: -1}
	var seen uint8
	for len(b) > 0 {
		f, good := next(b)
		if !good {
			return false
		}
		switch {
		case f.num == 3 && f.typ == protowire.BytesType:
			if !scanMessageID(f.val, &id) {
				return false
			}
		case f.typ != protowire.VarintType:
		case f.num == 1:
			r.ProducerID, seen = f.n, seen|1
		case f.num == 2:
			r.SequenceID, seen = f.n, seen|2
		case f.num == 4:
			r.HighestSequenceID, r.HasHighestSequenceID = f.n, true
		}
		b = b[f.size:]
	}
	r.Ledger, r.Entry = id.Ledger, id.Entry
	return seen == 3
}

// scanSend reads CommandSend: producer_id 1, sequence_id 2, num_messages 3,
// txnid_least_bits 4, txnid_most_bits 5, highest_sequence_id 6, is_chunk 7,
// marker 8.
func scanSend(b []byte, s *SendCommand) bool {
	b, ok := body(b, 6)
	if !ok {
		return false
	}
	s.NumMessages = 1
	var seen uint8
	for len(b) > 0 {
		f, good := next(b)
		if !good {
			return false
		}
		if f.typ == protowire.VarintType {
			switch f.num {
			case 1:
				s.ProducerID, seen = f.n, seen|1
			case 2:
				s.SequenceID, seen = f.n, seen|2
			case 3:
				s.NumMessages = int32(f.n)
			case 4:
				s.TxnLeastBits, s.HasTxn = f.n, true
			case 5:
				s.TxnMostBits, s.HasTxn = f.n, true
			case 6:
				s.HighestSequenceID, s.HasHighestSequenceID = f.n, true
			case 7:
				s.IsChunk = f.n != 0
			case 8:
				s.Marker = f.n != 0
			}
		}
		b = b[f.size:]
	}
	return seen == 3
}
