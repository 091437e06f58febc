package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

// Now tries this many shards of a Cluster in turn.
const (
	clockShards  = 5
	clockTimeout = time.Second
)

// Now returns the clock of one shard.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if _, ok := s.rdb.(*redis.ClusterClient); !ok {
		return s.clock(ctx)
	}
	for range clockShards { // the client takes another shard each time
		shardCtx, cancel := context.WithTimeout(ctx, clockTimeout)
		now, err = s.clock(shardCtx)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return now, err
}

func (s *Store) clock(ctx context.Context) (time.Time, error) {
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read redis clock: %w", classify(err))
	}
	return now.UTC(), nil
}

// ended is canceled, so that a lookup with it contacts no server.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Shard names the shard of a coupon: in a Cluster the address of its master, if this process knows it already, else "".
func (s *Store) Shard(couponID coupon.CouponID) string {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	master, err := cluster.MasterForKey(ended, s.names.coupon(couponID).queue)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// byShard groups coupons by shard and keeps their order.
func (s *Store) byShard(coupons []coupon.CouponID) map[string][]coupon.CouponID {
	shards := map[string][]coupon.CouponID{}
	for _, id := range coupons {
		shard := s.Shard(id)
		shards[shard] = append(shards[shard], id)
	}
	return shards
}
