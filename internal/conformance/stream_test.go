package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func streamScenarios() []Scenario {
	return []Scenario{
		{Name: "StreamAlone", Facts: []string{"3.1", "3.2"}, Run: streamAlone},
		{Name: "StreamAfterSplit", Facts: []string{"3.2", "3.3", "3.4"}, Run: streamAfterSplit},
		{Name: "StreamAfterMerge", Facts: []string{"3.3"}, Run: streamAfterMerge},
		{Name: "DrainPollSlowsDown", Facts: []string{"0.7", "3.4"}, Alone: true, Run: drainPollSlowsDown},
		{Name: "StreamKeepsData", Facts: []string{"3.5"}, Run: streamKeepsData},
		{Name: "StreamSeveral", Facts: []string{"4.1", "4.2", "4.7"}, Run: streamSeveral},
		{Name: "StreamGrace", Facts: []string{"4.7"}, Run: streamGrace},
		{Name: "TakeOverBug", Facts: []string{"0.6", "4.4"}, Run: takeOverBug},
		{Name: "AutoRebucket", Facts: []string{"4.8"}, Run: autoRebucket},
	}
}

// A sole consumer gets whole segments. Its registration makes no cursor and no topic; its
// SUBSCRIBE makes the cursor.
func streamAlone(t *T) {
	topic := t.Scalable("t", 2)
	w := t.Connect(0)
	a := w.Register(topic.Topic(), "s", "a", 1)
	if share(a) != "0 1" || a.GetLayoutEpoch() != 0 {
		t.Errorf("assigned: %v", a)
	}
	for _, s := range a.GetSegments() {
		if s.GetSegmentTopic() != t.Segment(topic, int64(s.GetSegmentId())) || s.GetHashStart() != uint32(s.GetSegmentId())<<15 || s.GetHashEnd() != uint32(s.GetSegmentId())<<15+0x7fff {
			t.Errorf("assigned: %v", s)
		}
	}
	if _, err := t.Rig.SegmentBacklog(t.Context(), topic, 0, "s"); err == nil {
		t.Error("registering made a cursor")
	}
	w = t.At(t.Segment(topic, 0))
	w.Subscribe(t.Segment(topic, 0), 2, "s", exclusive)
	if _, err := t.Rig.SegmentBacklog(t.Context(), topic, 0, "s"); err != nil {
		t.Errorf("SUBSCRIBE made no cursor: %v", err)
	}
	missing := t.Name("missing")
	if r := t.Connect(0).Ask(register(missing.Topic(), "s", "a", 1)).GetScalableTopicSubscribeResponse(); r.Error == nil || r.Assignment != nil {
		t.Errorf("registration at a missing topic: %v", r)
	}
	if exists, err := t.Rig.Exists(t.Context(), missing); exists || err != nil {
		t.Errorf("registration made the topic: %v, %v", exists, err)
	}
}

// After a split, children come when the parent is drained, and the parent goes with the same
// update. Their cursors begin at the earliest, whatever is asked for. A new group begins with
// the sealed parent.
func streamAfterSplit(t *T) {
	topic := t.Scalable("t", 1)
	parent := t.Segment(topic, 0)
	at := t.StoreAll(parent, 3)
	w := t.Connect(0)
	w.Register(topic.Topic(), "s", "a", 1)
	c := t.At(parent)
	c.Subscribe(parent, 2, "s", exclusive)
	c.Flow(2, 10)
	c.Texts(2, 3)
	t.Hold() // the later a parent is drained, the longer nobody looks
	t.Must(t.Rig.Split(t.Context(), topic, 0))
	u := w.ExpectThat("the parent in the new epoch", assigned(1, func(a *pulsarpb.ScalableConsumerAssignment) bool { return a.GetLayoutEpoch() == 1 }))
	if a := u.Command.GetScalableTopicAssignmentUpdate().GetAssignment(); share(a) != "0" {
		t.Errorf("assigned: %v", a)
	}
	t.StoreAll(t.Segment(topic, 1), 3)
	if a := t.Connect(0).Register(topic.Topic(), "new", "b", 1); share(a) != "0" {
		t.Errorf("a new group is assigned %v", a)
	}
	w.NotAssigned(1, "0")
	if r := c.Ack(2, at[2]); r.Error != nil {
		t.Errorf("ack: %v", r)
	}
	c.Expect(pulsarpb.BaseCommand_REACHED_END_OF_TOPIC)
	w.Assigned(1, "1 2")
	child := t.At(t.Segment(topic, 1))
	child.Subscribe(t.Segment(topic, 1), 3, "s", exclusive, fromLatest)
	child.Flow(3, 10)
	if got := child.Texts(3, 3); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("of the child: %v", got)
	}
}

