package pulsartest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/auth"
	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// last is the entry that GET_LAST_MESSAGE_ID tells consumer 1, and where its mark is.
func (c *raw) last() string {
	c.t.Helper()
	got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_GET_LAST_MESSAGE_ID.Enum(),
		GetLastMessageId: &pulsarpb.CommandGetLastMessageId{ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(3)}})
	r := got.GetGetLastMessageIdResponse()
	if r.GetRequestId() != 3 {
		return got.GetError().GetMessage()
	}
	return fmt.Sprint(int64(r.GetLastMessageId().GetEntryId()), int64(r.GetConsumerMarkDeletePosition().GetEntryId()))
}

// P22: the last message's id lies.
func TestLastMessageID(t *testing.T) {
	inBubble(t, pulsartest.Options{Retention: true}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		c := r.raw()
		if got := c.last(); got != "Consumer not found" {
			t.Error(got)
		}
		c.subscribe(segment)
		ask := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := c.last(); got != want {
				t.Errorf("last message %q, want %q", got, want)
			}
		}
		p.send("a")
		p.marker()
		ask("0 -1")
		ask("1 -1")
		p.marker()
		ask("2 -1")
		r.Unload(segment)
		c = r.raw()
		c.subscribe(segment)
		r.must(r.Split(scalableTopic, 0))
		ask("-1 -1")
	})
}

func TestUnsubscribe(t *testing.T) {
	inBubble(t, pulsartest.Options{FailoverDelay: -1}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		c := r.raw()
		unsubscribe := &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_UNSUBSCRIBE.Enum(),
			Unsubscribe: &pulsarpb.CommandUnsubscribe{ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(3)}}
		if got := c.ask(unsubscribe); got.GetError().GetMessage() != "Consumer not found" {
			t.Errorf("nobody: %v", got)
		}
		c.subscribe(segment)
		if got := c.ask(unsubscribe); got.GetSuccess().GetRequestId() != 3 {
			t.Errorf("alone: %v", got)
		}
		if _, err := r.Cluster.Backlog(segment, "s"); !errors.Is(err, pulsartest.ErrNotFound) {
			t.Errorf("the subscription is still there: %v", err)
		}
		r.subscribe(failover(segment, "a"), 1)
		c.lookup(segment)
		got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_SUBSCRIBE.Enum(), Subscribe: &pulsarpb.CommandSubscribe{
			Topic: proto.String(segment), Subscription: proto.String("s"), SubType: pulsarpb.CommandSubscribe_Failover.Enum(),
			ConsumerName: proto.String("b"), ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(2)}})
		for got.GetType() != pulsarpb.BaseCommand_SUCCESS { // after who is active
			got = c.next().Command
		}
		if got := c.ask(unsubscribe); got.GetError().GetError() != pulsarpb.ServerError_MetadataError {
			t.Errorf("beside another: %v", got)
		}
	})
}

// Facts 1.
func TestPartitionedMetadata(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		c := r.raw()
		for _, topic := range []string{r.create(1)[0], "persistent://public/default/missing"} {
			got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_PARTITIONED_METADATA.Enum(), PartitionMetadata: &pulsarpb.CommandPartitionedTopicMetadata{
				Topic: proto.String(topic), RequestId: proto.Uint64(1)}}).GetPartitionMetadataResponse()
			if got.Partitions == nil || got.GetPartitions() != 0 || got.GetResponse() != pulsarpb.CommandPartitionedTopicMetadataResponse_Success {
				t.Errorf("%s: %v", topic, got)
			}
		}
	})
}

// Facts 9.3: what is left of a batch comes back with it; the last of it acknowledges the entry.
func TestAckSet(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		segment := r.create(1)[0]
		p := r.produce(segment, "p")
		r.must(p.Send(p.entry("batch", func(m *pulsarpb.MessageMetadata) { m.NumMessagesInBatch = proto.Int32(3) })))
		p.send("next")
		synctest.Wait()
		at := r.stored(segment)
		var c *raw
		ack := func(typ pulsarpb.CommandAck_AckType, entry int, set ...int64) {
			t.Helper()
			id := &pulsarpb.MessageIdData{LedgerId: proto.Uint64(uint64(at[entry].Ledger)), EntryId: proto.Uint64(uint64(at[entry].Entry)), AckSet: set}
			if got := c.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_ACK.Enum(), Ack: &pulsarpb.CommandAck{
				ConsumerId: proto.Uint64(1), RequestId: proto.Uint64(4), AckType: typ.Enum(), MessageId: []*pulsarpb.MessageIdData{id}}}); got.GetAckResponse().Error != nil {
				t.Error(got)
			}
		}
		comes := func(want ...string) {
			t.Helper()
			c = r.raw()
			c.subscribe(segment)
			c.send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_FLOW.Enum(), Flow: &pulsarpb.CommandFlow{ConsumerId: proto.Uint64(1), MessagePermits: proto.Uint32(10)}})
			var got []string
			for range want {
				m := c.next().Message
				got = append(got, fmt.Sprint(m.Entry, m.AckSet))
			}
			if !slices.Equal(got, want) {
				t.Errorf("came %q, want %q", got, want)
			}
		}
		gone := func() {
			_ = c.nc.Close()
			synctest.Wait()
		}
		comes("0 []", "1 []")
		ack(pulsarpb.CommandAck_Individual, 0, 0b011)
		gone()
		comes("0 [3]", "1 []")
		ack(pulsarpb.CommandAck_Cumulative, 0, 0b110)
		gone()
		comes("0 [2]", "1 []")
		ack(pulsarpb.CommandAck_Individual, 0, 0b101)
		gone()
		comes("1 []")
		ack(pulsarpb.CommandAck_Cumulative, 1)
		if n, err := r.Cluster.Backlog(segment, "s"); n != 0 || err != nil {
			t.Errorf("backlog %d, %v", n, err)
		}
		gone()
	})
}

