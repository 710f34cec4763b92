package replicate

import (
	"errors"
	"slices"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/reroute"
)

// Rules are a mapping's choices that decide what becomes of an entry.
type Rules struct {
	SourceCluster, TargetCluster string // as Pulsar names them
	Lane                         string // N(L)
	SplitMessages                bool   // split: message
	OriginalProducer             bool   // producer_name: original
	ForwardReplicated            bool
}

// cutter turns source entries into parts. It is pure, but for the memory that
// it uses again; it is not safe for concurrent use.
type cutter struct {
	rules   Rules
	source  reroute.Source
	maxSize int // the most that metadata and payload of one target entry may take, in bytes

	id, origin, name []byte // memory of the last patch
}

// cuts is what became of one entry under one layout.
type cuts struct {
	parts   []*part
	poison  []poison
	outcome Outcome
	opened  bool // decompressed for this
}

// verdict is what an entry's metadata alone says.
type verdict int

const (
	verdictRoute verdict = iota
	verdictSkip
	verdictHold // the lane must not go past it
)

// judge decides by the metadata whether the entry is for the target at all.
// Markers are never delivered by a broker; one that is, is not for applications.
func (c *cutter) judge(e *entry) (verdict, string) {
	if e.bad != nil {
		return verdictRoute, ""
	}
	in := &e.info
	if reason, skip := c.rules.Skips(in, e.raw.Metadata); skip {
		return verdictSkip, reason
	}
	switch {
	case in.Chunked:
		return verdictHold, "chunked messages are not yet supported"
	case in.HasSchemaVersion:
		return verdictHold, "messages with a schema version are not yet supported"
	}
	return verdictRoute, ""
}

// Skips reports whether an entry is not for the target, and why: what the label
// reason of entries_total says, nothing for a marker. in is the scan of metadata.
func (r *Rules) Skips(in *frame.Info, metadata []byte) (reason string, skip bool) {
	switch {
	case in.HasMarker:
		return "", true
	case in.HasReplicatedFrom && !r.forwards(in):
		return "replicated_from", true
	case in.HasReplicateTo && !r.addressed(metadata):
		return "replicate_to", true
	}
	return "", false
}

// forwards reports whether an entry that was replicated before goes on.
func (r *Rules) forwards(in *frame.Info) bool {
	return r.ForwardReplicated && string(in.ReplicatedFrom) != r.TargetCluster &&
		!slices.Contains(pathOf(in), r.TargetCluster)
}

// addressed reports whether replicate_to is empty or names the target.
func (r *Rules) addressed(metadata []byte) bool {
	any, found := false, false
	frame.ReplicateTo(metadata, func(cluster []byte) bool {
		any = true
		found = string(cluster) == r.TargetCluster
		return !found
	})
	return found || !any
}

func pathOf(in *frame.Info) []string {
	if in.Identity == nil {
		return nil
	}
	id, err := ParseIdentity(in.Identity)
	if err != nil {
		return nil // not one of ours: an application's property of that name
	}
	return id.Path
}

// cut routes the entry, or those of its messages that include names, under the
// layout: design 2, Routing.
func (c *cutter) cut(l *reroute.Layout, e *entry, include []int) cuts {
	switch {
	case e.bad != nil:
		return cuts{poison: []poison{{entry: e, reason: "undecodable", err: e.bad}}, outcome: Outcome{outcomeParked, "undecodable"}}
	case !e.info.Batch:
		return c.single(l, e)
	}
	// A batch that counts itself as nothing is what only opening can judge.
	if seg, ok := l.Whole(c.source, e.stamp()); ok && include == nil && e.info.NumMessages > 0 {
		if p := c.wholePart(e, seg, reroute.Stamp{}, false); p.size <= c.maxSize {
			return cuts{parts: []*part{p}, outcome: Outcome{outcomeWhole, "stamp"}}
		} else if e.info.Encrypted {
			return cuts{poison: []poison{{entry: e, reason: "too_large", err: errTooLarge}}, outcome: Outcome{outcomeParked, "too_large"}}
		}
	}
	return c.opened(l, e, include)
}

// single routes an entry of one message by its own cleartext key.
func (c *cutter) single(l *reroute.Layout, e *entry) cuts {
	seg, _, stamp := l.Place(e.key(), l.Keyless(c.source.Range, turn(e)))
	p := c.wholePart(e, seg, stamp, !e.stamp().Valid)
	if p.size > c.maxSize {
		return cuts{poison: []poison{{entry: e, reason: "too_large"}}, outcome: Outcome{outcomeParked, "too_large"}}
	}
	return cuts{parts: []*part{p}, outcome: Outcome{outcomeWhole, "single"}}
}

// turn spreads keyless messages over the overlapped segments, by entry.
func turn(e *entry) uint64 { return uint64(e.pos.Entry) }

