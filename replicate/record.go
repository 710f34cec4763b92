package replicate

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/reroute"
)

// TargetID names one target segment for good: a recreated topic uses names and
// ids again, creation times tell them apart.
type TargetID struct {
	Segment     uint64 `json:"segment"`
	CreatedAtMs int64  `json:"created_at_ms"`
}

func targetID(s *reroute.Segment) TargetID {
	return TargetID{Segment: s.ID, CreatedAtMs: s.CreatedAtMs}
}

// Floor says that the lane's parts in a target segment, of source entries
// above the frontier, lie above Pos.
type Floor struct {
	Topic string `json:"topic"`
	TargetID
	Pos Position `json:"pos"`
	// Fresh: Pos is the claim's own barrier, and no part was sent above it.
	Fresh bool `json:"fresh,omitempty"`
}

// Record is what a lane remembers, one entry on the checkpoint topic under the
// key N(L); the newest one counts.
type Record struct {
	Version int `json:"v"` // 1
	// Epoch rises by one with each opening of the lane; the holder of an older
	// one is deposed.
	Epoch uint64 `json:"epoch"`
	// Frontier is the last source entry of the gapless prefix of complete ones.
	Frontier Position `json:"frontier"`
	// Clean: nothing above the frontier is stored at the target, or parked.
	Clean bool `json:"clean,omitempty"`
	// Finished: the sealed source segment was read to its end and all of it is complete.
	Finished bool    `json:"finished,omitempty"`
	Floors   []Floor `json:"floors,omitempty"`
	// Parked says that what was parked of entries above the frontier lies above this
	// position of the parking topic; nil: nothing was.
	Parked *Position `json:"parked,omitempty"`
	// Seen is the last entry that was delivered, where that is above the frontier.
	Seen *Position `json:"seen,omitempty"`
	// Passed: what was not delivered up to here was looked into.
	Passed *Position `json:"passed,omitempty"`
	// Lane says whose record it is, since the key cannot be read backwards: when
	// the segment has left the source, the record is dropped.
	Lane *LaneID `json:"lane,omitempty"`
}

// Encode returns the record's stored form.
func (r Record) Encode() []byte {
	r.Version = 1
	b, err := json.Marshal(r)
	if err != nil { // integers, strings and booleans only
		panic(err)
	}
	return b
}

// DecodeRecord reads a stored record.
func DecodeRecord(b []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("checkpoint record: %w", err)
	}
	if r.Version != 1 {
		return Record{}, fmt.Errorf("checkpoint record of version %d: this geobridge knows version 1", r.Version)
	}
	return r, nil
}

func (r *Record) floor(t TargetID) *Floor {
	i := slices.IndexFunc(r.Floors, func(f Floor) bool { return f.TargetID == t })
	if i < 0 {
		return nil
	}
	return &r.Floors[i]
}

func (r *Record) dropFloor(t TargetID) {
	r.Floors = slices.DeleteFunc(r.Floors, func(f Floor) bool { return f.TargetID == t })
}

// clone returns a copy that shares nothing with r.
func (r Record) clone() Record {
	r.Floors = slices.Clone(r.Floors)
	return r
}

// Genesis is written before a mapping's subscription is created, to the
// checkpoint topic and to the source's parking topic. Two deployments of the
// same names with different targets meet only at the source.
type Genesis struct {
	Version      int    `json:"v"` // 1
	Subscription string `json:"subscription"`
	Source       Ref    `json:"source"`
	Target       Ref    `json:"target"`
	Mapping      string `json:"mapping"`
	// ID is the same on both topics, and nobody else's.
	ID        string `json:"id"`
	CreatedMs int64  `json:"created_ms"`
	// Subscribed: the subscription exists since, so one that is missing was deleted.
	Subscribed bool `json:"subscribed,omitempty"`
	// Forgetting: `geobridge forget` has begun, and has not come to its end.
	Forgetting bool `json:"forgetting,omitempty"`
}

// Ref names a topic of a cluster.
type Ref struct {
	Cluster string `json:"cluster"`
	Topic   string `json:"topic"`
}

func (r Ref) String() string { return r.Topic + " on " + r.Cluster }

// Key is the genesis' message key on both topics.
func (g Genesis) Key() string { return "genesis/" + g.Source.Topic + "/" + g.Subscription }

// Encode returns the genesis' stored form.
func (g Genesis) Encode() []byte {
	g.Version = 1
	b, err := json.Marshal(g)
	if err != nil { // strings and integers only
		panic(err)
	}
	return b
}

// DecodeGenesis reads a stored genesis.
func DecodeGenesis(b []byte) (Genesis, error) {
	var g Genesis
	if err := json.Unmarshal(b, &g); err != nil {
		return Genesis{}, fmt.Errorf("genesis: %w", err)
	}
	if g.Version != 1 {
		return Genesis{}, fmt.Errorf("genesis of version %d: this geobridge knows version 1", g.Version)
	}
	return g, nil
}

// Agrees reports whether both describe the same copy. The mapping's name and
// the time do not count: a mapping can be renamed. The ids are for whoever has both.
func (g Genesis) Agrees(o Genesis) bool {
	return g.Subscription == o.Subscription && g.Source == o.Source && g.Target == o.Target
}

// noPosition sorts before every entry.
func noPosition() Position { return pulsar.MessageID{Ledger: -1, Entry: -1} }