// Facts 9.3: everything from the first hole comes again, named or not; in a shared subscription
// what is named.
func TestRedeliver(t *testing.T) {
	for typ, want := range map[pulsarpb.CommandSubscribe_SubType][]int64{
		pulsarpb.CommandSubscribe_Exclusive: {0, 2},
		pulsarpb.CommandSubscribe_Shared:    {2},
	} {
		inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
			segment := r.create(1)[0]
			r.produce(segment, "p").send("a", "b", "c")
			synctest.Wait()
			at := r.stored(segment)
			id := func(n int) []*pulsarpb.MessageIdData {
				return []*pulsarpb.MessageIdData{{LedgerId: proto.Uint64(uint64(at[n].Ledger)), EntryId: proto.Uint64(uint64(at[n].Entry))}}
			}
			c := r.raw()
			c.attach(segment, typ)
			c.send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_FLOW.Enum(), Flow: &pulsarpb.CommandFlow{ConsumerId: proto.Uint64(1), MessagePermits: proto.Uint32(10)}})
			for range at {
				c.next()
			}
			c.send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_ACK.Enum(), Ack: &pulsarpb.CommandAck{
				ConsumerId: proto.Uint64(1), AckType: pulsarpb.CommandAck_Individual.Enum(), MessageId: id(1)}})
			c.send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_REDELIVER_UNACKNOWLEDGED_MESSAGES.Enum(),
				RedeliverUnacknowledgedMessages: &pulsarpb.CommandRedeliverUnacknowledgedMessages{ConsumerId: proto.Uint64(1), MessageIds: id(2)}})
			c.send(pingCommand())
			var got []int64
			for f := c.next(); f.Type == pulsarpb.BaseCommand_MESSAGE; f = c.next() {
				got = append(got, f.Message.Entry)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: came %v, want %v", typ, got, want)
			}
		})
	}
}

// P36: who can is asked for a new credential, once, and a bad one ends the connection at once.
func TestCredentialsExpire(t *testing.T) {
	inBubble(t, pulsartest.Options{Authenticate: onlyGood}, func(t *testing.T, r *rig) {
		token := "good"
		client, err := pulsar.New(pulsar.Options{ServiceURL: "pulsar://a", Dial: r.net.Dial,
			Auth: auth.NewAuthenticationTokenFromSupplier(func() (string, error) { return token, nil })})
		r.must(err)
		defer func() { _ = client.Close() }()
		segment := r.create(1)[0]
		c, err := r.trySubscribe(client, failover(segment, "a"))
		r.must(err)
		time.Sleep(time.Second) // of fake time: the delay after an election
		r.want(&c.notes, "active true")
		for range 3 {
			r.ExpireCredentials()
			r.want(&c.notes)
		}
		token = "bad"
		r.ExpireCredentials()
		r.want(&c.notes, "closed")
	})
}

// Who cannot answer loses his connection, and who does not, the next time.
func TestCredentialsOfOthersExpire(t *testing.T) {
	inBubble(t, pulsartest.Options{}, func(t *testing.T, r *rig) {
		old := r.raw()
		r.ExpireCredentials()
		if f := old.next(); f != nil {
			t.Errorf("cannot refresh: %v", f.Command)
		}
		mute := r.raw()
		if got := mute.ask(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_CONNECT.Enum(), Connect: &pulsarpb.CommandConnect{ClientVersion: proto.String("raw"),
			FeatureFlags: &pulsarpb.FeatureFlags{SupportsAuthRefresh: proto.Bool(true)}}}); got.GetConnected() == nil {
			t.Fatal(got)
		}
		r.ExpireCredentials()
		if f := mute.next(); f.Type != pulsarpb.BaseCommand_AUTH_CHALLENGE {
			t.Errorf("no challenge: %v", f.Command)
		}
		r.ExpireCredentials()
		if f := mute.next(); f != nil {
			t.Errorf("mute: %v", f.Command)
		}
	})
}
