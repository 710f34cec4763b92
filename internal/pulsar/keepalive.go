package pulsar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

const (
	// pingEvery is how often a PING is sent; brokers do the same.
	pingEvery = 30 * time.Second
	// silenceLimit is how long a connection may be mute: two missed PONGs.
	silenceLimit = 60 * time.Second
	// keeperTick is how late the keeper may notice.
	keeperTick = time.Second
)

var errSilence = errors.New("no byte from the broker")

// keepAlive sends PINGs, ends a mute connection and times acknowledgements out.
func (c *conn) keepAlive() {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	seen, pinged := time.Now(), time.Now()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		now := time.Now()
		switch {
		case c.seen.Swap(false):
			seen = now
		case now.Sub(seen) >= silenceLimit:
			c.fail(ReasonSilence, fmt.Errorf("%w for %s", errSilence, silenceLimit))
			return
		}
		if now.Sub(pinged) >= pingEvery {
			pinged = now
			c.out.keepAlive(true)
		}
		c.expireAcks(now)
		c.mu.Lock()
		c.recloseDue(now)
		c.mu.Unlock()
	}
}

// expireAcks fails acknowledgements that never got a receipt: a broker does
// not answer those of a consumer it no longer knows (5.0.1, observed).
func (c *conn) expireAcks(now time.Time) {
	c.mu.Lock()
	consumers := make([]*Consumer, 0, len(c.owned.consumers))
	for _, h := range c.owned.consumers {
		consumers = append(consumers, h)
	}
	c.mu.Unlock()
	for _, h := range consumers {
		h.expire(now)
	}
}

// answerChallenge sends the credential as it is now. Reading it may take a
// while (a token end point), so it happens beside the read loop; a provider
// that hangs costs this connection only, since the broker closes it.
func (c *conn) answerChallenge() {
	if !c.refreshing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer c.refreshing.Store(false)
		data, err := c.opts.credential(c.target)
		if err != nil {
			c.log.Warn("no credential to answer the broker's challenge", "error", err)
			c.opts.OnEvent(Event{Type: EventConnectError, Broker: c.target.dial, Kind: c.target.kind, Reason: ReasonAuth, Err: err})
			return
		}
		_ = c.out.overtake(authResponse(data)) // a dead connection needs no answer
	}()
}

// authData is a credential as it goes on the wire.
type authData struct {
	method string
	data   []byte
}

// credential reads the credential anew and reports when it runs out.
func (o *Options) credential(t target) (authData, error) {
	if o.Auth == nil {
		return authData{}, nil
	}
	data, err := o.Auth.GetData()
	if err != nil {
		return authData{}, fmt.Errorf("read credential: %w", err)
	}
	name := o.Auth.Name()
	if len(data) > 0 {
		o.OnEvent(Event{Type: EventCredential, Broker: t.dial, Kind: t.kind, CredentialKind: name, Expiry: tokenExpiry(data)})
	}
	return authData{name, data}, nil
}

// credentialWithin is credential for callers that can not wait for ever.
func (o *Options) credentialWithin(ctx context.Context, t target) (authData, error) {
	type answer struct {
		auth authData
		err  error
	}
	ch := make(chan answer, 1)
	go func() {
		a, err := o.credential(t)
		ch <- answer{a, err}
	}()
	select {
	case a := <-ch:
		return a.auth, a.err
	case <-ctx.Done():
		return authData{}, fmt.Errorf("read credential: %w", context.Cause(ctx))
	}
}

func authResponse(a authData) *pulsarpb.BaseCommand {
	cmd := command(pulsarpb.BaseCommand_AUTH_RESPONSE)
	cmd.AuthResponse = &pulsarpb.CommandAuthResponse{
		ClientVersion:   proto.String(clientVersion),
		ProtocolVersion: proto.Int32(protocolVersion),
		Response:        &pulsarpb.AuthData{AuthMethodName: proto.String(a.method), AuthData: a.data},
	}
	return cmd
}
