package candidates

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

// Asking the shards of a Cluster for the time, one after the other.
const (
	// clockShards are asked at most: so many that hang at once are no accident.
	clockShards = 5
	// clockTimeout bounds asking one.
	clockTimeout = time.Second
)

// Now is the clock of one shard of the store: of a Cluster, of the first that answers.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if _, ok := s.rdb.(*redis.ClusterClient); !ok {
		return s.clock(ctx)
	}
	for range clockShards { // the client takes another shard each time
		asking, cancel := context.WithTimeout(ctx, clockTimeout)
		now, err = s.clock(asking)
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

// nobody is a context in which nobody is asked any more.
var nobody = func() context.Context {
	ended, end := context.WithCancel(context.Background())
	end()
	return ended
}()

// Shard tells the shards of coupons apart, as far as this process knows without asking: in a Cluster it is the address of
// the master. It is empty where there is only one, or nothing is known.
func (s *Store) Shard(couponID coupon.CouponID) string {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	master, err := cluster.MasterForKey(nobody, s.names.coupon(couponID).queue)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// byShard sorts coupons by their shards, each shard's in the order given.
func (s *Store) byShard(coupons []coupon.CouponID) map[string][]uint64 {
	shards := map[string][]uint64{}
	for _, coupon := range coupons {
		shard := s.Shard(coupon)
		shards[shard] = append(shards[shard], coupon)
	}
	return shards
}
