package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/users"
)

// heartbeat is how often a run says that it is alive.
const heartbeat = 10 * time.Second

// beatTimeout bounds one heartbeat: one that hangs must not keep the next from being sent.
const beatTimeout = heartbeat

// endTimeout bounds writing down how a run ended, also when it was told to stop.
const endTimeout = 3 * time.Second // with the default grace well below the 30 s of a pod

// Auditor accounts for the promises of a coupon.
type Auditor interface {
	Account(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (ledger.Account, error)
}

// Settler turns lines into outcomes. All fields but Progress are needed.
type Settler struct {
	DB       *mysqltx.DB
	Catalog  Catalog
	Clock    Clock
	Line     Line
	DLQ      DLQ
	Door     Door
	Auditor  Auditor
	Users    *users.Directory
	Zone     *time.Location // whose midnight the default cutoff is
	Now      func() time.Time
	Logger   *zap.Logger
	Metrics  *Metrics
	Grace    time.Duration                                  // how long what is in hand may go on after the run is told to stop
	Parallel int                                            // coupons settled at once, at least 1; each takes two connections to MySQL
	Progress func(couponID coupon.Coupon, applications int) // told as applications are dealt with, from several coupons at once; may be nil
}

// Order says what a run is to do.
type Order struct {
	Trigger   coupon.Trigger
	Cutoff    time.Time         // zero: the default cutoff
	CutoffNow bool              // the instant the run starts, by the Redis clock
	Coupons   []coupon.CouponID // none: all that are due
	AcceptGap bool
	Operator  string
	Reason    string

	Canaries []string // of the DLQ, try these alone; nil: everybody

	Expect map[uint64]string // by coupon: issue nothing unless the winners have this digest
	// By coupon: with AcceptGap, hold it all the same if more are missing.
	MostGap map[uint64]int64

	List   bool // Preview names everybody, not only the first and the last
	dryRun bool
}

// run is one execution of the job.
type run struct {
	Order
	id        uint64
	cutoff    time.Time // UTC
	startedAt time.Time // UTC, read once
	told      context.Context
	work      work
	canaries  map[string]bool // nil: everybody is tried

	remembered *atomic.Int64 // room for winners that is taken, of all coupons
}

// work is what a run does to one coupon.
type work func(one *settlement, ctx context.Context) error

// stopped is an error once the run was told to stop: what is in hand is brought to an end, nothing else is begun.
func (r run) stopped() error {
	if r.told.Err() == nil {
		return nil
	}
	return ToldToStop(r.told)
}

// RunOnce settles every due coupon once and returns what became of each. One coupon's failure does not keep the
// others from being settled; the error is set when the run could not begin at all or was told to stop. When told ends,
// the transaction in hand has Grace to finish, or is rolled back. Running again is always safe.
func (s *Settler) RunOnce(told context.Context, order Order) (report *Report, err error) {
	s = s.withFreshDB()
	s.Metrics.begin()
	defer func() { s.Metrics.end(report, err) }()
	ctx, release := outlive(told, s.Grace)
	defer release()
	r, err := s.newRun(ctx, told, order, (*settlement).settle)
	if err != nil {
		return nil, err
	}
	coupons, err := s.beginRun(ctx, &r)
	if err != nil {
		return s.withoutDatabase(ctx, r, coupons, err)
	}
	return s.doRun(ctx, r, coupons)
}

// withFreshDB has a run find out for itself whether MySQL is away.
func (s *Settler) withFreshDB() *Settler {
	fresh := *s
	fresh.DB = mysqltx.New(s.DB.Pool())
	return &fresh
}

func (s *Settler) newRun(ctx, told context.Context, order Order, what work) (run, error) {
	r := run{Order: order, startedAt: s.Now().UTC().Truncate(time.Microsecond), told: told, work: what,
		remembered: new(atomic.Int64)}
	for _, member := range order.Canaries {
		if r.canaries == nil {
			r.canaries = make(map[string]bool, len(order.Canaries))
		}
		r.canaries[member] = true
	}
	return r, s.chooseCutoff(ctx, &r)
}

// doRun does the work of a run that is recorded, coupon by coupon, and records how it ended.
func (s *Settler) doRun(ctx context.Context, r run, coupons []coupon.Coupon) (*Report, error) {
	stop := s.beat(ctx, r.id)
	defer stop()
	s.markAbandoned(ctx)

	report := newReport(r)
	err := s.settleAll(ctx, r, coupons, report)
	report.end(err, s.Now())
	stop() // a late beat would look for a run that has not ended

	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	unended := s.DB.OnConn(ending, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		return endRun(ctx, q, r.id, report.Status, s.Now().UTC())
	})
	if unended != nil {
		return report, errors.Join(err, fmt.Errorf("end run %d: %w", r.id, unended))
	}
	s.keepResults(ending, r, report)
	s.lookUpEarlier(ending, r, report)
	return report, err
}

