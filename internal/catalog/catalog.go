package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/recall"
)

const (
	// DefaultInterval is the longest time until a change of a coupon reaches Redis.
	DefaultInterval = 5 * time.Second

	// MaxCoupons bounds memory and the snapshot, about 3 MB. Open coupons are kept first, those that close soonest before
	// others, then the coupons that closed last.
	MaxCoupons = 10_000
	_          = uint(recall.MaxCoupons - 2*MaxCoupons) // does not compile if a process could forget coupons of its catalog

	// readTimeout bounds one reading from MySQL. It leaves time of refreshTimeout for Redis when MySQL hangs.
	readTimeout    = 4 * time.Second
	refreshTimeout = 12 * time.Second
	// recallAfter is when a refresh stops waiting for MySQL before it restores applications that a failover of Redis lost:
	// they must be restored within the time that the fence gives.
	recallAfter = time.Second
	// publishTimeout and snapshotTimeout bound one call of Redis each, so that a shard that hangs does not use up the time of
	// the other shards or of the next refresh.
	publishTimeout  = time.Second
	snapshotTimeout = 2 * time.Second

	// publishers is the number of concurrent calls. It leaves most connections to Redis for applications.
	publishers = 8

	// maxErrors is how many failures of single coupons an error names.
	maxErrors = 5
)

// Store is the part of Redis that the catalog uses.
type Store interface {
	Publish(ctx context.Context, w coupon.Window, known coupon.Promise) (now coupon.Promise, published bool, err error)
	SaveCatalog(ctx context.Context, snapshot []byte) error
	CatalogHead(ctx context.Context, bytes int64) ([]byte, error)
	LoadCatalog(ctx context.Context) ([]byte, error)
}

// Memory is what this process has seen of promises, and puts back.
type Memory interface {
	Recall(ctx context.Context) error
	Seen(couponID coupon.CouponID) candidates.Seen
}

// Options are what a Catalog works with.
type Options struct {
	DB       *sql.DB // opened by package connect
	Store    Store
	Memory   Memory // of Store
	Logger   *zap.Logger
	Interval time.Duration    // between refreshes; DefaultInterval when zero
	Now      func() time.Time // for Age only
}

// Catalog holds the coupons. It is safe for concurrent use.
type Catalog struct {
	Options
	content atomic.Pointer[content]
	sent    atomic.Bool // see WindowsSent

	refreshing sync.Mutex
}

// reading is the state of all coupons at one moment.
type reading struct {
	Digest  string          `json:"digest"` // of the coupons, first in the snapshot: see saveSnapshot
	At      time.Time       `json:"at"`     // MySQL's clock
	Coupons []coupon.Coupon `json:"coupons"`
}

// content is what a Catalog has read. It is never changed, only replaced.
type content struct {
	byID   map[coupon.CouponID]coupon.Coupon
	readAt time.Time // MySQL's clock
	seenAt time.Time // clock of this process at its last reading of MySQL; zero: none
}

// New returns an empty catalog, which Refresh or Run fills.
func New(o Options) *Catalog {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	return &Catalog{Options: o}
}

// Lookup returns a coupon as it was last read.
func (c *Catalog) Lookup(id uint64) (coupon.Coupon, bool) {
	h := c.content.Load()
	if h == nil {
		return coupon.Coupon{}, false
	}
	one, ok := h.byID[id]
	return one, ok
}

// Loaded reports whether the catalog has coupons, from MySQL or from the snapshot.
func (c *Catalog) Loaded() bool { return c.content.Load() != nil }

// WindowsSent reports whether the windows have reached Redis since this process started, except for unreachable shards. A
// snapshot proves it too: the process that saved it had sent them. Before that, applications are answered 503.
func (c *Catalog) WindowsSent() bool { return c.sent.Load() }

// Age is the time since this process last read the coupons from MySQL; false: never.
func (c *Catalog) Age() (time.Duration, bool) {
	h := c.content.Load()
	if h == nil || h.seenAt.IsZero() {
		return 0, false
	}
	return c.Now().Sub(h.seenAt), true
}

