package replicate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Forgetting is what geobridge made for a mapping, and what became of it.
type Forgetting struct {
	Mapping string `json:"mapping"`
	From    Ref    `json:"from"`
	To      Ref    `json:"to"`
	// Done: nothing of it is left. Else it is a plan.
	Done bool `json:"done"`
	// Attached says who serves the mapping, which forbids it.
	Attached []string  `json:"attached"`
	Things   []Removal `json:"things"`
	// Backlog is how many entries at the source were not copied, markers included.
	Backlog int64 `json:"backlog"`
	// Parked is how many entries are parked: they stay.
	Parked       int    `json:"parked"`
	ParkingTopic string `json:"parking_topic"`
}

// Removal is one thing that geobridge made.
type Removal struct {
	What    string `json:"what"` // subscription, guard, records, genesis
	Name    string `json:"name"`
	Topic   string `json:"topic"`
	Cluster string `json:"cluster"`
	Detail  string `json:"detail,omitempty"`
	There   bool   `json:"there"` // it was
}

// Nothing reports whether nothing was there.
func (f *Forgetting) Nothing() bool {
	for _, t := range f.Things {
		if t.There {
			return false
		}
	}
	return true
}

// Forget removes what geobridge made for the mapping, so that its next start is
// that of a new one; without yes it only says what that is. The report is there
// whenever both clusters could be asked, also where the answer is no (Refused).
//
// The order of the steps: nobody is attached, and no lane can open (takeAll). Both
// geneses say that the mapping is being forgotten: from here on a start is refused,
// whatever is missing, until a second Forget has come to the end. The subscription
// goes before the records: without them, a lane that opened after all would begin
// again at the earliest entry that the subscription holds. The geneses go last, that
// of the parking topic at the very end.
func (u *Upkeep) Forget(ctx context.Context, yes bool) (*Forgetting, error) {
	end, err := u.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	s, err := u.look(ctx)
	if err != nil {
		return nil, err
	}
	f, err := u.forgetting(ctx, &s)
	if err != nil {
		return nil, err
	}
	if err := u.ours(&s); err != nil {
		return f, err
	}
	if len(f.Attached) > 0 {
		return f, refuseAttached(f.Attached)
	}
	if !yes {
		return f, nil
	}
	if !f.Nothing() {
		if err := u.forget(ctx, &s); err != nil {
			return f, err
		}
	}
	f.Done = true
	return f, nil
}

// forgetting describes what there is.
func (u *Upkeep) forgetting(ctx context.Context, s *scene) (*Forgetting, error) {
	env := u.env
	g := env.genesis()
	f := &Forgetting{
		Mapping: env.Mapping, From: g.Source, To: g.Target, Attached: append([]string{}, s.attached(env)...),
		Backlog: s.subscription.Backlog, ParkingTopic: env.ParkingTopic,
	}
	holding := func(what, name string, side Side, h Holding) {
		detail := ""
		if h.There {
			detail = fmt.Sprintf("on %d segments, a backlog of %d entries", h.Segments, h.Backlog)
			if !h.Recorded {
				detail += ", not recorded"
			}
		}
		f.Things = append(f.Things, Removal{what, name, side.Topic, side.Cluster, detail, h.There})
	}
	holding("subscription", env.Subscription, env.Source, s.subscription)
	holding("guard", GuardName(env.Subscription), env.Target, s.guard)
	f.Things = append(f.Things,
		Removal{"records", "", env.CheckpointTopic, env.Target.Cluster, fmt.Sprintf("of %d lanes", len(s.records)), len(s.records) > 0},
		Removal{"genesis", g.Key(), env.CheckpointTopic, env.Target.Cluster, begun(s.atTarget), s.atTarget != nil},
		Removal{"genesis", g.Key(), env.ParkingTopic, env.Source.Cluster, begun(s.atSource), s.atSource != nil})
	if !s.parking {
		return f, nil
	}
	var err error
	f.Parked, err = u.parked(ctx)
	return f, err
}

func begun(g *Genesis) string {
	switch {
	case g == nil:
		return ""
	case g.Forgetting:
		return "an earlier forget has not come to its end"
	}
	return "of " + time.UnixMilli(g.CreatedMs).UTC().Format(time.RFC3339)
}

// parked counts the mapping's parked entries. What was dropped is an empty entry.
func (u *Upkeep) parked(ctx context.Context) (int, error) {
	pieces := map[string]bool{}
	err := scanWhole(ctx, u.env.Source.Client, u.env.ParkingTopic, func(m pulsar.Message) bool {
		key := string(m.Info.PartitionKey)
		if len(m.Entry.Payload) == 0 {
			delete(pieces, key)
		} else if strings.HasPrefix(key, "parked/") && u.parkedFor(m.Entry.Metadata) {
			pieces[key] = true
		}
		return true
	})
	entries := map[string]bool{}
	for key := range pieces {
		entries[key[:strings.LastIndexByte(key, '/')]] = true
	}
	return len(entries), err
}