// outlive returns a context that ends so much later than told.
func outlive(told context.Context, grace time.Duration) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(told))
	forget := context.AfterFunc(told, func() {
		if Wait(ctx, grace) == nil {
			cancel(context.Cause(told))
		}
	})
	return ctx, func() { forget(); cancel(nil) }
}

// chooseCutoff decides the instant by the Redis clock and refuses one that has not come; a nightly run may be early, and
// waits at the fence.
func (s *Settler) chooseCutoff(ctx context.Context, r *run) error {
	now, err := s.Clock.Now(ctx)
	if err != nil {
		return err
	}
	switch {
	case r.CutoffNow:
		r.cutoff = now
	case r.Cutoff.IsZero() && r.Trigger == coupon.Cron && !r.dryRun:
		r.cutoff = calendar.DefaultCutoff(now, s.Zone)
	case r.Cutoff.IsZero(): // only a scheduler may be early
		r.cutoff = calendar.LastCutoff(now, s.Zone)
	case r.Cutoff.After(now) && (r.Trigger != coupon.Cron || r.Cutoff.After(now.Add(calendar.MaxEarliness))):
		return setupError("the cutoff %s has not come: it is %s by the Redis clock", r.Cutoff.In(s.Zone).Format(time.RFC3339), now.In(s.Zone).Format(time.RFC3339))
	default:
		r.cutoff = r.Cutoff
	}
	r.cutoff = r.cutoff.UTC().Truncate(time.Microsecond)
	return nil
}

// beginRun looks at the users' table, finds the coupons and records that the run has begun.
func (s *Settler) beginRun(ctx context.Context, r *run) (coupons []coupon.Coupon, err error) {
	err = s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		if _, err := s.Users.Look(ctx, q); err != nil {
			return err
		}
		coupons, err = chooseCoupons(ctx, q, *r)
		return err
	})
	if err != nil {
		return nil, err
	}
	tried := false
	return coupons, s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		if tried {
			if found, err := findRun(ctx, q, r); err != nil || found {
				return err
			}
		}
		tried = true
		return insertRun(ctx, q, r)
	})
}

// chooseCoupons returns all that are due, or exactly those that were asked for, finalised ones too.
func chooseCoupons(ctx context.Context, q mysqltx.Querier, r run) ([]coupon.Coupon, error) {
	if len(r.Coupons) == 0 {
		return selectDue(ctx, q, r.cutoff)
	}
	ids := slices.Clone(r.Coupons)
	slices.Sort(ids)
	var coupons []coupon.Coupon
	for _, id := range slices.Compact(ids) {
		c, err := selectCoupon(ctx, q, id)
		if err != nil {
			return nil, err
		}
		coupons = append(coupons, c)
	}
	return coupons, nil
}

