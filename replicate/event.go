package replicate

import (
	"github.com/geobridge/geobridge/reroute"
)

// EventKind says what happened to a lane.
type EventKind int

// What can happen to a lane.
const (
	evSubscribed        EventKind = iota // attached to the source segment
	evActive                             // elected by the broker
	evInactive                           // another instance was elected
	evParentsDone                        // every parent is finished, or gone from the source layout
	evCheckpointClaimed                  // Record, or nil; Begun; Pos: where the source subscription stands
	evRecordStored                       // the last WriteRecord has its receipt
	evCheckpointLost                     // Err: the checkpoint producer died
	evEntry                              // Entry
	evSealed                             // the source segment takes no more entries
	evBacklog                            // N, Sealed, Early: the source's own figure, asked for while nothing was in flight; or Err
	evAcked                              // Err: the last Ack was answered
	evSourceClosed                       // Err: the source consumer died
	evLayout                             // Layout: of the target
	evTargetMissing                      // Err: the target topic does not exist
	evClaimed                            // Target, Pos (of the barrier), Seq (the next)
	evEnded                              // Target: terminated
	evScanned                            // Target, Gen, Found: all of this lane that is stored in the range asked for; Pos: the log begins after it
	evGone                               // Target: its topic does not exist
	evLooked                             // Hole: what was found in it
	evMark                               // Pos: where the source subscription stands
	evResume                             // an operator accepts what the lane holds for
	evReceipt                            // Target, Gen, Seq, Pos
	evDoubt                              // Target, Gen, Err: sends may or may not be stored
	evParkingTaken                       // Gen, Pos (of the barrier), Found: all of this lane that is parked in the range asked for
	evParkingLost                        // Gen, Err: its producer died
	evParked                             // Gen: the first entry without receipt
	evTargetTrouble                      // Target, Gen, Err: the claim failed and is tried again
	evCheckpointTrouble                  // Err: the same for the checkpoint
	evParkTrouble                        // Gen, Err: the same for the parking topic
	evTick                               // a checkpoint interval passed; Window
	evStalled                            // Err: nothing has moved for too long
	evStop                               // leave: drain and close
	evFailed                             // Err: something the lane cannot work without
	evNothing                            // for the driver only
	numEvents
)

// Event is one thing that happened. Which fields count depends on Kind.
type Event struct {
	Kind   EventKind
	Target TargetID
	Gen    int // of the claim the event belongs to
	Seq    uint64
	Pos    Position
	Window int // bytes
	N      int64
	Sealed bool // the source segment was sealed when N was asked for
	Early  bool // something was not acknowledged then
	Entry  *entry
	Record *Record
	Begun  bool // the checkpoint topic holds the genesis
	Layout *reroute.Layout
	Found  []found
	Hole   hole
	Err    error
}

// EffectKind says what the driver is to do.
type EffectKind int

// What a lane asks of its driver.
const (
	efClaimCheckpoint EffectKind = iota // → evCheckpointClaimed
	efWriteRecord                       // Record → evRecordStored
	efFlow                              // N permits
	efAck                               // Pos → evAcked
	efProbe                             // what is the sealed segment's backlog? → evBacklog
	efClaim                             // Target, Segment, Gen → evClaimed, evEnded or evGone
	efScan                              // Target, Segment, Gen, From, Pos (no position: to the end) → evScanned or evGone
	efLook                              // Hole → evLooked
	efGap                               // Reason, Why: source data is gone, N times; 0: it was counted before
	efSend                              // Target, Part
	efPresent                           // N messages were found stored
	efEvidenceLost                      // Target, Why: nothing tells any more what is stored there; N as in efGap
	efRelease                           // Target: close its producer
	efTakeParking                       // Gen, From (no position: nothing is looked for) → evParkingTaken
	efPark                              // Gen, Poison → evParked or evParkingLost
	efReceipted                         // Part is stored in Target at Pos
	efDone                              // Entry is complete
	efDrop                              // Entry was not begun, and is not needed any more
	efRerouted                          // N parts go out again under a newer layout
	efClose                             // the session is over: Result
)

// Effect is one thing to do. Which fields count depends on Kind.
type Effect struct {
	Kind    EffectKind
	Target  TargetID
	Segment *reroute.Segment
	Gen     int
	N       int
	From    Position
	Pos     Position
	Part    *part
	Entry   *entry
	Poison  poison
	Record  Record
	Result  Result
	Hole    hole
	Why     string
	Reason  string
}

// Result says how a session of a lane ended.
type Result struct {
	Finished bool      // the source segment was read to its end; the lane need not open again
	Clean    bool      // drained: all that was begun is complete, recorded and acknowledged
	Deposed  bool      // another holder has a newer epoch
	Bad      *Position // an entry whose bytes arrived damaged, to be read again; nil: none
	Err      error
}
