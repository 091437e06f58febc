package missing

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Store reads from Redis. candidates.Store implements it.
type Store interface {
	LinesWithoutMarks(ctx context.Context, coupons []coupon.CouponID) (map[coupon.CouponID]candidates.Line, error)
}

// Memory remembers what this process answered. recall.Memory implements it.
type Memory interface {
	// Doubt compares what is remembered of a coupon with Redis, and puts back what is missing there. It leaves out
	// arrivals up to settledUpTo.
	Doubt(couponID coupon.CouponID, settledUpTo coupon.Arrival)
}

// Options configure a Finder. Every field is required.
type Options struct {
	DB     *sql.DB // opened by package connect
	Store  Store
	Memory Memory
	Logger *zap.Logger
	Now    func() time.Time
}

const (
	// putBackTime is how long the number of missing promises does not rise after Redis has changed servers. All
	// processes notice the change within the time between two refreshes of the catalog, and then put back what they
	// remember.
	putBackTime = 4 * time.Second
	// maxTries is how often Find reads a coupon that a settlement changes meanwhile.
	maxTries = 3
	// maxLogged is how many coupons one call of Find names in the log: a loss may concern all of them.
	maxLogged = 100
)

// Finder finds missing promises. It is safe for concurrent use, and a prometheus.Collector.
type Finder struct {
	Options
	reading chan struct{} // bounds the readings of fresh

	books func(ctx context.Context, coupons ...coupon.CouponID) (map[coupon.CouponID]Books, error) // replaced in tests

	mu       sync.Mutex
	byCoupon map[coupon.CouponID]*state // of coupons in the catalog
	open     bool                       // the last call of Find left something to be read once more
}

func New(o Options) *Finder {
	f := &Finder{Options: o, reading: make(chan struct{}, maxFresh), byCoupon: map[coupon.CouponID]*state{}}
	f.books = func(ctx context.Context, coupons ...coupon.CouponID) (map[coupon.CouponID]Books, error) {
		return ReadBooks(ctx, o.DB, coupons...)
	}
	return f
}

// state is what a Finder remembers of a coupon.
type state struct {
	mu      sync.Mutex
	missing int64 // number in the metric
	last    int64 // number in the last reading; 0: none was missing
	doubted int64 // number for which this process has compared its memory with Redis

	books Books // as read last

	due    time.Time // since when this process has known that a restore is due; zero: none is
	dueFor int64     // promises that were missing then
	blind  time.Time // since when this process has seen no window in Redis; zero: there is one

	next  *fetch    // the reading that has not begun yet; nil: nobody waits for one
	busy  bool      // a goroutine reads
	began time.Time // when the last reading began
}

func (f *Finder) stateOf(id coupon.CouponID) *state {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.byCoupon[id]
	if s == nil {
		s = new(state)
		f.byCoupon[id] = s
	}
	return s
}

// Look is what a refresh of the catalog has seen of a coupon.
type Look struct {
	Coupon    coupon.CouponID
	Unread    bool      // Redis did not answer
	Suspected bool      // fewer applications wait than were accepted
	Now       time.Time // time on the clock of the coupon's Redis shard
}

// Find reads the suspected coupons, and updates metric and log. looks are all coupons that are not finalised: others
// are forgotten.
func (f *Finder) Find(ctx context.Context, looks []Look) error {
	var suspects []coupon.CouponID
	for _, l := range looks {
		if l.Suspected && !l.Unread {
			suspects = append(suspects, l.Coupon)
		}
	}
	found, err := f.compare(ctx, suspects)
	open := false
	var news []change
	for _, l := range looks {
		r, ok := found[l.Coupon]
		if l.Unread || l.Suspected && !ok {
			continue
		}
		c, settled := f.note(l, r)
		open = open || !settled
		if c.isNews() {
			news = append(news, c)
		}
	}
	f.tell(append(news, f.forgetAllBut(looks)...))
	f.mu.Lock()
	f.open = open
	f.mu.Unlock()
	return err
}

// note notes a reading of a coupon, and returns what changed by it.
func (f *Finder) note(l Look, r finding) (c change, settled bool) {
	s := f.stateOf(l.Coupon)
	if s.doubts(r) {
		f.Memory.Doubt(l.Coupon, r.books.SettledUpTo)
	}
	c, settled = s.observe(r, !r.putsBack(l.Now), f.Now())
	c.coupon = l.Coupon
	return c, settled
}

// Open reports whether a suspicion, or the end of a loss, waits for another reading. Find is then due earlier than
// usual.
func (f *Finder) Open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// finding is one reading of a coupon. It is zero if there was no suspicion.
type finding struct {
	read    bool
	line    candidates.Line
	books   Books // read after the line
	missing int64 // at least 0
	moved   bool  // a settlement ran meanwhile, so that more may be missing
}

