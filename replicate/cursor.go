package replicate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// markText is what stands before the position in the refusal of an old one
// (broker 5.0.1, observed).
const markText = "Current mark-delete: "

// errNoMark: the broker does not say where a subscription stands.
var errNoMark = errors.New("the broker does not tell where a subscription stands")

// markOf asks where the subscription of a consumer stands: everything up to the
// position is acknowledged. No statistics tell it, of a segment; but the refusal
// of an acknowledgement that is older than everything does, to every consumer of
// the subscription, active or not, and it moves nothing. A subscription that has
// acknowledged all of a trimmed ledger stands before the first entry of the next
// one (both observed, broker 5.0.1).
func markOf(ctx context.Context, c *pulsar.Consumer) (Position, error) {
	answer := make(chan error, 1)
	c.AckCumulative(noPosition(), func(err error) { answer <- err })
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		return noPosition(), ctx.Err()
	}
	var refused *pulsar.ServerError
	switch {
	case err == nil:
		return noPosition(), errNoMark
	case !errors.As(err, &refused):
		return noPosition(), err
	}
	return parseMark(refused.Message)
}

func parseMark(text string) (Position, error) {
	_, rest, found := strings.Cut(text, markText)
	word, _, _ := strings.Cut(rest, " ")
	pos, err := pulsar.ParseMessageID(word)
	if !found || err != nil {
		return noPosition(), fmt.Errorf("%w: %q", errNoMark, text)
	}
	return pos, nil
}

// beginning is the position before the first entry that a topic still holds.
func beginning(ctx context.Context, client *pulsar.Client, topic string) (Position, error) {
	c, err := subscribeReader(ctx, client, topic, "look", pulsar.Earliest(), false, deaf{})
	if err != nil {
		return noPosition(), err
	}
	defer c.Leave()
	return markOf(ctx, c)
}
