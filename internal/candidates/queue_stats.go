package candidates

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
)

// QueueStats describes a coupon's queue and DLQ for metrics.
type QueueStats struct {
	Waiting int64
	Oldest  time.Time     // lowest arrival in the queue; zero: the queue is empty
	TTL     time.Duration // TTL of the queue; 0: the queue has no TTL, or is empty

	UnderReview   int64
	ReviewedSince time.Time // when the entry with the lowest arrival entered the DLQ; zero: unknown, or no entry
}

// statsCoupons is how many coupons one pipeline reads.
const statsCoupons = 500

// QueueStats reads several coupons. Coupons that cannot be read are missing in the result.
func (s *Store) QueueStats(ctx context.Context, coupons []coupon.CouponID) map[coupon.CouponID]QueueStats {
	all := make(map[coupon.CouponID]QueueStats, len(coupons))
	var mu sync.Mutex // guards all
	var shards sync.WaitGroup
	for _, onShard := range s.byShard(coupons) { // in parallel: a shard that hangs takes no time from the others
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

type statsReplies struct {
	waiting, underReview *redis.IntCmd
	first, firstReviewed *redis.ZSliceCmd
	ttl                  *redis.DurationCmd
}

func (s *Store) readQueueStats(ctx context.Context, coupons []coupon.CouponID) map[coupon.CouponID]QueueStats {
	replies := make([]statsReplies, len(coupons))
	_, _ = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the error of each command is checked below
		for i, id := range coupons {
			k := s.names.coupon(id)
			replies[i] = statsReplies{
				waiting: pipe.ZCard(ctx, k.queue), first: pipe.ZRangeWithScores(ctx, k.queue, 0, 0),
				ttl:         pipe.PTTL(ctx, k.queue),
				underReview: pipe.ZCard(ctx, k.dlq), firstReviewed: pipe.ZRangeWithScores(ctx, k.dlq, 0, 0),
			}
		}
		return nil
	})
	all := make(map[coupon.CouponID]QueueStats, len(coupons))
	reviewed := map[coupon.CouponID]string{} // the first member of each coupon's DLQ
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

// readReviewedSince sets ReviewedSince in all. members holds one DLQ member per coupon, whose reason has the time.
func (s *Store) readReviewedSince(ctx context.Context, members map[coupon.CouponID]string,
	all map[coupon.CouponID]QueueStats) {
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
