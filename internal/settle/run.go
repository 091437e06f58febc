package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/text"
)

const heartbeat = 10 * time.Second

// endTimeout bounds recording the end of a run. With the default grace it is well below the 30 s that a pod gets.
const endTimeout = 3 * time.Second

// run is one execution over all due coupons. Its fields do not change after it has begun.
type run struct {
	Order
	rules     rules // rules of the trigger
	id        coupon.RunID
	cutoff    time.Time       // UTC
	zone      *time.Location  // time zone of the nights
	startedAt time.Time       // UTC; the clock is read once
	stop      context.Context // cancelled by a request to stop
	work      work
	memory    *memory // shared by all coupons of the run
	nonce     history.Nonce
	coupons   int // how many the run is to settle
}

func (r run) start() history.Start {
	return history.Start{Trigger: r.Trigger, Operator: r.Operator, Reason: r.Reason, Cutoff: r.cutoff,
		Coupons: r.coupons, StartedAt: r.startedAt, Nonce: r.nonce}
}

// settledAt returns the time of all that the run records: its start or, if it started before its cutoff, the cutoff. It
// is later than every application that the run settles.
func (r run) settledAt() time.Time {
	if r.cutoff.After(r.startedAt) {
		return r.cutoff
	}
	return r.startedAt
}

// rows returns what the rows of the run in MySQL share.
func (r run) rows() records.Run { return records.Run{ID: r.id, At: r.settledAt()} }

type work func(s *settlement, ctx context.Context) (settled, error)

// stopped returns an error after a request to stop. The run then finishes its current work and begins nothing new.
func (r run) stopped() error {
	if r.stop.Err() == nil {
		return nil
	}
	return Stopped(r.stop)
}

// Stopped returns the error of work that ended because of a request to stop.
func Stopped(ctx context.Context) error {
	return text.RetryableErrorf(text.Stopped, context.Cause(ctx))
}

// RunOnce settles every due coupon once and reports each result. A failure of one coupon does not affect the others. An
// error means that the run could not begin, was stopped, or that its end could not be recorded. After stop is
// cancelled, the current transaction has Grace to finish; after that it is rolled back. Running again is always safe.
func (s *Settler) RunOnce(stop context.Context, order Order) (report *Report, err error) {
	s = s.withFreshDB()
	s.Observer.Begin()
	defer func() { s.Observer.End(report, err) }()
	ctx, release := outlive(stop, s.Grace)
	defer release()
	r, err := s.newRun(ctx, stop, order, (*settlement).settle)
	if err != nil {
		return nil, err
	}
	coupons, err := s.beginRun(ctx, &r)
	if err != nil {
		return s.withoutDatabase(ctx, r, coupons, err)
	}
	return s.doRun(ctx, r, coupons)
}

// withFreshDB returns a copy with a new DB, which does not remember that MySQL was away in an earlier run.
func (s *Settler) withFreshDB() *Settler {
	fresh := *s
	fresh.DB = mysqltx.New(s.DB.Pool())
	return &fresh
}

func (s *Settler) newRun(ctx, stop context.Context, order Order, what work) (run, error) {
	r := run{Order: order, rules: rulesOf(order.Trigger), stop: stop, work: what, memory: new(memory),
		nonce: history.NewNonce()}
	r.Canaries = slices.Sorted(slices.Values(order.Canaries)) // nil stays nil
	var err error
	if r.zone, err = s.Zone(ctx); err != nil {
		return r, err
	}
	r.cutoff, err = s.chooseCutoff(ctx, r)
	r.startedAt = s.Now().UTC().Truncate(time.Microsecond)
	return r, err
}

// doRun settles the coupons of a recorded run, and records its end.
func (s *Settler) doRun(ctx context.Context, r run, coupons []coupon.Coupon) (*Report, error) {
	stop := s.beat(ctx, r)
	defer stop()
	s.markAbandoned(ctx)
	report := newReport(r)
	err := s.settleAll(ctx, r, coupons, report)
	report.end(err, s.Now().Sub(r.startedAt))
	stop() // a heartbeat after the end would find no unfinished run and log a warning

	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	unended := s.DB.OnConn(ending, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		return history.End(ctx, q, r.nonce, report.Status, s.Now().UTC())
	})
	if unended != nil {
		return report, errors.Join(err, fmt.Errorf("end run %d: %w", r.id, unended))
	}
	s.keepResults(ending, r, report)
	s.lookUpEarlier(ending, r, report)
	return report, err
}

