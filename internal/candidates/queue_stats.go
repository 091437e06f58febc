package candidates

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

// QueueStats is what stands at the front of a coupon's queue and DLQ.
type QueueStats struct {
	Waiting int64
	Oldest  time.Time     // arrival of the first that waits; zero when nobody does
	TTL     time.Duration // until the queue expires; 0 when it never does, or nobody waits

	UnderReview   int64
	ReviewedSince time.Time // since when the first in line of the DLQ is there, who need not be there longest; zero when nobody is, or it is not known
}

// headCoupons are looked at with one pipeline.
const headCoupons = 500

// QueueStats looks at several coupons with two exchanges for each shard. What could not be looked at, as on a shard that is
// away, is not in it. It is a read; repeating it is safe.
func (s *Store) QueueStats(ctx context.Context, coupons []coupon.CouponID) map[uint64]QueueStats {
	heads := make(map[uint64]QueueStats, len(coupons))
	var mu sync.Mutex // guards heads
	var shards sync.WaitGroup
	for _, here := range s.byShard(coupons) { // side by side: one that hangs takes all the time there is
		shards.Go(func() {
			for some := range slices.Chunk(here, headCoupons) {
				if ctx.Err() != nil {
					return
				}
				found := s.someHeads(ctx, some)
				mu.Lock()
				maps.Copy(heads, found)
				mu.Unlock()
			}
		})
	}
	shards.Wait()
	return heads
}

func (s *Store) someHeads(ctx context.Context, coupons []coupon.CouponID) map[uint64]QueueStats {
	heads := make(map[uint64]QueueStats, len(coupons))
	type replies struct {
		waiting, underReview *redis.IntCmd
		first, firstReviewed *redis.ZSliceCmd
		ttl                  *redis.DurationCmd
	}
	asked := make([]replies, len(coupons))
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its own error
		for i, id := range coupons {
			k := s.names.coupon(id)
			asked[i] = replies{
				waiting: pipe.ZCard(ctx, k.queue), first: pipe.ZRangeWithScores(ctx, k.queue, 0, 0), ttl: pipe.PTTL(ctx, k.queue),
				underReview: pipe.ZCard(ctx, k.dlq), firstReviewed: pipe.ZRangeWithScores(ctx, k.dlq, 0, 0),
			}
		}
		return nil
	})
	firstReviewed := map[uint64]string{}
	for i, id := range coupons {
		a := asked[i]
		if a.waiting.Err() != nil || a.first.Err() != nil || a.ttl.Err() != nil || a.underReview.Err() != nil || a.firstReviewed.Err() != nil {
			continue
		}
		head := QueueStats{Waiting: a.waiting.Val(), TTL: max(0, a.ttl.Val()), UnderReview: a.underReview.Val()}
		if first := a.first.Val(); len(first) > 0 {
			head.Oldest = time.UnixMicro(int64(max(0, min(first[0].Score, float64(coupon.MaxArrival))))).UTC()
		}
		if first := a.firstReviewed.Val(); len(first) > 0 {
			firstReviewed[id], _ = first[0].Member.(string)
		}
		heads[id] = head
	}
	s.reviewedSince(ctx, firstReviewed, heads)
	return heads
}

// reviewedSince looks up since when members of DLQs are there.
func (s *Store) reviewedSince(ctx context.Context, members map[uint64]string, heads map[uint64]QueueStats) {
	if len(members) == 0 {
		return
	}
	asked := make(map[uint64]*redis.StringCmd, len(members))
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for id, member := range members {
			asked[id] = pipe.HGet(ctx, s.names.coupon(id).reason, member)
		}
		return nil
	})
	for id, reply := range asked {
		reason, ok := readReason(reply.Val())
		if !ok {
			continue
		}
		head := heads[id]
		if head.ReviewedSince = reason.Since; reason.Since.IsZero() {
			head.ReviewedSince = reason.At
		}
		heads[id] = head
	}
}
