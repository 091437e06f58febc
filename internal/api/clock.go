package api

import (
	"cmp"
	"context"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// clockFresh is how long Redis is not asked again, whether it has answered or not.
	clockFresh = time.Second
	// clockUsable is how long a measurement is used while Redis does not answer. Clocks drift apart slowly, but another
	// server may have taken over with a clock of its own.
	clockUsable = 10 * time.Second
	// clockWorsens is by how much the trip of a measurement seems longer each second. A measurement with a longer trip
	// does not replace it: the process or the network was busy, and half of such a trip may be more than clocks drift.
	clockWorsens = 10 * time.Millisecond
	// clockTimeout bounds one measurement. Redis usually replies within a millisecond.
	clockTimeout = 500 * time.Millisecond
)

var errClockOld = errors.New("the measurement of the clock is too old")

// Clock reads the clock of a coupon's Redis shard.
type Clock interface {
	Time(ctx context.Context, couponID coupon.CouponID) (time.Time, error)
}

// clocks has the clock of each shard. All requests share one measurement, so that Redis is asked once a second.
type clocks struct {
	source    Clock
	shard     func(couponID coupon.CouponID) string
	local     func() time.Time
	measuring singleflight.Group
	byShard   *lru.Cache[string, measurement]
}

// measurement is what is known of a shard's clock.
type measurement struct {
	// The same moment on the clocks of Redis and of this process; zero: the clock was never read.
	redis, local time.Time
	trip         time.Duration // how long Redis took to answer; the moment is known to half of that
	tried        time.Time     // when Redis was last asked, whether it answered or not
	err          error         // error of that attempt; nil: Redis answered
}

func newClocks(source Clock, shard func(couponID coupon.CouponID) string, local func() time.Time) *clocks {
	byShard, err := lru.New[string, measurement](maxShards)
	if err != nil {
		panic(err) // maxShards is positive
	}
	return &clocks{source: source, shard: shard, local: local, byShard: byShard}
}

// now returns the time on the clock of a coupon's shard.
func (c *clocks) now(ctx context.Context, id coupon.CouponID) (time.Time, error) {
	shard := c.shard(id)
	m, fresh := c.fresh(shard)
	if !fresh {
		measured, _, _ := c.measuring.Do(shard, func() (any, error) { return c.measure(ctx, shard, id), nil })
		m = measured.(measurement)
	}
	age := c.local().Sub(m.local)
	if m.local.IsZero() || age > clockUsable {
		return time.Time{}, cmp.Or(m.err, errClockOld)
	}
	return m.redis.Add(age), nil
}

// fresh returns the last measurement, and whether Redis need not be asked again.
func (c *clocks) fresh(shard string) (m measurement, fresh bool) {
	m, ok := c.byShard.Get(shard)
	return m, ok && c.local().Sub(m.tried) <= clockFresh
}

// measure takes the middle of the round trip as the moment when Redis read its clock. It goes on when the client of the
// request that began it hangs up: others wait for it.
func (c *clocks) measure(ctx context.Context, shard string, id coupon.CouponID) measurement {
	m, fresh := c.fresh(shard)
	if fresh { // another request has just measured
		return m
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clockTimeout)
	defer cancel()
	began := c.local()
	redis, err := c.source.Time(ctx, id)
	ended := c.local()
	trip := ended.Sub(began)
	m.tried, m.err = ended, err
	if err == nil {
		m.tried = began.Add(trip / 2)
		age := ended.Sub(m.local)
		if trip <= m.trip+clockWorsens*(age/time.Second) || age > clockUsable/2 {
			m.redis, m.local, m.trip = redis, m.tried, trip
		}
	}
	c.byShard.Add(shard, m)
	return m
}