// outlive returns a context that ends when the grace has passed after the end of stop.
func outlive(stop context.Context, grace time.Duration) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(stop))
	forget := context.AfterFunc(stop, func() {
		if sleep.For(ctx, grace) == nil {
			cancel(context.Cause(stop))
		}
	})
	return ctx, func() { forget(); cancel(nil) }
}

// chooseCutoff refuses a cutoff in the Redis clock's future, unless the run may begin early: it then waits at the
// fence.
func (s *Settler) chooseCutoff(ctx context.Context, r run) (time.Time, error) {
	now, err := s.Clock.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	cutoff, mayBeEarly := r.Cutoff, r.rules.mayBeEarly
	switch {
	case r.CutoffNow:
		cutoff = now
	case r.Cutoff.IsZero() && mayBeEarly:
		cutoff = calendar.DefaultCutoff(now, r.zone)
	case r.Cutoff.IsZero():
		cutoff = calendar.LastCutoff(now, r.zone)
	case r.Cutoff.After(now) && (!mayBeEarly || r.Cutoff.After(now.Add(calendar.MaxEarliness))):
		return time.Time{}, setupError(text.CutoffAhead, r.Cutoff.In(r.zone).Format(time.RFC3339),
			now.In(r.zone).Format(time.RFC3339))
	}
	return cutoff.UTC().Truncate(time.Microsecond), nil
}

// beginRun checks the table of users, finds the coupons and records that the run has begun.
func (s *Settler) beginRun(ctx context.Context, r *run) ([]coupon.Coupon, error) {
	coupons, err := s.findCoupons(ctx, *r)
	if err != nil {
		return nil, err
	}
	r.coupons = len(coupons)
	return coupons, s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, attempt int) error {
		id, err := history.Begin(ctx, q, r.start(), attempt)
		r.id = id
		return err
	})
}

func (s *Settler) findCoupons(ctx context.Context, r run) (coupons []coupon.Coupon, err error) {
	return coupons, s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		if _, err := s.Users.Look(ctx, q); err != nil {
			return err
		}
		coupons, err = chooseCoupons(ctx, q, r)
		return err
	})
}

// chooseCoupons returns the coupons that the order names, also finalised ones, or else all due coupons.
func chooseCoupons(ctx context.Context, q mysqltx.Querier, r run) ([]coupon.Coupon, error) {
	if r.Coupons == nil {
		return records.Due(ctx, q, r.cutoff)
	}
	var coupons []coupon.Coupon
	for _, id := range slices.Compact(slices.Sorted(slices.Values(r.Coupons))) {
		c, err := records.Coupon(ctx, q, id)
		if err != nil {
			return nil, err
		}
		coupons = append(coupons, c)
	}
	return coupons, nil
}

type task struct {
	*settlement
	done        settled
	begun       bool
	interrupted bool // whether a request to stop ended this settlement
	took        time.Duration
	err         error
	holders     []zap.Field // what the log says of sessions that keep the coupon locked
}

const (
	// lockedAfter is for how long a session must have had locks to be named. A run has waited for longer.
	lockedAfter = 5 * time.Second
	// holdersTimeout bounds the one statement that finds such sessions.
	holdersTimeout = 4 * time.Second
)

// findHolders looks for sessions with old locks as soon as the run gives up: later they may be gone.
func (t *task) findHolders() []zap.Field {
	ctx, cancel := context.WithTimeout(t.run.stop, holdersTimeout)
	defer cancel()
	sessions, err := mysqltx.LockingSessions(ctx, t.DB.Pool(), lockedAfter)
	return []zap.Field{zap.Strings("sessions_with_old_locks", sessions), zap.NamedError("sessions_unknown", err)}
}

