package candidates

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Head is how long a queue is and since when its first waits.
type Head struct {
	Waiting int64
	Oldest  time.Time // zero when nobody waits
}

// Heads looks at several queues with one exchange for each shard. What could not be looked at, as on a shard that is away,
// is not in it. It is a read; repeating it is safe.
func (s *Store) Heads(ctx context.Context, coupons []uint64) map[uint64]Head {
	lengths, firsts := make([]*redis.IntCmd, len(coupons)), make([]*redis.ZSliceCmd, len(coupons))
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its own error
		for i, id := range coupons {
			queue := s.names.coupon(id).queue
			lengths[i], firsts[i] = pipe.ZCard(ctx, queue), pipe.ZRangeWithScores(ctx, queue, 0, 0)
		}
		return nil
	})
	heads := make(map[uint64]Head, len(coupons))
	for i, id := range coupons {
		if lengths[i].Err() != nil || firsts[i].Err() != nil {
			continue
		}
		head := Head{Waiting: lengths[i].Val()}
		if first := firsts[i].Val(); len(first) > 0 {
			head.Oldest = time.UnixMicro(int64(max(0, min(first[0].Score, lastArrival)))).UTC()
		}
		heads[id] = head
	}
	return heads
}