// opened routes a batch by the keys of its messages.
func (c *cutter) opened(l *reroute.Layout, e *entry, include []int) cuts {
	if e.info.Encrypted {
		return cuts{poison: []poison{{entry: e, reason: "encrypted"}}, outcome: Outcome{outcomeParked, "encrypted"}}
	}
	first := e.batch == nil
	if err := e.open(); err != nil {
		return cuts{poison: []poison{{entry: e, reason: "undecodable", err: err}}, outcome: Outcome{outcomeParked, "undecodable"}, opened: first}
	}
	groups := l.Cut(e.keys, include, l.Keyless(c.source.Range, turn(e)))
	out := cuts{opened: first}
	if len(groups) == 1 && include == nil {
		g := groups[0]
		// A stamp that is true but not tight may name a bucket beside the one that
		// the keys are in, and brokers dispatch by it.
		fits := e.stamp().Valid && g.Segment.BucketRange(g.Bucket).Covers(reroute.HashRange{Start: e.stamp().Min, End: e.stamp().Max})
		p := c.wholePart(e, g.Segment, g.Stamp, !fits)
		if p.size <= c.maxSize {
			out.parts, out.outcome = []*part{p}, Outcome{outcomeWhole, "opened"}
			return out
		}
	}
	out.outcome = Outcome{outcomeSplit, "bucket"}
	for _, g := range groups {
		if g.Segment != groups[0].Segment {
			out.outcome.Reason = "segment"
		}
		if c.rules.SplitMessages {
			for _, i := range g.Indices {
				c.build(&out, e, g, []int{i})
			}
			continue
		}
		c.build(&out, e, g, g.Indices)
	}
	if len(out.parts) == 0 {
		out.outcome = Outcome{outcomeParked, out.poison[0].reason}
	}
	return out
}

// build makes one part of the messages, or several where one would be larger
// than the target takes; a message that is itself too large is parked.
func (c *cutter) build(out *cuts, e *entry, g reroute.Part, indices []int) {
	stamp := reroute.Stamp{}
	for _, i := range indices {
		stamp = stamp.Extend(e.keys[i].Hash().Bucket)
	}
	patch := c.patch(e, indices, stamp, true)
	var md, payload []byte
	var err error
	if c.rules.SplitMessages {
		md, payload, err = e.batch.Single(e.raw.Metadata, &e.info, indices[0], &patch)
	} else {
		md, payload, err = e.batch.Rebatch(e.raw.Metadata, &e.info, indices, &patch)
	}
	switch {
	case err != nil:
		out.poison = append(out.poison, poison{entry: e, indices: indices, reason: "undecodable", err: err})
	case len(md)+len(payload) <= c.maxSize:
		out.parts = append(out.parts, &part{entry: e, segment: g.Segment, indices: indices, stamp: stamp,
			metadata: md, payload: payload, messages: len(indices), size: len(md) + len(payload)})
	case len(indices) == 1:
		out.poison = append(out.poison, poison{entry: e, indices: indices, reason: "too_large", err: errTooLarge})
	default:
		half := len(indices) / 2
		c.build(out, e, g, indices[:half])
		c.build(out, e, g, indices[half:])
	}
}

var errTooLarge = errors.New("larger than the target's maximum message size")

func (c *cutter) wholePart(e *entry, seg *reroute.Segment, stamp reroute.Stamp, setStamp bool) *part {
	return &part{entry: e, segment: seg, stamp: stamp, setStamp: setStamp,
		messages: e.messages(), size: e.raw.Size() + c.growth(e)}
}

// growth bounds what patching adds to an entry's metadata, in bytes.
func (c *cutter) growth(e *entry) int {
	const fixed = 160 // tags, lengths, stamp, property key, and the identity's numbers
	path := 0
	if e.info.Identity != nil {
		path = len(e.info.Identity)
	}
	return fixed + len(c.rules.Lane) + 4*len(c.rules.SourceCluster) + path
}

// patch says what changes in the metadata: the table Fidelity of design 2. The
// slices in it are the cutter's own, until the next call.
func (c *cutter) patch(e *entry, indices []int, stamp reroute.Stamp, setStamp bool) frame.Patch {
	var p frame.Patch
	if !bare {
		c.id = c.appendIdentity(c.id[:0], e, indices)
		p.Identity = c.id
	}
	if !e.info.HasReplicatedFrom {
		c.origin = append(c.origin[:0], c.rules.SourceCluster...)
		p.ReplicatedFrom = c.origin
		if !c.rules.OriginalProducer {
			c.name = append(append(c.name[:0], e.info.ProducerName...), '@')
			c.name = append(c.name, c.rules.SourceCluster...)
			p.ProducerName = c.name
		}
	}
	if setStamp && stamp.Valid {
		p.SetStamp, p.HashMin, p.HashMax = true, uint32(stamp.Min), uint32(stamp.Max)
	}
	return p
}

// appendIdentity says which messages of which entry a part holds, and adds the
// source to the clusters that the entry has passed.
func (c *cutter) appendIdentity(dst []byte, e *entry, indices []int) []byte {
	id := Identity{Cluster: c.rules.SourceCluster, Lane: c.rules.Lane, Pos: e.pos, Indices: indices, Total: e.messages()}
	dst = id.appendHead(dst)
	for _, cluster := range pathOf(&e.info) {
		dst = append(append(dst, cluster...), ',')
	}
	return append(dst, c.rules.SourceCluster...)
}
