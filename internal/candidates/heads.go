package candidates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Head is how long a queue is and since when its first waits.
type Head struct {
	Waiting int64
	Oldest  time.Time // zero when nobody waits
}

// Heads looks at several queues with one exchange for each shard. It is a read; repeating it is safe.
func (s *Store) Heads(ctx context.Context, coupons []uint64) ([]Head, error) {
	lengths, firsts := make([]*redis.IntCmd, len(coupons)), make([]*redis.ZSliceCmd, len(coupons))
	_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range coupons {
			queue := s.names.coupon(id).queue
			lengths[i], firsts[i] = pipe.ZCard(ctx, queue), pipe.ZRangeWithScores(ctx, queue, 0, 0)
		}
		return nil
	})
	heads := make([]Head, len(coupons))
	for i, id := range coupons {
		if failed := errors.Join(lengths[i].Err(), firsts[i].Err()); failed != nil {
			return nil, fmt.Errorf("look at the queue of coupon %d: %w", id, classify(failed))
		}
		heads[i].Waiting = lengths[i].Val()
		if first := firsts[i].Val(); len(first) > 0 {
			heads[i].Oldest = time.UnixMicro(int64(first[0].Score)).UTC()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look at the queues of %d coupons: %w", len(coupons), classify(err))
	}
	return heads, nil
}
