package pulsartest

import (
	"maps"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// HoldAdds keeps the sends to a topic pending from now on, as a slow bookie does.
func (c *Cluster) HoldAdds(name string) error {
	return c.withTopic(name, func(t *topic) { t.holding = true })
}

// LandAdds stores the first n pending sends, with their receipts; the topic goes
// on holding. It tells how many are pending still.
func (c *Cluster) LandAdds(name string, n int) (pending int, err error) {
	err = c.withTopic(name, func(t *topic) {
		t.land(n)
		pending = len(t.pending)
	})
	return pending, err
}

// ReleaseAdds stores all that is pending, and holds no longer.
func (c *Cluster) ReleaseAdds(name string) error {
	return c.withTopic(name, func(t *topic) {
		t.holding = false
		t.land(len(t.pending))
	})
}

// StoreAtSeal makes the next seal of a segment unclean: the first n of the sends that are pending
// then are stored, and refused all the same, so that their producer sends them to a child again. Brokers
// do that seldom, and never tell (decisions of ARCHITECTURE.md).
func (c *Cluster) StoreAtSeal(name string, n int) error {
	return c.withTopic(name, func(t *topic) { t.straddle = n })
}

// Starve keeps a subscription's cursor asleep: nothing is delivered, whatever there is, until a
// consumer attaches. A cursor that waits at the end of a segment while it is sealed under load may be
// like that (decisions of ARCHITECTURE.md).
func (c *Cluster) Starve(name, sub string) error {
	return c.withSubscription(name, sub, func(s *subscription) { s.starved = true })
}

// ExpireCredentials is the broker's look at credentials that have expired (P36): it asks those clients
// for another one who said that they have some, and ends the connection of the others, and of those who
// did not answer the last time.
func (c *Cluster) ExpireCredentials() {
	c.locked(func() {
		for conn := range maps.Clone(c.conns) {
			switch {
			case !conn.greeted:
			case !conn.refreshes || conn.challenge:
				conn.cut()
			default:
				conn.challenge = true
				m := base(pulsarpb.BaseCommand_AUTH_CHALLENGE)
				m.AuthChallenge = &pulsarpb.CommandAuthChallenge{Challenge: &pulsarpb.AuthData{AuthMethodName: proto.String("token")}}
				conn.send(command(m))
			}
		}
	})
}
