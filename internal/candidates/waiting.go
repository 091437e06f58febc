package candidates

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
)

// waitingCoupons is how many coupons one command looks at. Redis takes about 0.1 ms for them.
const waitingCoupons = 500

// waitingScript finds the keys of one shard that exist. It declares no key, because the keys are in several slots.
var (
	waitingScript = load("waiting")
	findWaiting   = redis.NewScript(waitingScript.source)
)

// Waiting returns the coupons whose queue is not empty, in any order. For coupons that have none, it costs one command
// for each shard and 500 coupons.
func (s *Store) Waiting(ctx context.Context, coupons []coupon.CouponID) (waiting []coupon.CouponID, err error) {
	var problems []error
	for _, onShard := range s.byShard(coupons) {
		for some := range slices.Chunk(onShard, waitingCoupons) {
			found, err := s.waitingOn(ctx, some)
			waiting = append(waiting, found...)
			problems = append(problems, err)
		}
	}
	return waiting, errors.Join(problems...)
}

// waitingOn looks at coupons of one shard.
func (s *Store) waitingOn(ctx context.Context, coupons []coupon.CouponID) ([]coupon.CouponID, error) {
	queues := make([]string, len(coupons))
	for i, id := range coupons {
		queues[i] = s.names.queue(id)
	}
	shard := s.rdb
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, queues[0])
		if err != nil {
			return nil, rediserr.Classify(err)
		}
		shard = master
	}
	if !s.slots.Load() {
		n, err := shard.Exists(ctx, queues...).Result()
		switch {
		case redis.HasErrorPrefix(err, "CROSSSLOT"):
			s.slots.Store(true)
		case redis.HasErrorPrefix(err, "MOVED"): // the script below tells
		case err != nil:
			return nil, rediserr.Classify(err)
		case n == 0:
			return nil, nil
		}
	}
	args := make([]any, len(queues))
	for i, queue := range queues {
		args[i] = queue
	}
	places, err := findWaiting.Run(ctx, shard, nil, args...).Int64Slice()
	if err != nil { // a slot may be moving to another shard
		return s.waitingEach(ctx, coupons, queues)
	}
	found := make([]coupon.CouponID, 0, len(places))
	for _, place := range places {
		if place < 1 || place > int64(len(coupons)) {
			return nil, errors.New("redis script waiting: a place in the reply is none of a key")
		}
		found = append(found, coupons[place-1])
	}
	return found, nil
}

// waitingEach looks at each coupon by a command of its own, which the client sends to the right shard.
func (s *Store) waitingEach(ctx context.Context, coupons []coupon.CouponID,
	queues []string) (found []coupon.CouponID, err error) {
	replies := make([]*redis.IntCmd, len(queues))
	_, err = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, queue := range queues {
			replies[i] = pipe.Exists(ctx, queue)
		}
		return nil
	})
	if err != nil {
		return nil, rediserr.Classify(err)
	}
	for i, reply := range replies {
		if reply.Val() > 0 {
			found = append(found, coupons[i])
		}
	}
	return found, nil
}
