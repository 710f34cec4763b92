package replicate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// The names and formats in this file are final: a later release must find what
// an earlier one wrote.

// Position is the place of an entry in a segment.
type Position = pulsar.MessageID

// LaneID says which stream of entries a lane carries. Neither the instance nor
// the mapping's name is part of it: both may change under a running copy.
type LaneID struct {
	Subscription  string `json:"subscription"`
	SourceCluster string `json:"source_cluster"`
	SourceTopic   string `json:"source_topic"`
	Segment       uint64 `json:"segment"`
	CreatedAtMs   int64  `json:"created_at_ms"`
	TargetCluster string `json:"target_cluster"`
	TargetTopic   string `json:"target_topic"`
}

// Name returns N(L): the name of all producers of the lane, and the key of its
// record: 128 bits of SHA-256 over the canonical JSON (fields in the order of
// the struct, no white space).
func (l LaneID) Name() string {
	canonical, err := json.Marshal(l)
	if err != nil { // strings and integers only
		panic(err)
	}
	return hashed(canonical)
}

// hashed is a producer's name for what b says: 128 bits of SHA-256.
func hashed(b []byte) string {
	sum := sha256.Sum256(b)
	return "geobridge-" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// GuardName is the subscription that keeps the evidence of a mapping's lanes
// in the segments of its target topic.
func GuardName(subscription string) string { return "geobridge-guard." + subscription }

// CheckpointTopic is where a group keeps its records, on the target cluster.
func CheckpointTopic(namespace, group string) string {
	return "persistent://" + namespace + "/__geobridge." + group + ".checkpoint"
}

// ParkingTopic is where a group keeps its geneses and parked entries, on the
// source cluster.
func ParkingTopic(namespace, group string) string {
	return "persistent://" + namespace + "/__geobridge." + group + ".parking"
}

// HoldSubscription keeps a group's own regular topics and what they hold.
const HoldSubscription = "geobridge-hold"

// Identity says which messages of which source entry a published entry holds.
// It is the value of the property __geobridge_source.
type Identity struct {
	Cluster string // of the source, as Pulsar names it
	Lane    string // N(L)
	Pos     Position
	Indices []int    // message indices, ascending; nil: all
	Total   int      // messages in the source entry
	Path    []string // clusters passed, oldest first
}

// Append appends the identity in its final form:
// 1;<cluster>;<N(L)>;<ledger>:<entry>;<* or 0-3,7>;<total>;<path>.
func (id Identity) Append(dst []byte) []byte {
	return append(id.appendHead(dst), strings.Join(id.Path, ",")...)
}

// appendHead appends all but the path.
func (id *Identity) appendHead(dst []byte) []byte {
	dst = append(dst, "1;"...)
	dst = append(dst, id.Cluster...)
	dst = append(dst, ';')
	dst = append(dst, id.Lane...)
	dst = append(dst, ';')
	dst = strconv.AppendInt(dst, id.Pos.Ledger, 10)
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, id.Pos.Entry, 10)
	dst = append(dst, ';')
	dst = appendIndices(dst, id.Indices)
	dst = append(dst, ';')
	dst = strconv.AppendInt(dst, int64(id.Total), 10)
	return append(dst, ';')
}

func appendIndices(dst []byte, indices []int) []byte {
	if indices == nil {
		return append(dst, '*')
	}
	for i := 0; i < len(indices); {
		j := i
		for j+1 < len(indices) && indices[j+1] == indices[j]+1 {
			j++
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(indices[i]), 10)
		if j > i {
			dst = append(dst, '-')
			dst = strconv.AppendInt(dst, int64(indices[j]), 10)
		}
		i = j + 1
	}
	return dst
}

// maxTotal bounds what ParseIdentity expands: no batch holds more messages.
const maxTotal = 1 << 20

// ParseIdentity reads what Append wrote.
func ParseIdentity(value []byte) (Identity, error) { return ParseIdentityInto(nil, value) }

// ParseIdentityInto does so for who reads very many: its Indices use the memory of
// the given ones.
func ParseIdentityInto(indices []int, value []byte) (Identity, error) {
	f := make([]string, 0, 7)
	for field := range strings.SplitSeq(string(value), ";") {
		f = append(f, field)
	}
	if len(f) != 7 || f[0] != "1" {
		return Identity{}, fmt.Errorf("identity %q: want 1;cluster;lane;ledger:entry;indices;total;path", value)
	}
	pos, err := pulsar.ParseMessageID(f[3])
	if err != nil {
		return Identity{}, fmt.Errorf("identity %q: %w", value, err)
	}
	total, err := strconv.Atoi(f[5])
	if err != nil || total < 1 || total > maxTotal {
		return Identity{}, fmt.Errorf("identity %q: bad total", value)
	}
	indices, err = parseIndices(indices, f[4], total)
	if err != nil {
		return Identity{}, fmt.Errorf("identity %q: %w", value, err)
	}
	id := Identity{Cluster: f[1], Lane: f[2], Pos: pos, Indices: indices, Total: total}
	if f[6] != "" {
		id.Path = strings.Split(f[6], ",")
	}
	return id, nil
}

func parseIndices(indices []int, s string, total int) ([]int, error) {
	if s == "*" {
		return nil, nil
	}
	if indices == nil {
		indices = []int{}
	}
	indices = indices[:0]
	next := 0
	for more := true; more; {
		var run string
		run, s, more = strings.Cut(s, ",")
		from, rest, ok := leadingIndex(run)
		if !ok || rest != "" && rest[0] != '-' {
			return nil, fmt.Errorf("bad index %q", run)
		}
		to := from
		if rest != "" {
			if to, rest, ok = leadingIndex(rest[1:]); !ok || rest != "" {
				return nil, fmt.Errorf("bad range %q", run)
			}
		}
		if from < next || to < from || to >= total {
			return nil, fmt.Errorf("range %q is not ascending within %d messages", run, total)
		}
		for i := from; i <= to; i++ {
			indices = append(indices, i)
		}
		next = to + 1
	}
	return indices, nil
}

// leadingIndex reads the digits that s begins with, as far as they make an index.
func leadingIndex(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && n <= maxTotal && s[i] >= '0' && s[i] <= '9' {
		n = 10*n + int(s[i]-'0')
		i++
	}
	return n, s[i:], i > 0
}
