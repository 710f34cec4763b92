package pulsar

import (
	"context"
	"time"
)

// leaveTimeout bounds how long one who leaves waits for the broker.
const leaveTimeout = 5 * time.Second

// Leave is Close for who is done with the consumer either way: it waits for the broker
// 5 s at most, and tells no error. A nil consumer is left already.
func (s *Consumer) Leave() {
	if s != nil {
		leave(s.Close)
	}
}

// Leave is Close for who is done with the producer either way: it waits for the broker
// 5 s at most, and tells no error. A nil producer is left already.
func (p *Producer) Leave() {
	if p != nil {
		leave(p.Close)
	}
}

func leave(shut func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	_ = shut(ctx) // dead either way
}