// After a merge, the parent that is drained first goes first; the child comes after both. One
// that was never written to is passed over.
func streamAfterMerge(t *T) {
	topic := t.Scalable("t", 2)
	var readers []*Wire
	var last []*pulsarpb.MessageIdData
	w := t.Connect(0)
	w.Register(topic.Topic(), "s", "a", 1)
	for id := range 2 {
		segment := t.Segment(topic, int64(id))
		last = append(last, t.StoreAll(segment, 1)[0])
		r := t.At(segment)
		r.Subscribe(segment, 2, "s", exclusive)
		r.Flow(2, 10)
		r.Texts(2, 1)
		readers = append(readers, r)
	}
	t.Hold() // as after a split
	t.Must(t.Rig.Merge(t.Context(), topic, 0, 1))
	t.Must(t.Rig.Split(t.Context(), topic, 2)) // which nobody wrote to
	readers[0].Ack(2, last[0])
	w.Assigned(1, "1")
	w.NotAssigned(1, "1")
	readers[1].Ack(2, last[1])
	w.Assigned(1, "3 4")
}

// Whether a parent is drained is looked up less and less often. A new consumer makes it often
// again: a throw-away registration brings the children of what was drained later first.
func drainPollSlowsDown(t *T) {
	w := t.Connect(0)
	for try := range uint64(4) {
		if slow, quick, told := drained(t, w, try); told {
			if !quick.Before(slow) {
				t.Errorf("the children of the one with a new consumer came %v later", quick.Sub(slow))
			}
			return
		}
	}
	t.Error("no try was fast enough to tell anything")
}

// drained drains two parents between two polls, and says when their children came, the second
// one's after a throw-away registration; told is false where that came after the next poll.
func drained(t *T, w *Wire, try uint64) (slow, quick time.Time, told bool) {
	type group struct {
		topic  string
		reader *Wire
		last   *pulsarpb.MessageIdData
	}
	t.Hold() // the next poll must not come first
	defer t.Release()
	var groups []group
	began := time.Time{}
	for i, name := range []string{"slow", "quick"} {
		topic := t.Scalable(fmt.Sprint(name, try), 1)
		segment := t.Segment(topic, 0)
		last := t.StoreAll(segment, 1)[0]
		r := t.At(segment)
		w.Register(topic.Topic(), "s", "a", 10*try+uint64(i))
		r.Subscribe(segment, 1, "s", exclusive)
		r.Flow(1, 10)
		r.Texts(1, 1)
		if began.IsZero() {
			began = time.Now()
		}
		t.Must(t.Rig.Split(t.Context(), topic, 0))
		w.Assigned(10*try+uint64(i), "0")
		groups = append(groups, group{topic.Topic(), r, last})
	}
	t.Pass(7 * time.Second) // polls after 2 and 4 more seconds are past; the next one is 8 s later
	for _, g := range groups {
		g.reader.Ack(1, g.last)
	}
	w.Register(groups[1].topic, "s", "throw-away", 10*try+9)
	w.Unregister(10*try + 9)
	told = time.Since(began) < 12*time.Second
	quick, slow = w.Assigned(10*try+1, "1 2").At, w.Assigned(10*try, "1 2").At
	return slow, quick, told
}

// A registration keeps what its group has not acknowledged, attached or not, as long as it is
// there. UNSUBSCRIBE ends that.
func streamKeepsData(t *T) {
	kept, lost := t.Scalable("kept", 1), t.Scalable("lost", 1)
	w := t.Connect(0)
	for i, topic := range []string{kept.Topic(), lost.Topic()} {
		w.Register(topic, "s", "a", uint64(i))
		name := t.Name([]string{"kept", "lost"}[i])
		segment := t.Segment(name, 0)
		t.StoreAll(segment, 3)
		c := t.At(segment)
		c.Subscribe(segment, 2, "s", exclusive)
		c.Close()
		t.Must(t.Rig.Split(t.Context(), name, 0))
	}
	w.Unregister(1)
	t.Prune(t, kept.Topic(), lost.Topic())
	t.Pruned(lost)
	if _, there := t.Layout(kept).Segments["0"]; !there {
		t.Error("pruned although registered and undrained")
	}
}

