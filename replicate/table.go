package replicate

import "fmt"

// State is where a session of a lane stands.
type State int

// The states of a lane's session, in the order in which a healthy one passes them.
const (
	Attaching  State = iota // no source consumer yet
	Standby                 // attached; another instance is active
	Waiting                 // active; a parent segment is not finished
	Claiming                // takes the checkpoint, reads the record
	Recording               // writes the record under its own epoch
	Recovering              // takes the target segments that the record lists
	Running                 // copies
	Draining                // begun entries are brought to their end, nothing new is begun
	Settling                // the last record is on its way
	Parting                 // the last acknowledgement is on its way
	Closed                  // over
	numStates
)

func (s State) String() string {
	names := [numStates]string{"attaching", "standby", "waiting", "claiming", "recording",
		"recovering", "running", "draining", "settling", "parting", "closed"}
	return names[s]
}

type handler func(*Machine, Event)

type row struct {
	in   []State
	on   EventKind
	do   handler
	next []State // where do may lead; empty: stays
}

// table is every transition of a lane. An event that has no row in a state has
// no meaning there and changes nothing: evStop, once the lane drains.
func table() []row {
	open := []State{Claiming, Recording, Recovering, Running, Draining}
	held := []State{Recording, Recovering, Running, Draining, Settling, Parting}
	idle := []State{Attaching, Standby, Waiting, Claiming}
	return []row{
		// the source
		{[]State{Attaching}, evSubscribed, (*Machine).onSubscribed, []State{Standby, Waiting, Claiming}},
		{[]State{Attaching, Standby}, evActive, (*Machine).onActive, []State{Waiting, Claiming}},
		{[]State{Attaching, Standby}, evInactive, (*Machine).onPassive, nil},
		{idle, evParentsDone, (*Machine).onParentsDone, []State{Claiming}},
		{[]State{Waiting, Claiming}, evInactive, (*Machine).leave, []State{Closed}},
		{[]State{Recording, Recovering, Running}, evInactive, (*Machine).onHandOver, []State{Draining, Settling}},
		{[]State{Running}, evEntry, (*Machine).onEntry, []State{Draining, Settling}},
		{[]State{Running}, evMark, (*Machine).onMark, nil},
		{held, evLooked, (*Machine).onLooked, []State{Settling}},
		{[]State{Claiming, Recording, Recovering, Running}, evResume, (*Machine).onResume, []State{Draining, Settling, Closed}},
		{[]State{Running}, evBacklog, (*Machine).onBacklog, []State{Settling}},
		{[]State{Standby}, evBacklog, (*Machine).onOthersBacklog, nil},
		{allButClosed(), evSealed, (*Machine).onSealed, nil},
		{allButClosed(), evSourceClosed, (*Machine).onSourceClosed, []State{Draining, Settling, Closed}},

		// the checkpoint
		{[]State{Claiming}, evCheckpointClaimed, (*Machine).onFirstClaim, []State{Recording, Parting, Closed}},
		{held, evCheckpointLost, (*Machine).onCheckpointLost, []State{Closed}},
		{held, evCheckpointClaimed, (*Machine).onReclaim, []State{Closed}},
		{[]State{Recording}, evRecordStored, (*Machine).onOpened, []State{Recovering, Running}},
		{[]State{Recovering, Running, Draining}, evRecordStored, (*Machine).onRecordStored, []State{Running, Settling}},
		{[]State{Settling}, evRecordStored, (*Machine).onSettled, []State{Parting, Closed}},
		{[]State{Recovering, Running, Draining, Settling}, evAcked, (*Machine).onAcked, nil},
		{[]State{Parting}, evAcked, (*Machine).onLastAcked, []State{Closed}},

		// the target
		{allButClosed(), evLayout, (*Machine).onLayout, []State{Running, Settling}},
		{allButClosed(), evTargetMissing, (*Machine).onTargetMissing, []State{Closed}},
		{open, evClaimed, (*Machine).onClaimed, []State{Running}},
		{open, evEnded, (*Machine).onEnded, []State{Running, Settling}},
		{open, evScanned, (*Machine).onScanned, []State{Settling}},
		{open, evGone, (*Machine).onGone, []State{Running, Settling}},
		{open, evReceipt, (*Machine).onReceipt, []State{Settling}},
		{open, evDoubt, (*Machine).onDoubt, []State{Settling}},
		{open, evTargetTrouble, (*Machine).onTargetTrouble, nil},
		{allButClosed(), evCheckpointTrouble, (*Machine).onCheckpointTrouble, []State{Closed}},
		{[]State{Recovering, Running, Draining}, evParkTrouble, (*Machine).onParkTrouble, nil},
		{[]State{Recovering, Running, Draining}, evParkingTaken, (*Machine).onParkingTaken, nil},
		{[]State{Running, Draining}, evParkingLost, (*Machine).onParkingLost, nil},
		{[]State{Running, Draining}, evParked, (*Machine).onParked, []State{Settling}},

		// time and orders
		{[]State{Recovering, Running, Draining}, evTick, (*Machine).onTick, nil},
		{[]State{Standby, Running, Draining}, evStalled, (*Machine).onStalled, []State{Draining, Settling, Closed}},
		{idle, evStop, (*Machine).leave, []State{Closed}},
		{[]State{Recording, Recovering, Running}, evStop, (*Machine).onStop, []State{Draining, Settling}},
		{allButClosed(), evFailed, (*Machine).onFailed, []State{Closed}},
	}
}

func allButClosed() []State {
	all := make([]State, 0, numStates-1)
	for s := Attaching; s < Closed; s++ {
		all = append(all, s)
	}
	return all
}

type dispatch [numStates][numEvents]handler

// newDispatch turns the table into an index. Two rows for one state and event
// are a mistake in the table.
func newDispatch(rows []row) *dispatch {
	d := new(dispatch)
	for _, r := range rows {
		for _, s := range r.in {
			if d[s][r.on] != nil {
				panic(fmt.Sprintf("two rows for event %d in state %v", r.on, s))
			}
			d[s][r.on] = r.do
		}
	}
	return d
}
