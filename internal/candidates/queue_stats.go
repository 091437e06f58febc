package candidates

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

// QueueStats describe a coupon's queue and DLQ for metrics.
type QueueStats struct {
	Waiting int64
	Oldest  time.Time     // lowest arrival in the queue; zero: empty
	TTL     time.Duration // of the queue; 0: none, or empty

	UnderReview   int64
	ReviewedSince time.Time // when the DLQ entry with the lowest arrival went there, not the oldest entry; zero: empty or unknown
}

// statsCoupons fit into one pipeline.
const statsCoupons = 500

// QueueStats reads several coupons with two round trips per shard. Coupons that cannot be read are absent.
func (s *Store) QueueStats(ctx context.Context, coupons []coupon.CouponID) map[coupon.CouponID]QueueStats {
	all := make(map[coupon.CouponID]QueueStats, len(coupons))
	var mu sync.Mutex // guards all
	var shards sync.WaitGroup
	for _, onShard := range s.byShard(coupons) { // in parallel: a shard that hangs uses up all the time
		shards.Go(func() {
			for some := range slices.Chunk(onShard, statsCoupons) {
				if ctx.Err() != nil {
					return
				}
				found := s.readQueueStats(ctx, some)
				mu.Lock()
				maps.Copy(all, found)
				mu.Unlock()
			}
		})
	}
	shards.Wait()
	return all
}

// statsReplies are the replies about one coupon.
type statsReplies struct {
	waiting, underReview *redis.IntCmd
	first, firstReviewed *redis.ZSliceCmd
	ttl                  *redis.DurationCmd
}

func (s *Store) readQueueStats(ctx context.Context, coupons []coupon.CouponID) map[coupon.CouponID]QueueStats {
	replies := make([]statsReplies, len(coupons))
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its own error
		for i, id := range coupons {
			k := s.names.coupon(id)
			replies[i] = statsReplies{
				waiting: pipe.ZCard(ctx, k.queue), first: pipe.ZRangeWithScores(ctx, k.queue, 0, 0), ttl: pipe.PTTL(ctx, k.queue),
				underReview: pipe.ZCard(ctx, k.dlq), firstReviewed: pipe.ZRangeWithScores(ctx, k.dlq, 0, 0),
			}
		}
		return nil
	})
	all := make(map[coupon.CouponID]QueueStats, len(coupons))
	reviewed := map[coupon.CouponID]string{} // the first member of each DLQ
	for i, id := range coupons {
		r := replies[i]
		if errors.Join(r.waiting.Err(), r.underReview.Err(), r.first.Err(), r.firstReviewed.Err(), r.ttl.Err()) != nil {
			continue
		}
		stats := QueueStats{Waiting: r.waiting.Val(), TTL: max(0, r.ttl.Val()), UnderReview: r.underReview.Val()}
		if first := r.first.Val(); len(first) > 0 {
			stats.Oldest = coupon.Arrival(max(0, min(first[0].Score, float64(coupon.MaxArrival)))).Time()
		}
		if first := r.firstReviewed.Val(); len(first) > 0 {
			reviewed[id], _ = first[0].Member.(string)
		}
		all[id] = stats
	}
	s.readReviewedSince(ctx, reviewed, all)
	return all
}

// readReviewedSince sets ReviewedSince from the reasons of these members.
func (s *Store) readReviewedSince(ctx context.Context, members map[coupon.CouponID]string, all map[coupon.CouponID]QueueStats) {
	if len(members) == 0 {
		return
	}
	replies := make(map[coupon.CouponID]*redis.StringCmd, len(members))
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for id, member := range members {
			replies[id] = pipe.HGet(ctx, s.names.coupon(id).reason, member)
		}
		return nil
	})
	for id, reply := range replies {
		reason, ok := readReason(reply.Val())
		if !ok {
			continue
		}
		stats := all[id]
		if stats.ReviewedSince = reason.Since; reason.Since.IsZero() {
			stats.ReviewedSince = reason.At
		}
		all[id] = stats
	}
}
