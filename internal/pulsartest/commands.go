package pulsartest

import (
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// outgoing is one frame to a client: just one of the first three is set.
type outgoing struct {
	cmd     *pulsarpb.BaseCommand
	receipt *frame.ReceiptCommand
	message *frame.MessageCommand
	entry   *entry // of message
	last    bool   // the connection ends behind it
}

func (o *outgoing) typ() pulsarpb.BaseCommand_Type {
	switch {
	case o.receipt != nil:
		return pulsarpb.BaseCommand_SEND_RECEIPT
	case o.message != nil:
		return pulsarpb.BaseCommand_MESSAGE
	}
	return o.cmd.GetType()
}

// append appends the whole frame.
func (o *outgoing) append(dst []byte) []byte {
	switch {
	case o.receipt != nil:
		return frame.AppendReceipt(dst, o.receipt)
	case o.message != nil:
		dst = frame.AppendMessage(dst, o.message, o.entry.metadata, len(o.entry.payload), o.entry.crc)
		return append(dst, o.entry.payload...)
	}
	dst, err := frame.AppendCommand(dst, o.cmd)
	if err != nil {
		panic(err) // a required field that this package forgot
	}
	return dst
}

func command(c *pulsarpb.BaseCommand) outgoing { return outgoing{cmd: c} }

func base(t pulsarpb.BaseCommand_Type) *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: t.Enum()}
}

// unasked is the request id of what the broker closes by itself (facts 2.5).
const unasked = math.MaxUint64

// refusal is a negative answer.
type refusal struct {
	code    pulsarpb.ServerError
	message string
	silent  bool // there is no answer
}

func refuse(code pulsarpb.ServerError, message string) *refusal {
	return &refusal{code: code, message: message}
}

func success(request uint64) *pulsarpb.BaseCommand {
	c := base(pulsarpb.BaseCommand_SUCCESS)
	c.Success = &pulsarpb.CommandSuccess{RequestId: proto.Uint64(request)}
	return c
}

func failure(request uint64, r *refusal) *pulsarpb.BaseCommand {
	c := base(pulsarpb.BaseCommand_ERROR)
	c.Error = &pulsarpb.CommandError{RequestId: proto.Uint64(request), Error: r.code.Enum(), Message: proto.String(r.message)}
	return c
}

func closeProducer(id uint64) *pulsarpb.BaseCommand {
	c := base(pulsarpb.BaseCommand_CLOSE_PRODUCER)
	c.CloseProducer = &pulsarpb.CommandCloseProducer{ProducerId: proto.Uint64(id), RequestId: proto.Uint64(unasked)}
	return c
}

func closeConsumer(id uint64) *pulsarpb.BaseCommand {
	c := base(pulsarpb.BaseCommand_CLOSE_CONSUMER)
	c.CloseConsumer = &pulsarpb.CommandCloseConsumer{ConsumerId: proto.Uint64(id), RequestId: proto.Uint64(unasked)}
	return c
}

func activeChange(id uint64, active bool) *pulsarpb.BaseCommand {
	c := base(pulsarpb.BaseCommand_ACTIVE_CONSUMER_CHANGE)
	c.ActiveConsumerChange = &pulsarpb.CommandActiveConsumerChange{ConsumerId: proto.Uint64(id), IsActive: proto.Bool(active)}
	return c
}

func reachedEnd(id uint64) *pulsarpb.BaseCommand {
	c := base(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
	c.ReachedEndOfTopic = &pulsarpb.CommandReachedEndOfTopic{ConsumerId: proto.Uint64(id)}
	return c
}

func sendError(id, sequence uint64, code pulsarpb.ServerError, message string) *pulsarpb.BaseCommand {
	c := base(pulsarpb.BaseCommand_SEND_ERROR)
	c.SendError = &pulsarpb.CommandSendError{ProducerId: proto.Uint64(id), SequenceId: proto.Uint64(sequence),
		Error: code.Enum(), Message: proto.String(message)}
	return c
}

func ackResponse(ack *pulsarpb.CommandAck, r *refusal) *pulsarpb.BaseCommand {
	c := base(pulsarpb.BaseCommand_ACK_RESPONSE)
	c.AckResponse = &pulsarpb.CommandAckResponse{ConsumerId: ack.ConsumerId, RequestId: ack.RequestId}
	if r != nil {
		c.AckResponse.Error, c.AckResponse.Message = r.code.Enum(), proto.String(r.message)
	}
	return c
}

func messageTo(consumer uint64, at Position) *frame.MessageCommand {
	return &frame.MessageCommand{ConsumerID: consumer, Ledger: at.Ledger, Entry: at.Entry, Partition: -1, BatchIndex: -1}
}
