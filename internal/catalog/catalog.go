// Package catalog reads the coupons from MySQL, and keeps them in the memory of the process and in Redis.
//
// # Data flow of a coupon
//
//	row in MySQL ── Refresh ──▶ memory of this process: Lookup
//	                   ├──────▶ window in Redis, unless the coupon is finalised
//	                   ├──────▶ snapshot of all coupons in Redis
//	journal row  ── Refresh ──▶ package handover: which answers the process may forget
//	             ◀── Refresh ── count of Redis, if the journal is late
//
// The catalog has a coupon from 30 days before it opens until 30 days after it closes. A refresh writes only what has
// changed. The time in a snapshot is therefore the time when its content was first read.
//
// # Authority
//
// MySQL is the source of truth. Only a process that cannot reach MySQL loads the snapshot. A snapshot never replaces a
// newer reading of MySQL, and no window is published from it.
//
// # Journal
//
// `settle serve` copies the line of each coupon into the journal once a second, and notes the count of accepted
// applications. Publishing a window lifts the arrivals of Redis above those that MySQL knows. The reply tells the
// process's memory whether another server has taken over, or a restore has ended. Only then does the memory learn how
// far the journal came, so that it forgets nobody whom it has to hand over first.
//
// If the journal is more than five seconds old, refreshes note the count, so that a loss is noticed although nobody
// copied the line. If it is more than a minute old, only the memory of the processes has what it lacks: JournalLate
// says so, and the log.
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
	"github.com/jajeong/jajeong/internal/promise"
)

const (
	// DefaultInterval is the longest time until a change of a coupon reaches Redis.
	DefaultInterval = 5 * time.Second

	// Ahead is how long before its opening a coupon is in the catalog, so that pages can count down to it.
	// selectCoupons has it, too.
	Ahead = 30 * 24 * time.Hour

	// MaxCoupons bounds memory and the snapshot (about 3 MB). Open coupons come first, then those that closed last.
	MaxCoupons = 10_000

	// readTimeout is shorter than refreshTimeout, so that time is left for Redis when MySQL hangs.
	readTimeout    = 4 * time.Second
	refreshTimeout = 12 * time.Second
	// publishTimeout and snapshotTimeout bound one call to Redis: a shard that hangs must leave time for the others.
	publishTimeout  = time.Second
	snapshotTimeout = 2 * time.Second

	// publishers is the number of concurrent calls to Redis: most connections remain for applications.
	publishers = 8

	maxErrors = 5
)

type Store interface {
	Publish(ctx context.Context, w coupon.Window,
		known coupon.Arrival) (now candidates.Published, published bool, err error)
	SaveCatalog(ctx context.Context, snapshot []byte) error
	CatalogHead(ctx context.Context, bytes int64) ([]byte, error)
	LoadCatalog(ctx context.Context) ([]byte, error)
}

// Memory remembers what this process has told applicants. handover.Memory implements it.
type Memory interface {
	Journalled(couponID coupon.CouponID, mark promise.Mark) // how far the journal came, as MySQL says now
	Forget(couponID coupon.CouponID)                        // all applications of the coupon have their outcomes
}

type Options struct {
	DB       *sql.DB // opened by package connect
	Store    Store
	Memory   Memory // the Recorder of Store
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
	late       bool // the last refresh found that a journal is late; guarded by refreshing
}

type reading struct {
	// SHA-256 of Zone and Coupons; first in the JSON, where saveSnapshot reads it.
	Digest  string          `json:"digest"`
	At      time.Time       `json:"at"`   // time of the reading by MySQL's clock
	Zone    string          `json:"zone"` // time zone of the nights
	Coupons []coupon.Coupon `json:"coupons"`

	zone     *time.Location                 // named Zone
	journals map[coupon.CouponID]journalRow // of coupons that are not finalised
}

// content is what a Catalog has in memory. It is never changed, only replaced as a whole.
type content struct {
	byID   map[coupon.CouponID]coupon.Coupon
	read   map[coupon.CouponID]coupon.Reading // last reading of each coupon that this process has published
	zone   *time.Location                     // time zone of the nights
	readAt time.Time                          // time of the reading by MySQL's clock
	seenAt time.Time                          // when this process last read MySQL, by its own clock; zero: never
	behind map[coupon.CouponID]time.Time      // since when a journal lacks applications, by the clock of the process
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

// Refresh copies the coupons from MySQL to memory and Redis. Without MySQL, it loads the snapshot and returns an error.
// A coupon that fails does not stop the others. Refresh is safe to repeat.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	defer c.logLateJournal()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()

	now, err := c.read(ctx)
	if now == nil {
		return errors.Join(err, c.loadSnapshot(ctx))
	}
	// Windows go first: this process must not take applications before Redis has the window and the arrivals of MySQL.
	published, publishErr := c.publish(ctx, now)
	c.replace(now, published)
	c.tellMemory(now, published)
	return errors.Join(err, publishErr, c.raiseAccepted(ctx, now, published), c.saveSnapshot(ctx, now))
}

// replace replaces what is in memory by what MySQL and Redis have said now.
func (c *Catalog) replace(r *reading, published map[coupon.CouponID]candidates.Published) {
	read := c.earlier(r)
	for id, now := range published {
		read[id] = now.Reading
	}
	at := c.Now()
	c.store(r, content{read: read, seenAt: at, behind: c.behind(r, published, at)})
}

// store replaces what is in memory by r and rest.
func (c *Catalog) store(r *reading, rest content) {
	rest.byID = make(map[coupon.CouponID]coupon.Coupon, len(r.Coupons))
	for _, one := range r.Coupons {
		rest.byID[one.ID] = one
	}
	rest.zone, rest.readAt = r.zone, r.At
	c.content.Store(&rest)
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
		c.store(r, content{})
	case r.At.After(h.readAt):
		c.store(r, content{read: h.read, seenAt: h.seenAt, behind: h.behind})
	}
	return nil
}

// publish sends every window to Redis, and returns what Redis said of each coupon.
func (c *Catalog) publish(ctx context.Context,
	r *reading) (published map[coupon.CouponID]candidates.Published, err error) {
	published = make(map[coupon.CouponID]candidates.Published, len(r.Coupons))
	var mu sync.Mutex // guards failed and published
	var failed failures
	var workers errgroup.Group
	workers.SetLimit(publishers)
	sending := 0
	for _, one := range r.Coupons {
		if one.Finalised() {
			continue
		}
		sending++
		workers.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, publishTimeout)
			defer cancel()
			began := c.Now()
			now, _, err := c.Store.Publish(ctx, one.Window(), one.Known)
			now.SeenAt = began.Add(c.Now().Sub(began) / 2)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed.add(err)
				return nil
			}
			published[one.ID] = now
			return nil
		})
	}
	_ = workers.Wait() // failed has the errors
	if sending == 0 || failed.count < sending {
		c.sent.Store(true)
	}
	return published, failed.join()
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