func (r finding) accepted() int64 { return max(r.line.Accepted, r.books.Accepted) }

// putsBack reports whether processes may still put back what they remember. now is the time on the clock of Redis.
func (r finding) putsBack(now time.Time) bool {
	return r.line.Base > 0 && now.Before(r.line.Since.Time().Add(putBackTime))
}

// compare reads coupons by three calls for 500 of them.
func (f *Finder) compare(ctx context.Context, coupons []coupon.CouponID) (map[coupon.CouponID]finding, error) {
	all := make(map[coupon.CouponID]finding, len(coupons))
	var errs []error
	for range maxTries {
		var again []coupon.CouponID
		for chunk := range slices.Chunk(coupons, MaxRead) {
			before, err := f.books(ctx, chunk...)
			if err != nil {
				return all, errors.Join(append(errs, err)...)
			}
			lines, lineErr := f.Store.LinesWithoutMarks(ctx, chunk)
			after, err := f.books(ctx, chunk...)
			if err != nil {
				return all, errors.Join(append(errs, lineErr, err)...)
			}
			if lineErr != nil {
				errs = append(errs, lineErr)
			}
			for id, line := range lines {
				r := finding{true, line, after[id], max(0, Missing(before[id], line, after[id])),
					before[id].settled() != after[id].settled()}
				if all[id] = r; r.missing == 0 && r.moved {
					again = append(again, id)
				}
			}
		}
		coupons = again
	}
	return all, errors.Join(errs...)
}

// doubts reports whether another number is missing than when this process last looked for them in its memory. A lower
// number may be of others: those of the last time were put back, and further ones were lost.
func (s *state) doubts(r finding) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.doubted
	s.doubted = r.missing
	return r.missing > 0 && r.missing != before
}

// observe takes over a reading. The number of missing promises rises only if mayRise. settled is false if another
// reading must confirm this one.
func (s *state) observe(r finding, mayRise bool, local time.Time) (c change, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := r.missing
	if r.read {
		s.books = r.books
	}
	s.note(n, IsDue(r.line, n), local)
	low, high := min(s.last, n), max(s.last, n)
	if !mayRise {
		low = min(low, s.missing)
	}
	before := s.missing
	s.last, s.missing = n, min(max(s.missing, low), high)
	return change{before: before, missing: s.missing, accepted: r.accepted()}, s.missing == n
}

// note notes since when a restore is due. The caller holds s.mu.
func (s *state) note(missing int64, due bool, local time.Time) {
	switch {
	case !due:
		s.due, s.dueFor = time.Time{}, 0
	case s.due.IsZero() || missing > s.dueFor:
		s.due, s.dueFor = local, missing
	}
}

// change is a change of the number of missing promises.
type change struct {
	coupon                    coupon.CouponID
	before, missing, accepted int64
}

// isNews reports whether the log has a line about the change.
func (c change) isNews() bool { return c.missing > c.before || c.missing == 0 && c.before > 0 }

// forgetAllBut forgets coupons that the catalog has no longer, and those that are finalised.
func (f *Finder) forgetAllBut(looks []Look) (ended []change) {
	kept := make(map[coupon.CouponID]bool, len(looks))
	for _, l := range looks {
		kept[l.Coupon] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.byCoupon {
		if kept[id] {
			continue
		}
		delete(f.byCoupon, id)
		s.mu.Lock()
		if s.missing > 0 {
			ended = append(ended, change{coupon: id, before: s.missing})
		}
		s.mu.Unlock()
	}
	return ended
}

func (f *Finder) tell(news []change) {
	slices.SortFunc(news, func(a, b change) int {
		return cmp.Or(cmp.Compare(b.missing, a.missing), cmp.Compare(a.coupon, b.coupon))
	})
	for _, c := range news[:min(len(news), maxLogged)] {
		if c.missing > 0 {
			f.Logger.Error("accepted applications are missing in redis and mysql",
				zap.Uint64("coupon_id", uint64(c.coupon)), zap.Int64("missing", c.missing),
				zap.Int64("accepted", c.accepted))
		} else {
			f.Logger.Info("no accepted applications are missing any longer", zap.Uint64("coupon_id", uint64(c.coupon)))
		}
	}
	if more := len(news) - maxLogged; more > 0 {
		f.Logger.Error("the number of missing applications has changed for more coupons", zap.Int("coupons", more))
	}
}

var missingDesc = prometheus.NewDesc("jajeong_promises_missing",
	"Accepted applications that are neither in Redis nor settled, by coupon; only of coupons that miss some.",
	[]string{"coupon_id"}, nil)

func (f *Finder) Describe(to chan<- *prometheus.Desc) { to <- missingDesc }

func (f *Finder) Collect(to chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.byCoupon {
		s.mu.Lock()
		if s.missing > 0 {
			to <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(s.missing), id.String())
		}
		s.mu.Unlock()
	}
}
