package replicate

import (
	"fmt"
	"strings"
)

// tell logs what a session was told and what it asked for. Of one schedule that is
// all there is to read.
func (w *world) tell(h *holder, ev Event, effects []Effect) {
	if !w.trace {
		return
	}
	var out []string
	for _, ef := range effects {
		out = append(out, effectText(ef))
	}
	w.t.Logf("%5d instance %d segment %d: %s → %v: %s", w.steps, h.in.id, h.seg.id, eventText(ev), h.m.State(), strings.Join(out, ", "))
}

// note logs what a broker, or a fault, does.
func (w *world) note(format string, args ...any) {
	if w.trace {
		w.t.Logf("%5d    %s", w.steps, fmt.Sprintf(format, args...))
	}
}

func eventText(ev Event) string {
	names := map[EventKind]string{
		evSubscribed: "subscribed", evActive: "active", evInactive: "inactive", evParentsDone: "parents done",
		evRecordStored: "record stored", evCheckpointLost: "checkpoint lost", evSealed: "sealed", evAcked: "acked", evSourceClosed: "source closed",
		evTick: "tick", evStop: "stop", evStalled: "stalled", evFailed: "failed", evCheckpointTrouble: "checkpoint busy",
	}
	switch ev.Kind {
	case evCheckpointClaimed:
		if ev.Record == nil {
			return "checkpoint claimed, no record"
		}
		return fmt.Sprintf("checkpoint claimed gen %d, record %s, mark %d", ev.Gen, recordText(*ev.Record), ev.Pos.Entry)
	case evEntry:
		return fmt.Sprintf("entry %d", ev.Entry.pos.Entry)
	case evBacklog:
		return fmt.Sprintf("backlog %d", ev.N)
	case evLayout:
		return fmt.Sprintf("layout %d", ev.Layout.Epoch)
	case evClaimed:
		return fmt.Sprintf("claimed %d gen %d at %v", ev.Target.Segment, ev.Gen, ev.Pos)
	case evEnded:
		return fmt.Sprintf("ended %d gen %d", ev.Target.Segment, ev.Gen)
	case evScanned:
		text := fmt.Sprintf("scanned %d gen %d, begins %v:", ev.Target.Segment, ev.Gen, ev.Pos)
		for _, f := range ev.Found {
			text += fmt.Sprintf(" %d[%s]@%v", f.source.Entry, appendIndices(nil, f.indices), f.at)
		}
		return text
	case evGone:
		return fmt.Sprintf("gone %d gen %d", ev.Target.Segment, ev.Gen)
	case evReceipt:
		return fmt.Sprintf("receipt %d gen %d seq %d at %v", ev.Target.Segment, ev.Gen, ev.Seq, ev.Pos)
	case evDoubt:
		return fmt.Sprintf("doubt %d gen %d", ev.Target.Segment, ev.Gen)
	case evTargetTrouble:
		return fmt.Sprintf("busy %d gen %d", ev.Target.Segment, ev.Gen)
	}
	return names[ev.Kind]
}