// settleAll first prepares every coupon. No key can then expire before its coupon is settled, and pods hand over the
// lost applications of all coupons at the same time. All coupons are issued before the close-out of a long line begins.
func (s *Settler) settleAll(ctx context.Context, r run, coupons []coupon.Coupon, report *Report) error {
	all := make([]*task, len(coupons))
	for i, c := range coupons {
		all[i] = &task{settlement: s.newSettlement(r, c)}
	}
	if !r.dryRun {
		s.each(all, func(t *task) {
			t.do(func() (settled, error) { return settled{}, t.prepare(ctx) })
		})
	}
	s.each(all, func(t *task) {
		if t.err == nil && r.stopped() == nil {
			t.begun = true
			t.do(func() (settled, error) { return r.work(t.settlement, ctx) })
		}
	})
	s.each(all, func(t *task) {
		if t.err == nil && t.done.postponed {
			t.do(func() (settled, error) { return t.closeOutAndFinish(ctx, t.done) })
		}
	})
	undone := 0
	for _, t := range all {
		if t.begun || t.err != nil {
			report.add(t.end())
		}
		if !t.begun && t.err == nil || t.interrupted {
			undone++
		}
	}
	if undone > 0 {
		return text.RetryableErrorf(text.StoppedAfter, context.Cause(r.stop), len(coupons)-undone, len(coupons))
	}
	return nil
}

func (s *Settler) newSettlement(r run, c coupon.Coupon) *settlement {
	logger := s.Logger.With(zap.Uint64("coupon_id", uint64(c.ID)))
	if r.id != 0 { // previews and immediate runs have no id yet
		logger = logger.With(zap.Uint64("run_id", uint64(r.id)))
	}
	return &settlement{Settler: s, run: r, coupon: c, steps: new(stepTimer), logger: logger}
}

// each calls do for every task. At most Parallel calls run at the same time.
func (s *Settler) each(all []*task, do func(t *task)) {
	var group errgroup.Group
	group.SetLimit(s.Parallel)
	for _, t := range all {
		group.Go(func() error { do(t); return nil })
	}
	_ = group.Wait()
}

// prepare renews the TTL of the coupon's keys. By looking, it makes Redis note which server serves the coupon.
func (s *settlement) prepare(ctx context.Context) error {
	if err := s.Door.Renew(ctx, s.coupon.ID, s.coupon.ClosesAt); err != nil || !s.due() {
		return err
	}
	_, err := s.look(ctx)
	return err
}

// do runs a part of a settlement. A panic in it fails only this coupon.
func (t *task) do(part func() (settled, error)) {
	began := t.Now()
	defer func() {
		if p := recover(); p != nil {
			t.logger.Error("settlement panicked", zap.Any("panic", p), zap.Stack("stack"))
			t.err = setupError(text.Panicked, p)
		}
		t.took += t.Now().Sub(began)
		t.endStep("")
		r := t.result()
		r.Status = "" // a coupon has no status before the run ends
		t.Observer.Note(r)
	}()
	if t.done, t.err = part(); errors.Is(t.err, errFrozen) {
		t.done.frozen, t.err = true, nil
	}
	if mysqltx.IsLockWait(t.err) && t.run.rules.waitsForLock && !t.run.dryRun {
		t.holders = t.findHolders()
	}
}

func (t *task) result() Result { return t.done.result(t.coupon, t.err, t.took) }

func (t *task) end() Result {
	r := t.result()
	t.interrupted = t.run.stopped() != nil && errors.Is(t.err, context.Cause(t.run.stop))
	switch {
	case t.run.dryRun:
	case t.err != nil:
		level := t.run.rules.alarm()
		if t.holders != nil { // which no report shows
			level = zapcore.WarnLevel
		}
		t.logger.Log(level, "coupon not settled",
			append(t.holders, zap.String("status", string(r.Status)), zap.Error(t.err))...)
	default:
		t.logger.Info("coupon settled", zap.String("status", string(r.Status)), zap.Int("issued", r.Issued),
			zap.Int("under_review", r.UnderReview), zap.Int("rejected", r.Rejected),
			zap.Int("not_selected", r.NotSelected))
	}
	return r
}

func (s *settlement) progress(applications int) {
	s.Observer.Progress(applications)
	if s.Progress != nil {
		s.Progress(s.coupon, applications)
	}
}

func (s *Settler) beat(ctx context.Context, r run) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep.For(ctx, heartbeat) == nil {
			beating, done := context.WithTimeout(ctx, heartbeat)
			if err := history.Beat(beating, s.DB.Pool(), r.nonce); err != nil && ctx.Err() == nil {
				s.Logger.Warn("heartbeat failed", zap.Uint64("run_id", uint64(r.id)), zap.Error(err))
			}
			done()
		}
	}()
	return func() { cancel(); <-done }
}
