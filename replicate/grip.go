package replicate

import (
	"context"

	"github.com/geobridge/geobridge/internal/pulsar"
)

// grip is the checkpoint topic held as one lane, by who does not copy: the lane
// cannot open while it lasts, and nothing that an earlier holder has under way can
// land above what is written here.
type grip struct {
	env     *Env
	lane    string
	claimed claimed
	answers chan error
	record  *Record // as it was when the topic was taken; nil: none
}

// take takes the checkpoint topic as a lane, and reads its record. A lane that
// lives holds the name: pulsar.ErrProducerBusy.
func take(ctx context.Context, env *Env, lane string) (*grip, error) {
	g := &grip{env: env, lane: lane, answers: make(chan error, 1)}
	answer := func(err error) {
		select {
		case g.answers <- err:
		default:
		}
	}
	var err error
	g.claimed, err = claim(ctx, env.Target.Client, env.CheckpointTopic, lane, sink{receipt: func(uint64, Position) { answer(nil) }, doubt: answer})
	if err != nil {
		return nil, err
	}
	if g.record, _, err = env.Records.Find(ctx, lane, env.genesis().Key(), g.claimed.barrier); err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// drop writes an empty entry under the lane's key: readers forget the lane then,
// and compaction drops the key.
func (g *grip) drop(ctx context.Context) error { return g.write(ctx, nil) }

// write stores an entry under the lane's key. After an error nothing more can be
// written.
func (g *grip) write(ctx context.Context, value []byte) error {
	c := &g.claimed
	md, err := keyed(g.lane, g.lane, c.next)
	if err == nil {
		err = c.producer.Send(pulsar.Outgoing{Sequence: c.next, NumMessages: 1, Metadata: md, Payload: value})
	}
	if err != nil {
		return err
	}
	c.next++
	late, cancel := context.WithTimeoutCause(ctx, g.env.Target.Client.OperationTimeout(), pulsar.ErrTimeout)
	defer cancel()
	select {
	case err := <-g.answers:
		return err
	case <-late.Done():
		return context.Cause(late)
	}
}

func (g *grip) release() { closeProducer(g.claimed.producer) }
