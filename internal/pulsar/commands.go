package pulsar

import (
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// command starts a command of type t.
func command(t pulsarpb.BaseCommand_Type) *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: t.Enum()}
}

func pingCommand() *pulsarpb.BaseCommand {
	cmd := command(pulsarpb.BaseCommand_PING)
	cmd.Ping = &pulsarpb.CommandPing{}
	return cmd
}

func pongCommand() *pulsarpb.BaseCommand {
	cmd := command(pulsarpb.BaseCommand_PONG)
	cmd.Pong = &pulsarpb.CommandPong{}
	return cmd
}

// wireID writes a position as the protocol does: −1 is the largest number.
func wireID(m MessageID) *pulsarpb.MessageIdData {
	return &pulsarpb.MessageIdData{
		LedgerId: proto.Uint64(uint64(m.Ledger)),
		EntryId:  proto.Uint64(uint64(m.Entry)),
	}
}

// position reads a position off the wire; numbers no ledger can have are −1.
func position(ledger, entry uint64) MessageID {
	return MessageID{signed(ledger), signed(entry)}
}

func signed(n uint64) int64 {
	if n > math.MaxInt64 {
		return -1
	}
	return int64(n)
}

// refusal is the error a response carries, nil if it carries none.
func refusal(code *pulsarpb.ServerError, message string) error {
	if code == nil {
		return nil
	}
	return &ServerError{Code: *code, Message: message}
}
