package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
)

// Now asks up to clockShards shards of a Cluster, one after the other, and waits for each at most clockTimeout.
const (
	clockShards  = 5
	clockTimeout = time.Second
)

// Now returns the time on the clock of any one shard.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if _, ok := s.rdb.(*redis.ClusterClient); !ok {
		return s.clock(ctx)
	}
	for range clockShards { // the client chooses a shard anew each time
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
		return time.Time{}, fmt.Errorf("read redis clock: %w", rediserr.Classify(err))
	}
	return now.UTC(), nil
}

// Time returns the time on the clock of a coupon's shard.
func (s *Store) Time(ctx context.Context, couponID coupon.CouponID) (time.Time, error) {
	now, err := s.number(ctx, timeScript, couponID)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(now).UTC(), nil
}

// ended is a canceled context. A lookup with ended contacts no server; it uses only what the client knows already.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Shard returns the address of a coupon's Cluster master; "" outside a Cluster, or if the master is not known yet.
func (s *Store) Shard(couponID coupon.CouponID) string {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	master, err := cluster.MasterForKey(ended, s.names.queue(couponID))
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// byShard groups coupons by shard. The coupons of a shard keep their order.
func (s *Store) byShard(coupons []coupon.CouponID) map[string][]coupon.CouponID {
	shards := map[string][]coupon.CouponID{}
	for _, id := range coupons {
		shard := s.Shard(id)
		shards[shard] = append(shards[shard], id)
	}
	return shards
}
