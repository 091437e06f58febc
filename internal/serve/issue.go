package serve

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// refreshInterval is the longest time until the task knows a new or changed coupon.
	refreshInterval = 5 * time.Second
	// refreshTimeout bounds one reading of the coupons, so that servers that hang do not end the refreshes.
	refreshTimeout = 4 * time.Second
	// ahead is how long before its opening a coupon is listed: two refreshes, of which one may fail.
	ahead = 10 * time.Second
	// clockMargin is how far the clocks of two shards may differ.
	clockMargin = time.Second
	// lookTimeout bounds one look. A shard that hangs delays only its own coupons.
	lookTimeout = time.Second
)

// Store is the part of Redis that the task reads.
type Store interface {
	// Now returns the Redis clock.
	Now(ctx context.Context) (time.Time, error)
	// Waiting returns the coupons with a queue that is not empty. With an error, coupons may be missing.
	Waiting(ctx context.Context, coupons []coupon.CouponID) ([]coupon.CouponID, error)
	// Shard names the shard of a coupon; "" if there is only one.
	Shard(couponID coupon.CouponID) string
	// QueueStats reads queues for the metrics. Coupons that cannot be read are missing.
	QueueStats(ctx context.Context, coupons []coupon.CouponID) map[coupon.CouponID]candidates.QueueStats
}

// Issuer settles one coupon.
type Issuer interface {
	// IssueNow issues what waits in the queue. After the end of stop it finishes its transaction within a grace period.
	IssueNow(stop context.Context, couponID coupon.CouponID) settle.Issuance
}

// Coupons lists the immediate coupons.
type Coupons interface {
	Coupons(ctx context.Context, now time.Time, ahead time.Duration, limit int) ([]Coupon, error)
}

// Config is what the task needs. Every field is required.
type Config struct {
	Coupons  Coupons
	Store    Store
	Issuer   Issuer
	Interval time.Duration // between two looks at the queues
	Parallel int           // number of coupons settled at the same time
	Locks    *mysqltx.DB   // brief sessions that find out who keeps a coupon locked
	Now      func() time.Time
	Logger   *zap.Logger
}

// Issue is the task that issues immediate coupons. At each interval it looks once at all queues that may have
// applications, and settles the coupons whose queue is not empty. While there is no such queue, it looks at nothing.
//
// A refresh in the background reads from MySQL which coupons there are. While it fails, the last list stays: the task
// needs MySQL only to issue.
type Issue struct {
	Config
	measured *measured
	locks    *locks
	latest   atomic.Pointer[list] // list of the last refresh, for the metrics; nil: there was none
}

func New(c Config) (*Issue, error) {
	if c.Coupons == nil || c.Store == nil || c.Issuer == nil || c.Interval <= 0 || c.Parallel < 1 || c.Locks == nil ||
		c.Now == nil || c.Logger == nil {
		return nil, errors.New("serve: a field of Config is missing")
	}
	return &Issue{Config: c, measured: newMeasured(c.Interval),
		locks: newLocks(c.Locks.Pool(), "issue", lockCouponSQL, c.Now, c.Logger)}, nil
}

// list has the coupons of one refresh. It does not change.
type list struct {
	coupons []Coupon
	redis   time.Time // when the refresh began, by the Redis clock
	at      time.Time // the same moment by the clock of the process
	cut     bool      // there are more than MaxCoupons
}

// now returns the Redis clock, without asking Redis.
func (l *list) now(process time.Time) time.Time { return l.redis.Add(process.Sub(l.at)) }

// Run issues until ctx ends, and then waits for the current runs.
func (t *Issue) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	l := newLoop(t)
	var background sync.WaitGroup
	defer background.Wait()
	defer t.locks.watch.Wait()
	defer cancel() // also after a panic of the loop
	defer close(l.over)
	background.Go(func() {
		t.keepListing(ctx, func(found *list) { l.tell(func() { l.adopt(ctx, found) }) })
	})
	l.run(ctx)
	return nil
}

// keepListing refreshes the list until ctx ends.
func (t *Issue) keepListing(ctx context.Context, adopt func(*list)) {
	var pause pause
	for failing, cut := false, false; ; {
		found, err := t.read(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := refreshInterval
		if err == nil {
			pause.reset()
			t.latest.Store(found)
			adopt(found)
			t.noteCut(cut, found.cut)
			cut = found.cut
		} else {
			wait = pause.next(maxPause)
		}
		switch {
		case err != nil && !failing:
			t.Logger.Warn("immediate coupons not listed; the last list stays", zap.Error(err))
		case err == nil && failing:
			t.Logger.Info("immediate coupons listed again")
		}
		failing = err != nil
		if sleep.For(ctx, wait) != nil {
			return
		}
	}
}

// noteCut logs when the list begins or ceases to lack coupons.
func (t *Issue) noteCut(was, is bool) {
	switch {
	case is && !was:
		t.Logger.Error("more immediate coupons than this process looks at; the last to close are left out",
			zap.Int("kept", MaxCoupons))
	case was && !is:
		t.Logger.Info("no immediate coupon is left out any more")
	}
}

func (t *Issue) read(ctx context.Context) (found *list, err error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	return found, recovering(func() error {
		at := t.Now()
		redis, err := t.Store.Now(ctx)
		if err != nil {
			return err
		}
		coupons, err := t.Coupons.Coupons(ctx, redis, ahead, MaxCoupons+1)
		if err != nil {
			return err
		}
		found = &list{coupons[:min(len(coupons), MaxCoupons)], redis, at, len(coupons) > MaxCoupons}
		return nil
	})
}