// settleAll meets all lines before the first is settled: none can end while it waits its turn, and where another server has
// taken over, pods have their time for all of them at once. It issues all coupons before it writes down who of a long
// line got none.
func (s *Settler) settleAll(ctx context.Context, r run, coupons []coupon.Coupon, report *Report) error {
	all := make([]*settlement, len(coupons))
	for i, c := range coupons {
		all[i] = &settlement{Settler: s, run: r, coupon: c, result: &Result{Coupon: c.ID, Name: c.Name, SeatsLeft: c.Free()},
			logger: s.Logger.With(zap.Uint64("run_id", r.id), zap.Uint64("coupon_id", c.ID))}
	}
	if !r.dryRun {
		s.each(all, func(one *settlement) {
			one.attempt(func() error { return one.meet(ctx) })
		})
	}
	s.each(all, func(one *settlement) {
		if one.err == nil && r.stopped() == nil {
			one.begun = true
			one.attempt(func() error { return r.work(one, ctx) })
		}
	})
	s.each(all, func(one *settlement) {
		if one.err == nil && one.later {
			one.attempt(func() error { return one.conclude(ctx) })
		}
	})
	undone := 0
	for _, one := range all {
		if one.begun || one.err != nil {
			report.add(one.end())
		}
		if !one.begun && one.err == nil || one.result.interrupted {
			undone++
		}
	}
	if undone > 0 {
		return told(StoppedAfter, context.Cause(r.told), len(coupons)-undone, len(coupons))
	}
	return nil
}

// each does something for all, several at once. What goes wrong stands in each.
func (s *Settler) each(all []*settlement, do func(one *settlement)) {
	var hands errgroup.Group
	hands.SetLimit(max(1, s.Parallel))
	for _, one := range all {
		hands.Go(func() error { do(one); return nil })
	}
	_ = hands.Wait()
}

// attempt does a part of a settlement. A panic is the failure of this coupon alone.
func (s *settlement) attempt(part func() error) {
	began := s.Now()
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("settlement panicked", zap.Uint64("coupon_id", s.coupon.ID), zap.Any("panic", p), zap.Stack("stack"))
			s.err = setupError("a bug: panic: %v; please report it with the log", p)
		}
		s.took += s.Now().Sub(began)
		s.timeStep("")
		s.Metrics.note(*s.result)
	}()
	s.err = part()
}

// end is what became of the coupon.
func (s *settlement) end() Result {
	s.result.conclude(s.err, s.took)
	s.result.interrupted = s.run.stopped() != nil && errors.Is(s.err, context.Cause(s.run.told))
	switch {
	case s.run.dryRun:
	case s.err != nil:
		s.logger.Log(s.run.alarm(), "coupon not settled", zap.String("status", string(s.result.Status)), zap.Error(s.err))
	default:
		s.logger.Info("coupon settled", zap.String("status", string(s.result.Status)), zap.Int("issued", s.result.Issued),
			zap.Int("rejected", s.result.Rejected), zap.Int("not_selected", s.result.NotSelected))
	}
	return *s.result
}

// alarm is how loud the log says that a coupon was not settled: a person who asked for it is told anyway.
func (r run) alarm() zapcore.Level {
	if r.Trigger == coupon.Cron {
		return zap.WarnLevel
	}
	return zap.InfoLevel
}

func (s *settlement) progress(applications int) {
	s.Metrics.progress(applications)
	if s.Progress != nil {
		s.Progress(s.coupon, applications)
	}
}

// beat writes heartbeats until the returned func is called.
func (s *Settler) beat(ctx context.Context, run coupon.RunID) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for Wait(ctx, heartbeat) == nil {
			beating, done := context.WithTimeout(ctx, beatTimeout)
			if err := beatRun(beating, s.DB.Pool(), run); err != nil && ctx.Err() == nil {
				s.Logger.Warn("heartbeat failed", zap.Uint64("run_id", run), zap.Error(err))
			}
			done()
		}
	}()
	return func() { cancel(); <-done }
}
