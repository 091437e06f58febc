// Package catalog reads the coupons from MySQL, and keeps them in the memory of the process and in Redis.
//
// # Data flow of a coupon
//
//	row in MySQL ── Refresh ──▶ memory of this process: Lookup
//	                   ├──────▶ window in Redis, unless the coupon is finalised
//	                   ├──────▶ snapshot of all coupons in Redis
//	promise row  ◀── Refresh ──▶ promise in Redis: each side gets the higher of both values
//
// The catalog has a coupon from 30 days before it opens until 30 days after it closes. A refresh writes only what has
// changed. The time in a snapshot is therefore the time when its content was first read.
//
// # Authority
//
// MySQL is the source of truth. Only a process that cannot reach MySQL loads the snapshot. A snapshot never replaces a
// newer reading of MySQL, and no window is published from it. The numbers of a promise only rise. A Redis that lost
// data gets them back at the next refresh, which also detects a failover: see package candidates. If fewer applications
// wait than were accepted, package missing finds out whether any are lost.
//
// # Order of changes
//
// A window has the version of its coupon row. Each change of window or status raises the version under the row's lock,
// and Redis keeps the newest version, so that a slow process cannot publish an older window. If two windows have the
// same version, the later one counts: a change by hand that left the version as it was still reaches Redis. After three
// minutes, which is longer than any refresh or COMMIT, Redis accepts an older version: the newer one was not committed,
// or MySQL was restored from a backup.
//
// # Crashes
//
// A crash leaves nothing to finish: the next refresh of any process repeats every step. While MySQL is away, the
// coupons in memory stay. A process that starts without MySQL and Redis has no coupons: Loaded returns false.
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
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/missing"
	"github.com/jajeong/jajeong/internal/recall"
)

const (
	// DefaultInterval is the longest time until a change of a coupon reaches Redis.
	DefaultInterval = 5 * time.Second

	// Ahead is how long before its opening a coupon is in the catalog, so that pages can count down to it.
	// selectCoupons has it, too.
	Ahead = 30 * 24 * time.Hour

	// soonInterval is the time until the next refresh while a loss is suspected, or may have ended.
	soonInterval = 2 * time.Second

	// MaxCoupons bounds memory and the snapshot (about 3 MB). Open coupons come first, then those that closed last.
	MaxCoupons = 10_000
	_          = uint(recall.MaxCoupons - 2*MaxCoupons) // compiles only if recall remembers twice as many coupons

	// readTimeout is shorter than refreshTimeout, so that time is left for Redis when MySQL hangs.
	readTimeout    = 4 * time.Second
	refreshTimeout = 12 * time.Second
	// After recallAfter without MySQL, a refresh puts back lost applications. A settlement waits only 10 s for them.
	recallAfter = time.Second
	// publishTimeout and snapshotTimeout bound one call to Redis: a shard that hangs must leave time for the others.
	publishTimeout  = time.Second
	snapshotTimeout = 2 * time.Second

	// publishers is the number of concurrent calls to Redis: most connections remain for applications.
	publishers = 8

	maxErrors = 5
)

type Store interface {
	Publish(ctx context.Context, w coupon.Window,
		known coupon.Promise) (now candidates.Published, published bool, err error)
	SaveCatalog(ctx context.Context, snapshot []byte) error
	CatalogHead(ctx context.Context, bytes int64) ([]byte, error)
	LoadCatalog(ctx context.Context) ([]byte, error)
}

// Memory remembers which applications this process has seen accepted, and puts back lost ones.
type Memory interface {
	Recall(ctx context.Context) error
	Seen(couponID coupon.CouponID) candidates.Seen
}

// Finder looks for accepted applications that are missing.
type Finder interface {
	Find(ctx context.Context, looks []missing.Look) error
	Open() bool
}

type Options struct {
	DB       *sql.DB // opened by package connect
	Store    Store
	Memory   Memory // remembers applications in Store
	Missing  Finder // nil: nobody looks for missing applications
	Logger   *zap.Logger
	Interval time.Duration    // time between refreshes; zero: DefaultInterval
	Now      func() time.Time // for Age and Reading.SeenAt only
}

// Catalog holds the coupons. It is safe for concurrent use.
type Catalog struct {
	Options
	content atomic.Pointer[content]
	sent    atomic.Bool // see Published

	refreshing sync.Mutex
}

type reading struct {
	// SHA-256 of Zone and Coupons; first in the JSON, where saveSnapshot reads it.
	Digest  string          `json:"digest"`
	At      time.Time       `json:"at"`   // time of the reading by MySQL's clock
	Zone    string          `json:"zone"` // time zone of the nights
	Coupons []coupon.Coupon `json:"coupons"`

	zone *time.Location // named Zone
}

// content is what a Catalog has in memory. It is never changed, only replaced as a whole.
type content struct {
	byID   map[coupon.CouponID]coupon.Coupon
	read   map[coupon.CouponID]coupon.Reading // last reading of each coupon that this process has published
	zone   *time.Location                     // time zone of the nights
	readAt time.Time                          // time of the reading by MySQL's clock
	seenAt time.Time                          // when this process last read MySQL, by its own clock; zero: never
}

func New(o Options) *Catalog {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	return &Catalog{Options: o}
}

func (c *Catalog) Lookup(id coupon.CouponID) (coupon.Coupon, bool) {
	h := c.content.Load()
	if h == nil {
		return coupon.Coupon{}, false
	}
	one, ok := h.byID[id]
	return one, ok
}