func (u *Upkeep) parkedFor(metadata []byte) bool {
	var md pulsarpb.MessageMetadata
	if proto.Unmarshal(metadata, &md) != nil {
		return false
	}
	for _, p := range md.GetProperties() {
		if p.GetKey() == "mapping" {
			return p.GetValue() == u.env.Mapping
		}
	}
	return false
}

// forget carries it out.
func (u *Upkeep) forget(ctx context.Context, s *scene) error {
	env := u.env
	u.tell("taking the lanes, so that none opens")
	grips, release, err := u.takeAll(ctx, s)
	if err != nil {
		return err
	}
	defer release()
	if err := u.hold(ctx, s); err != nil { // again: nobody came meanwhile
		return err
	}
	if who := s.attached(env); len(who) > 0 {
		return refuseAttached(who)
	}
	if err := u.mark(ctx, s); err != nil {
		return err
	}
	if err := u.unsubscribe(ctx, s); err != nil {
		return err
	}
	for id, g := range grips {
		if g.record == nil {
			continue
		}
		u.tell("dropping the record of source segment %d", id.Segment)
		if err := g.drop(ctx); err != nil {
			return fmt.Errorf("record of source segment %d on %s: %w", id.Segment, env.CheckpointTopic, err)
		}
	}
	if s.atTarget != nil {
		u.tell("dropping the genesis on %s", env.CheckpointTopic)
		if err := u.write(ctx, env.Target.Client, env.CheckpointTopic, nil); err != nil {
			return err
		}
	}
	if s.atSource != nil {
		u.tell("dropping the genesis on %s", env.ParkingTopic)
		return u.write(ctx, env.Source.Client, env.ParkingTopic, nil)
	}
	return nil
}

// mark says in both geneses that the mapping is being forgotten.
func (u *Upkeep) mark(ctx context.Context, s *scene) error {
	u.tell("marking the mapping as being forgotten: from here on a start is refused until this has come to its end")
	if s.atTarget != nil {
		s.atTarget.Forgetting = true
		if err := u.write(ctx, u.env.Target.Client, u.env.CheckpointTopic, s.atTarget.Encode()); err != nil {
			return err
		}
	}
	if s.atSource != nil {
		u.tell("marking it on %s, too", u.env.ParkingTopic)
		s.atSource.Forgetting = true
		return u.write(ctx, u.env.Source.Client, u.env.ParkingTopic, s.atSource.Encode())
	}
	return nil
}

// write appends an entry under the genesis' key, under the name of whoever writes one.
func (u *Upkeep) write(ctx context.Context, client *pulsar.Client, topic string, value []byte) error {
	key := u.env.genesis().Key()
	w, err := openWriter(ctx, client, topic, hashed([]byte(key)))
	if errors.Is(err, pulsar.ErrProducerBusy) {
		return refusal{fmt.Sprintf("an instance that starts writes its genesis to %s: %s", topic, remedy)}
	}
	if err == nil {
		defer w.close()
		if _, err = w.barrier(ctx); err == nil {
			err = w.append(ctx, key, value)
		}
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", topic, err)
	}
	return nil
}

// unsubscribe deletes the subscription and the guard, and looks whether they are
// gone: of one that somebody attached to meanwhile, brokers delete only the record.
func (u *Upkeep) unsubscribe(ctx context.Context, s *scene) error {
	env, guard := u.env, GuardName(u.env.Subscription)
	if s.subscription.There {
		u.tell("deleting subscription %s on %s", env.Subscription, env.Source.Key)
		if err := u.source.DeleteSubscription(ctx, env.Source.Topic, env.Subscription); err != nil {
			return err
		}
	}
	if s.guard.There {
		u.tell("deleting guard %s on %s", guard, env.Target.Key)
		if err := u.target.DeleteSubscription(ctx, env.Target.Topic, guard); err != nil {
			return err
		}
	}
	if err := u.hold(ctx, s); err != nil {
		return err
	}
	switch {
	case s.subscription.There:
		return refusal{fmt.Sprintf("subscription %s on %s is there again: somebody attached to it meanwhile: %s, and run this again", env.Subscription, env.Source.Key, remedy)}
	case s.guard.There:
		return refusal{fmt.Sprintf("guard %s on %s is there again: somebody attached to it meanwhile: %s, and run this again", guard, env.Target.Key, remedy)}
	}
	return nil
}
