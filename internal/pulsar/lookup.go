package pulsar

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// maxHops bounds the redirects of one look-up.
const maxHops = 20

// Broker is the owner of a topic, as a look-up found it.
type Broker struct {
	// Addr is the owner's host:port.
	Addr string
	// Dial is the host:port to connect to: Addr, or the service host that
	// stands in front of it.
	Dial string
}

// Lookup asks who serves a topic; the cluster chooses an owner where there is
// none. It creates no topic, and succeeds for segments that do not exist
// (broker 5.0.1, observed).
func (c *Client) Lookup(ctx context.Context, topic string) (Broker, error) {
	if err := checkTopic(topic); err != nil {
		return Broker{}, err
	}
	var failed error
	for range c.service.hosts {
		conn, err := c.control(ctx)
		if err != nil {
			return Broker{}, fmt.Errorf("look up %s: %w", topic, errors.Join(failed, err))
		}
		b, err := c.follow(ctx, conn, topic)
		if err == nil {
			return b, nil
		}
		failed = errors.Join(failed, err)
		if conn.alive() || ctx.Err() != nil {
			break
		}
		c.nextHost(conn.target.dial)
	}
	return Broker{}, fmt.Errorf("look up %s: %w", topic, failed)
}

// nextHost turns away from a service host that failed.
func (c *Client) nextHost(dial string) {
	start, n := c.host.Load(), uint64(len(c.service.hosts))
	if c.service.hosts[start%n] == dial {
		c.host.CompareAndSwap(start, (start+1)%n)
	}
}

// follow asks conn and goes where it is redirected to, passing on each
// answer's authoritative flag: a broker that was chosen by the leader but does
// not own the topic yet would redirect back without it.
func (c *Client) follow(ctx context.Context, conn *conn, topic string) (Broker, error) {
	service := conn.target.dial
	authoritative := false
	for range maxHops {
		r, err := c.ask(ctx, conn, topic, authoritative)
		if err != nil {
			return Broker{}, err
		}
		b, err := c.answered(r, service)
		if err != nil {
			return Broker{}, err
		}
		switch r.GetResponse() {
		case pulsarpb.CommandLookupTopicResponse_Connect:
			return b, nil
		case pulsarpb.CommandLookupTopicResponse_Redirect:
			authoritative = r.GetAuthoritative()
			conn, err = c.pool.get(ctx, target{dial: b.Dial, broker: b.Addr, kind: KindControl})
			if err != nil {
				return Broker{}, err
			}
		default:
			return Broker{}, fmt.Errorf("%w: look-up answered %s", ErrProtocol, r.GetResponse())
		}
	}
	return Broker{}, fmt.Errorf("%w: more than %d redirects", ErrNotReady, maxHops)
}

func (c *Client) ask(ctx context.Context, conn *conn, topic string, authoritative bool) (*pulsarpb.CommandLookupTopicResponse, error) {
	reply, err := conn.request(ctx, c.opts.OperationTimeout, pulsarpb.BaseCommand_LOOKUP_RESPONSE, nil, func(id uint64) *pulsarpb.BaseCommand {
		cmd := command(pulsarpb.BaseCommand_LOOKUP)
		cmd.LookupTopic = &pulsarpb.CommandLookupTopic{
			Topic: proto.String(topic), RequestId: proto.Uint64(id), Authoritative: proto.Bool(authoritative),
		}
		if c.opts.ListenerName != "" {
			cmd.LookupTopic.AdvertisedListenerName = proto.String(c.opts.ListenerName)
		}
		return cmd
	})
	if err != nil {
		return nil, err
	}
	r := reply.GetLookupTopicResponse()
	if r.GetResponse() == pulsarpb.CommandLookupTopicResponse_Failed || r.Error != nil {
		return nil, &ServerError{Code: r.GetError(), Message: r.GetMessage()}
	}
	return r, nil
}

// answered reads the broker that an answer names.
func (c *Client) answered(r *pulsarpb.CommandLookupTopicResponse, service string) (Broker, error) {
	url := r.GetBrokerServiceUrl()
	if c.service.tls {
		url = r.GetBrokerServiceUrlTls()
	}
	if url == "" {
		return Broker{}, fmt.Errorf("%w: look-up named no %s address (listener %q)", ErrProtocol, strings.TrimSuffix(c.service.scheme(), "://"), c.opts.ListenerName)
	}
	u, err := parseServiceURL(url)
	if err != nil || len(u.hosts) != 1 || u.tls != c.service.tls {
		return Broker{}, fmt.Errorf("%w: look-up named %q", ErrProtocol, url)
	}
	b := Broker{Addr: u.hosts[0], Dial: u.hosts[0]}
	if r.GetProxyThroughServiceUrl() {
		b.Dial = service
	}
	return b, nil
}

// owner looks a topic up and returns a connection to its owner.
func (c *Client) owner(ctx context.Context, topic string, kind Kind) (*conn, error) {
	b, err := c.Lookup(ctx, topic)
	if err != nil {
		return nil, err
	}
	return c.pool.get(ctx, target{dial: b.Dial, broker: b.Addr, kind: kind})
}
