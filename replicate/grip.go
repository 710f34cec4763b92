package replicate

import "context"

// grip is the checkpoint topic held as one lane, by who does not copy: the lane
// cannot open while it lasts, and nothing that an earlier holder has under way can
// land above what is written here.
type grip struct {
	lane   string
	writer *writer
	record *Record // as it was when the topic was taken; nil: none
}

// take takes the checkpoint topic as a lane, and reads its record. A lane that
// lives holds the name: pulsar.ErrProducerBusy.
func take(ctx context.Context, env *Env, lane string) (*grip, error) {
	w, at, err := claimWriter(ctx, env.Target.Client, env.CheckpointTopic, lane)
	if err != nil {
		return nil, err
	}
	g := &grip{lane: lane, writer: w}
	if g.record, _, err = env.Records.Find(ctx, lane, env.genesis().Key(), at); err != nil {
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
	return g.writer.append(ctx, g.lane, value)
}

func (g *grip) release() { g.writer.close() }