// Read returns a coupon, and what Redis said of it when this process last published its window. If this process has not
// published it, the reading has the time when the coupon was read from MySQL, and nothing else.
func (c *Catalog) Read(id coupon.CouponID) (one coupon.Coupon, r coupon.Reading, ok bool) {
	h := c.content.Load()
	if h == nil {
		return one, r, false
	}
	one, ok = h.byID[id]
	r, published := h.read[id]
	if !published {
		r = coupon.Reading{Now: h.readAt, Sold: one.SoldOut()}
	}
	return one, r, ok
}

// Zone returns the time zone of the nights; UTC before there are coupons.
func (c *Catalog) Zone() *time.Location {
	if h := c.content.Load(); h != nil {
		return h.zone
	}
	return time.UTC
}

// Loaded reports whether the catalog has coupons, from MySQL or from the snapshot.
func (c *Catalog) Loaded() bool { return c.content.Load() != nil }

// Published returns an error until this process has published windows, or a snapshot shows that another process has.
func (c *Catalog) Published() error {
	if !c.sent.Load() {
		return errors.New("catalog: no window has been sent to Redis yet")
	}
	return nil
}

// Age returns the time since this process last read the coupons from MySQL, and false if it never did.
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
	soon := time.NewTimer(c.Interval)
	defer soon.Stop()
	for {
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.Logger.Warn("catalog refresh failed", zap.Error(err))
		}
		if soon.Stop(); c.Missing != nil && c.Missing.Open() {
			soon.Reset(soonInterval)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-soon.C:
		}
	}
}

// Refresh copies the coupons from MySQL to memory and Redis, and the promises both ways. Without MySQL, it loads the
// snapshot and returns an error. A coupon that fails does not stop the others. Refresh is safe to repeat.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()

	now, err := c.readOrRecall(ctx)
	if now == nil {
		return errors.Join(err, c.loadSnapshot(ctx))
	}
	// Windows go first: this process must not take applications before Redis has the window and the promise of MySQL.
	risen, read, looks, publishErr := c.publish(ctx, now)
	c.replace(now, read, c.Now())
	return errors.Join(err, publishErr, c.raisePromises(ctx, risen), c.findMissing(ctx, looks),
		c.saveSnapshot(ctx, now))
}

// findMissing comes after raisePromises: what was accepted before this refresh is then in MySQL, too.
func (c *Catalog) findMissing(ctx context.Context, looks []missing.Look) error {
	if c.Missing == nil {
		return nil
	}
	return c.Missing.Find(ctx, looks)
}

// readOrRecall reads the coupons. If MySQL fails or is slow, it puts back lost applications; else publish does so.
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

func (c *Catalog) replace(r *reading, read map[coupon.CouponID]coupon.Reading, at time.Time) {
	byID := make(map[coupon.CouponID]coupon.Coupon, len(r.Coupons))
	for _, one := range r.Coupons {
		byID[one.ID] = one
	}
	c.content.Store(&content{zone: r.zone, readAt: r.At, byID: byID, read: read, seenAt: at})
}

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
		c.replace(r, nil, time.Time{})
	case r.At.After(h.readAt):
		c.replace(r, h.read, h.seenAt)
	}
	return nil
}

// publish sends every window to Redis. It returns the promises that are higher than those in MySQL, and what Redis said
// of each coupon. A coupon that fails keeps its older reading.
func (c *Catalog) publish(ctx context.Context,
	r *reading) (risen []raised, read map[coupon.CouponID]coupon.Reading, looks []missing.Look, err error) {
	read = c.earlier(r)
	var mu sync.Mutex // guards failed, risen, read and looks
	var failed failures
	var workers errgroup.Group
	workers.SetLimit(publishers)
	var late []raised // promises of coupons that were finalised before this process wrote the promise
	sending := 0
	for _, one := range r.Coupons {
		if one.Finalised() {
			if seen := c.Memory.Seen(one.ID).Promise(); seen.Accepted > one.Promise.Accepted {
				late = append(late, raised{one.ID, seen})
			}
			continue
		}
		sending++
		workers.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, publishTimeout)
			defer cancel()
			known := one.Promise
			began := c.Now()
			now, _, err := c.Store.Publish(ctx, one.Window(), known)
			now.SeenAt = began.Add(c.Now().Sub(began) / 2)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed.add(err)
				looks = append(looks, missing.Look{Coupon: one.ID, Unread: true})
				return nil
			}
			read[one.ID] = now.Reading
			looks = append(looks, missing.Look{Coupon: one.ID, Suspected: now.Accepted-now.Twice > now.Waiting,
				Now: now.Reading.Now})
			if now.Accepted > known.Accepted || now.LastArrival > known.LastArrival || now.Twice > known.Twice ||
				now.Accepted > 0 && now.Since > known.Since {
				risen = append(risen, raised{one.ID, now.Promise})
			}
			return nil
		})
	}
	_ = workers.Wait() // failed has the errors
	for _, l := range late {
		c.Logger.Error(
			"a coupon was finalised without applications that this process has seen accepted; "+
				"settle verify counts them",
			zap.Uint64("coupon_id", uint64(l.coupon)), zap.Int64("accepted", l.promise.Accepted))
	}
	if sending == 0 || failed.count < sending {
		c.sent.Store(true)
	}
	return append(risen, late...), read, looks, failed.join()
}

// earlier returns the readings of the coupons that are published now.
func (c *Catalog) earlier(r *reading) map[coupon.CouponID]coupon.Reading {
	read := make(map[coupon.CouponID]coupon.Reading, len(r.Coupons))
	h := c.content.Load()
	if h == nil {
		return read
	}
	for _, one := range r.Coupons {
		if before, ok := h.read[one.ID]; ok && !one.Finalised() {
			read[one.ID] = before
		}
	}
	return read
}

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
