package frame

import "github.com/geobridge/geobridge/internal/pulsar/pulsarpb"

// Frame is one command as read, with the entry that followed it. Commands of
// the hot path are scanned into plain structs; all others are in Command.
type Frame struct {
	Type    pulsarpb.BaseCommand_Type
	Command *pulsarpb.BaseCommand // nil for MESSAGE, SEND_RECEIPT and SEND

	Message MessageCommand // valid if Type is MESSAGE
	Receipt ReceiptCommand // valid if Type is SEND_RECEIPT
	Send    SendCommand    // valid if Type is SEND

	// Entry follows MESSAGE and SEND, else it is nil. Its one reference is the
	// caller's.
	Entry *Entry
	// EntryErr is ErrChecksum or ErrTruncated (errors.Is): Entry is there all
	// the same, raw. After ErrTruncated all bytes are in Entry.Payload.
	EntryErr error
}

// MessageCommand is CommandMessage. AckSet is reused by the next read into the
// same Frame.
type MessageCommand struct {
	ConsumerID      uint64
	Ledger, Entry   int64
	Partition       int32 // -1 if absent, and on segments
	BatchIndex      int32 // -1 if absent
	RedeliveryCount uint32
	AckSet          []int64
	ConsumerEpoch   uint64
	HasEpoch        bool
}

// ReceiptCommand is CommandSendReceipt. Ledger and Entry are -1 where the
// broker stored nothing: a duplicate, or no message id at all.
type ReceiptCommand struct {
	ProducerID, SequenceID, HighestSequenceID uint64
	HasHighestSequenceID                      bool
	Ledger, Entry                             int64
}

// SendCommand is CommandSend without its transaction fields on writing, since
// geobridge has no transactions; reading fills them.
type SendCommand struct {
	ProducerID, SequenceID, HighestSequenceID uint64
	HasHighestSequenceID                      bool
	NumMessages                               int32 // 1 if absent; 0 is written as 1
	IsChunk, Marker                           bool
	HasTxn                                    bool
	TxnLeastBits, TxnMostBits                 uint64
}