// Segments go round; where there are too few of them, they are shared by their buckets, all
// told to each sharer; whoever is left gets nothing. Everybody is told at every change, before
// the one who leaves has the answer.
func streamSeveral(t *T) {
	topic := t.Scalable("t", 2) // two buckets each
	w := t.Connect(0)
	join := func(name string, id uint64, want string) *pulsarpb.ScalableConsumerAssignment {
		a := w.Register(topic.Topic(), "s", name, id)
		if share(a) != want || a.GetLayoutEpoch() != 0 {
			t.Errorf("%s is assigned %v, want %s", name, a, want)
		}
		return a
	}
	join("a", 1, "0 1")
	join("b", 2, "1")
	w.Assigned(1, "0")
	join("c", 3, "1")
	g := w.Assigned(1, "0/2")
	for _, s := range g.Command.GetScalableTopicAssignmentUpdate().GetAssignment().GetSegments() {
		if !equalRanges(s.GetBucketRanges(), tiles(32768)) {
			t.Errorf("shared by %v", s)
		}
	}
	w.Assigned(2, "0/2")
	join("d", 4, "1/2")
	w.Assigned(1, "0/2") // unchanged, and told
	w.Assigned(3, "1/2")
	join("e", 5, "")
	w.Unregister(77) // of nobody: answered well
	w.Alive()
	w.Unregister(5)
	w.Unregister(4)
	request := w.Start(unregister(3))
	first := w.ExpectThat("the peer's update or the answer", func(g Got) bool {
		u := g.Command.GetScalableTopicAssignmentUpdate()
		return g.Command.GetSuccess().GetRequestId() == request || u.GetConsumerId() == 2 && share(u.GetAssignment()) == "1"
	})
	if first.Type != pulsarpb.BaseCommand_SCALABLE_TOPIC_ASSIGNMENT_UPDATE {
		t.Errorf("first came %v", first)
	}
	w.Answer(request)
	w.Assigned(1, "0") // sole again: no ranges
}

func equalRanges(a, b []*pulsarpb.IntRange) bool {
	return slices.EqualFunc(a, b, func(a, b *pulsarpb.IntRange) bool { return a.GetStart() == b.GetStart() && a.GetEnd() == b.GetEnd() })
}

// A consumer whose connection ends stays registered for a time; then the others take over.
func streamGrace(t *T) {
	topic := t.Scalable("t", 2)
	a, b := t.Connect(0), t.Connect(0)
	a.Register(topic.Topic(), "s", "a", 1)
	b.Register(topic.Topic(), "s", "b", 2)
	a.Assigned(1, "0")
	since := time.Now()
	a.Close()
	b.NotAssigned(2, "1")
	t.Pass(t.Grace())
	g := b.Assigned(2, "0 1")
	if after := g.At.Sub(since); after < t.Grace()*9/10 {
		t.Errorf("after %v already", after)
	}
}

// A name that registers on a second connection gets its share; nobody tells the first. When
// that ends, the broker takes the consumer for lost: it is told nothing, and its share goes to
// others in the end. Registering again in time attaches it again.
func takeOverBug(t *T) {
	peer := t.Connect(0)
	var seconds []*Wire
	t.Hold() // the grace runs
	for i, name := range []string{"evicted", "kept"} {
		topic := t.Scalable(name, 2).Topic()
		first, second := t.Connect(0), t.Connect(0)
		first.Register(topic, "s", "a", 1)
		peer.Register(topic, "s", "b", uint64(i))
		first.Assigned(1, "0")
		if a := second.Register(topic, "s", "a", 1); share(a) != "0" {
			t.Errorf("at the take-over: %v", a)
		}
		first.NoneThat("a word", func(g Got) bool { return g.Type != pulsarpb.BaseCommand_SCALABLE_TOPIC_ASSIGNMENT_UPDATE })
		first.Close()
		second.Alive()
		seconds = append(seconds, second)
	}
	t.Pass(t.Grace() / 10)
	if a := seconds[1].Register(t.Name("kept").Topic(), "s", "a", 1); share(a) != "0" {
		t.Errorf("registered again: %v", a)
	}
	// A third consumer is news for all.
	for i, name := range []string{"evicted", "kept"} {
		peer.Register(t.Name(name).Topic(), "s", "c", uint64(10+i))
	}
	seconds[1].Assigned(1, "0/2")
	seconds[0].NoneThat("an assignment with a third consumer", assigned(1, func(a *pulsarpb.ScalableConsumerAssignment) bool { return share(a) == "0/2" }))
	t.Release()
	t.Pass(t.Grace())
	peer.Assigned(0, "0")
	peer.NoneThat("the eviction of the one that registered again", assigned(1, func(a *pulsarpb.ScalableConsumerAssignment) bool { return share(a) == "0" }))
}

// More consumers than buckets make the broker seal the segment; its successor has more of
// them, unless that was switched off.
func autoRebucket(t *T) {
	topic := t.Name("t")
	if a := t.REST(0, "PUT", "scalable/"+string(topic)+"?numInitialSegments=1", nil); a.Code/100 != 2 {
		t.Fatalf("%d %s", a.Code, a.Body)
	}
	w := t.Connect(0)
	w.Watch(topic.Topic(), 1)
	for id := range uint64(5) {
		w.Register(topic.Topic(), "s", string(rune('a'+id)), id)
	}
	dag := w.UpdateThat(1, "a layout with more buckets", func(u *pulsarpb.CommandScalableTopicUpdate) bool { return u.GetDag().GetEpoch() > 0 }).GetDag()
	if s := segmentOf(dag, 1); segmentOf(dag, 0).GetState() != pulsarpb.SegmentState_SEALED || len(s.GetEntryBucketSplits())+1 != 8 {
		t.Errorf("the layout: %v", dag)
	}
}
