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
)

const (
	// DefaultInterval is how long a change of a coupon takes at most to reach the doors.
	DefaultInterval = 5 * time.Second

	// MaxCoupons bounds memory and the snapshot, about 3 MB. Of more, those are kept that can still be applied for,
	// closing soonest first, then the ones that closed last.
	MaxCoupons = 10_000
	_          = uint(candidates.MaxRemembered - 2*MaxCoupons) // does not compile where a process forgets coupons it holds

	// readTimeout is for one reading from MySQL; what remains of refreshTimeout is for Redis when MySQL hangs.
	readTimeout    = 4 * time.Second
	refreshTimeout = 12 * time.Second
	// recallAfter a reading of MySQL has taken so long, Redis is looked after without it: whom another server of Redis lacks
	// must be back within candidates.PutBackTime, and nobody waits for MySQL with that.
	recallAfter = time.Second
	// publishTimeout and snapshotTimeout bound one call of Redis each: a shard that hangs must not take the time of the
	// others, nor of the next refresh.
	publishTimeout  = time.Second
	snapshotTimeout = 2 * time.Second

	// publishers leave most of the connections to Redis to the applicants.
	publishers = 8

	// maxErrors is how many failures of single coupons an error names: all of them would fill the log with one cause.
	maxErrors = 5
)

// Store is what the catalog needs of Redis.
type Store interface {
	Publish(ctx context.Context, w coupon.Window, known coupon.Promise) (now coupon.Promise, published bool, err error)
	SaveCatalog(ctx context.Context, snapshot []byte) error
	CatalogHead(ctx context.Context, bytes int64) ([]byte, error)
	LoadCatalog(ctx context.Context) ([]byte, error)
	Recall(ctx context.Context) error
	Seen(couponID coupon.CouponID) coupon.Promise
}

// Options are what a Catalog works with.
type Options struct {
	DB       *sql.DB // with the session settings of package connect
	Store    Store
	Logger   *zap.Logger
	Interval time.Duration    // between refreshes; DefaultInterval when zero
	Now      func() time.Time // for Age alone
}

// Catalog holds the coupons. It is safe for concurrent use.
type Catalog struct {
	Options
	held atomic.Pointer[holding]
	sent atomic.Bool // see WindowsSent

	refreshing sync.Mutex
}

// reading is the state of all coupons at one moment.
type reading struct {
	Digest  string          `json:"digest"` // of the coupons, first in the snapshot: see saveSnapshot
	At      time.Time       `json:"at"`     // MySQL's clock
	Coupons []coupon.Coupon `json:"coupons"`
}

// holding is what Lookup sees. It is never changed, only replaced.
type holding struct {
	byID   map[coupon.CouponID]coupon.Coupon
	readAt time.Time // MySQL's clock
	seenAt time.Time // this process's clock when it last read MySQL itself; zero if it never has
}

// New returns an empty catalog: Refresh or Run fills it.
func New(o Options) *Catalog {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	return &Catalog{Options: o}
}

// Lookup returns a coupon as it was last seen.
func (c *Catalog) Lookup(id uint64) (coupon.Coupon, bool) {
	h := c.held.Load()
	if h == nil {
		return coupon.Coupon{}, false
	}
	one, ok := h.byID[id]
	return one, ok
}

// Loaded says whether the coupons are known, be it from the snapshot.
func (c *Catalog) Loaded() bool { return c.held.Load() != nil }

// Told says whether the doors in Redis have been told their windows since this process began, all but those that could not
// be reached; a snapshot is of a process that has told them. Before that an applicant would hear that a door knows nothing.
func (c *Catalog) WindowsSent() bool { return c.sent.Load() }

// Age is how long ago this process last read the coupons from MySQL; false when it never has.
func (c *Catalog) Age() (time.Duration, bool) {
	h := c.held.Load()
	if h == nil || h.seenAt.IsZero() {
		return 0, false
	}
	return c.Now().Sub(h.seenAt), true
}

// Run refreshes now and then at every interval until ctx ends. A refresh that fails is logged, and the next one tries
// again.
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

// Refresh does one round: coupons from MySQL to memory, doors and snapshot, and promises both ways. When MySQL is away
// it falls back on the snapshot, and says so. What fails for one coupon does not stop the others. Safe to repeat.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()

	now, err := c.readOrRecall(ctx)
	if now == nil {
		return errors.Join(err, c.loadSnapshot(ctx))
	}
	// The doors first: nobody is let in here before the door knows the window and the promises that MySQL remembers.
	risen, publishErr := c.publish(ctx, now)
	c.hold(now, c.Now())
	return errors.Join(err, publishErr, c.raisePromises(ctx, risen), c.saveSnapshot(ctx, now))
}

// readOrRecall reads. Where that fails or takes long, it has people put back whom another server of Redis lacks, which telling
// the doors would do otherwise.
func (c *Catalog) readOrRecall(ctx context.Context) (now *reading, err error) {
	recalled := make(chan error, 1)
	recall := time.AfterFunc(recallAfter, func() { recalled <- c.Store.Recall(ctx) })
	now, err = c.read(ctx)
	switch {
	case !recall.Stop():
		return now, errors.Join(err, <-recalled)
	case now == nil:
		return nil, errors.Join(err, c.Store.Recall(ctx))
	default:
		return now, err
	}
}

func (c *Catalog) hold(r *reading, at time.Time) {
	byID := make(map[coupon.CouponID]coupon.Coupon, len(r.Coupons))
	for _, one := range r.Coupons {
		byID[one.ID] = one
	}
	c.held.Store(&holding{readAt: r.At, byID: byID, seenAt: at})
}

// loadSnapshot takes over what another process has read, if it is newer than what this one has.
func (c *Catalog) loadSnapshot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	r, err := readSnapshot(ctx, c.Store)
	if err != nil || r == nil {
		return err
	}
	c.sent.Store(true)
	h := c.held.Load()
	switch {
	case h == nil:
		c.hold(r, time.Time{})
	case r.At.After(h.readAt):
		c.hold(r, h.seenAt)
	}
	return nil
}

// publish tells every door its window, and returns the promises that are higher there than in MySQL. A door that goes by a
// newer version has heard of a change that this reading came too early for.
func (c *Catalog) publish(ctx context.Context, r *reading) (risen []raised, err error) {
	var (
		mu     sync.Mutex // guards what follows
		failed failures
		told   int // doors

		coupons = make(chan coupon.Coupon)
		workers sync.WaitGroup
	)
	for range publishers {
		workers.Go(func() {
			for one := range coupons {
				known := one.Promise
				promise, _, err := c.tell(ctx, one.Window(), known)
				mu.Lock()
				if err == nil {
					told++
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
	var late []raised // of coupons that are over: what this process was too late to say
	for _, one := range r.Coupons {
		if !one.Finalised() {
			coupons <- one
		} else if seen := c.Store.Seen(one.ID); seen.Accepted > one.Promise.Accepted {
			late = append(late, raised{one.ID, seen})
		}
	}
	close(coupons)
	workers.Wait()
	for _, l := range late {
		c.Logger.Error("a coupon is over without applications that this process has seen accepted: settle verify counts them",
			zap.Uint64("coupon_id", l.coupon), zap.Int64("accepted", l.promise.Accepted))
	}
	risen = append(risen, late...)
	if told > 0 || failed.count == 0 {
		c.sent.Store(true)
	}
	return risen, failed.join()
}

// tell tells one door its window. Of a shard that hangs the first few calls take their time, the others fail at once.
func (c *Catalog) tell(ctx context.Context, w coupon.Window, known coupon.Promise) (now coupon.Promise, published bool, err error) {
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