// Run refreshes immediately and then at every interval until ctx ends. It logs failed refreshes.
func (c *Catalog) Run(ctx context.Context) {
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for {
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.Logger.Warn("catalog refresh failed", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Refresh copies the coupons from MySQL to memory, windows and snapshot, and the promises both ways. While MySQL is
// unreachable, it loads the snapshot and returns an error. The failure of one coupon does not stop the others. Safe to repeat.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()

	now, err := c.readOrRecall(ctx)
	if now == nil {
		return errors.Join(err, c.loadSnapshot(ctx))
	}
	// Windows first: this process takes no application before Redis has the window and the promise of MySQL.
	risen, publishErr := c.publish(ctx, now)
	c.replace(now, c.Now())
	return errors.Join(err, publishErr, c.raisePromises(ctx, risen), c.saveSnapshot(ctx, now))
}

// readOrRecall reads the coupons. If that fails or takes long, it restores applications that a failover of Redis lost, which
// publish would do otherwise.
func (c *Catalog) readOrRecall(ctx context.Context) (now *reading, err error) {
	recalled := make(chan error, 1)
	recall := time.AfterFunc(recallAfter, func() { recalled <- c.Memory.Recall(ctx) })
	now, err = c.read(ctx)
	switch {
	case !recall.Stop():
		return now, errors.Join(err, <-recalled)
	case now == nil:
		return nil, errors.Join(err, c.Memory.Recall(ctx))
	default:
		return now, err
	}
}

func (c *Catalog) replace(r *reading, at time.Time) {
	byID := make(map[coupon.CouponID]coupon.Coupon, len(r.Coupons))
	for _, one := range r.Coupons {
		byID[one.ID] = one
	}
	c.content.Store(&content{readAt: r.At, byID: byID, seenAt: at})
}

// loadSnapshot takes over the reading of another process if it is newer.
func (c *Catalog) loadSnapshot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	r, err := readSnapshot(ctx, c.Store)
	if err != nil || r == nil {
		return err
	}
	c.sent.Store(true)
	h := c.content.Load()
	switch {
	case h == nil:
		c.replace(r, time.Time{})
	case r.At.After(h.readAt):
		c.replace(r, h.seenAt)
	}
	return nil
}

// publish sends every window to Redis, and returns the promises that are higher there than in MySQL. A newer version in Redis
// is of a change that was made after this reading.
func (c *Catalog) publish(ctx context.Context, r *reading) (risen []raised, err error) {
	var (
		mu        sync.Mutex // guards failed, published and risen
		failed    failures
		published int

		coupons = make(chan coupon.Coupon)
		workers sync.WaitGroup
	)
	for range publishers {
		workers.Go(func() {
			for one := range coupons {
				known := one.Promise
				promise, _, err := c.publishOne(ctx, one.Window(), known)
				mu.Lock()
				if err == nil {
					published++
				}
				switch {
				case err != nil:
					failed.add(err)
				case promise.Accepted > known.Accepted || promise.LastArrival > known.LastArrival ||
					promise.Twice > known.Twice || promise.Accepted > 0 && promise.Since > known.Since:
					risen = append(risen, raised{one.ID, promise})
				}
				mu.Unlock()
			}
		})
	}
	var late []raised // promises of finalised coupons that this process did not write in time
	for _, one := range r.Coupons {
		if !one.Finalised() {
			coupons <- one
		} else if seen := c.Memory.Seen(one.ID).Promise(); seen.Accepted > one.Promise.Accepted {
			late = append(late, raised{one.ID, seen})
		}
	}
	close(coupons)
	workers.Wait()
	for _, l := range late {
		c.Logger.Error("a coupon was finalised without applications that this process has seen accepted; settle verify counts them",
			zap.Uint64("coupon_id", l.coupon), zap.Int64("accepted", l.promise.Accepted))
	}
	risen = append(risen, late...)
	if published > 0 || failed.count == 0 {
		c.sent.Store(true)
	}
	return risen, failed.join()
}

// publishOne sends one window to Redis. Of a shard that hangs, the first calls time out and the others fail immediately.
func (c *Catalog) publishOne(ctx context.Context, w coupon.Window, known coupon.Promise) (now coupon.Promise, published bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return c.Store.Publish(ctx, w, known)
}

// failures keep the first errors and count the rest.
type failures struct {
	first []error
	count int
}

func (f *failures) add(err error) {
	if f.count++; len(f.first) < maxErrors {
		f.first = append(f.first, err)
	}
}

func (f *failures) join() error {
	if more := f.count - len(f.first); more > 0 {
		return errors.Join(append(f.first, fmt.Errorf("and %d more coupons", more))...)
	}
	return errors.Join(f.first...)
}
