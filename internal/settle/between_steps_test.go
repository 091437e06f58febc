package settle_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// watchedDoor calls soldOut before the mark SOLD_OUT is written to Redis, the last operation before the last COMMIT.
type watchedDoor struct {
	settle.Door
	soldOut func(ctx context.Context)
}

func (d watchedDoor) SetSold(ctx context.Context, couponID coupon.CouponID, sold bool) error {
	d.soldOut(ctx)
	return d.Door.SetSold(ctx, couponID, sold)
}

// watchedLine calls its functions, if any, before a page is read and before applications are removed.
type watchedLine struct {
	settle.Line
	page, remove func()
}

func (l watchedLine) Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	if l.page != nil {
		l.page()
	}
	return l.Line.Page(ctx, couponID, after, cutoff)
}

func (l watchedLine) Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
	settled []coupon.Application) (int64, error) {
	if l.remove != nil {
		l.remove()
	}
	return l.Line.Remove(ctx, couponID, closes, mark, settled)
}

// A run has marked the coupon as sold out and is about to record NOT_SELECTED. Then a seat is added, another run
// removes the mark, and the seat is gone. A user who is not selected now must not be accepted again.
func TestSettle_RejectsApplicationsAfterNotSelectedOutcome(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	couponID := d.AddCoupon(1)
	d.Apply(couponID, 1, 2)
	s := d.Settler()
	meanwhile := sync.OnceFunc(func() {
		d.SetSeats(couponID, 2)
		report, err := d.Settler().RunOnce(t.Context(),
			settle.Order{Trigger: coupon.Cron, Cutoff: d.Now().Add(-time.Minute)})
		require.NoError(t, err)
		require.Equal(t, 1, report.Coupons[0].SeatsLeft, "no application is before its cutoff")
		d.Exec("UPDATE coupon SET issued_count = 2")
		d.InsertGranted(couponID, 3)
	})
	s.Line = watchedLine{Line: s.Line, page: func() {
		if len(d.Issued(couponID)) > 0 {
			meanwhile()
		}
	}}
	_, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, candidates.SoldOut, d.Answer(couponID, 2))
	d.Verify()
}

// COMMIT and ROLLBACK take no context. On a frozen server they would last until the read timeout, and without one for
// ever.
func TestSettle_FrozenCommitOrRollbackEndsWithGrace(t *testing.T) {
	t.Parallel()
	shared, server := newOnPrivateMySQL(t)
	shared.AddUsers(1)
	for _, statement := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(statement, func(t *testing.T) {
			d := shared.For(t)
			couponID := d.AddCoupon(2)
			d.Apply(couponID, 1)
			stopping, stop := context.WithCancelCause(t.Context())
			s := d.Settler()
			s.DB = mysqltx.New(withoutReadTimeout(d))
			s.Grace = time.Second
			frozen := sync.OnceFunc(func() {
				_ = server.Freeze()
				stop(errors.New("terminated signal received"))
			})
			s.Door = watchedDoor{s.Door, func(ctx context.Context) {
				frozen()
				if statement == "ROLLBACK" {
					<-ctx.Done() // until the grace is over
				}
			}}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = s.RunOnce(stopping, jajeongtest.Manual(couponID))
			}()
			testenv.Receive(t, "the run ends while the server is frozen", ended)
			require.NoError(t, server.Thaw())
			d.SettleNow(couponID)
			requireSettled(d, couponID, results{issued: []coupon.UserID{1}})
		})
	}
}

// withoutReadTimeout is a pool that waits for the server for ever.
func withoutReadTimeout(d *jajeongtest.Deployment) *sql.DB {
	d.T.Helper()
	config, err := mysql.ParseDSN(d.Job.MySQLDSN)
	require.NoError(d.T, err)
	config.ParseTime, config.ClientFoundRows, config.InterpolateParams = true, true, true
	config.Params = map[string]string{"time_zone": "'+00:00'"}
	connector, err := mysql.NewConnector(config)
	require.NoError(d.T, err)
	pool := sql.OpenDB(connector)
	d.T.Cleanup(func() { _ = pool.Close() })
	return pool
}

func TestSettle_SucceedsWhenStoppedAfterLastCoupon(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddQueue(2, 1)
	stopping, stop := context.WithCancel(t.Context())
	s := d.Settler()
	s.Grace = time.Hour
	s.Door = watchedDoor{s.Door, func(context.Context) { stop() }} // in the last transaction
	report, err := s.RunOnce(stopping, jajeongtest.Manual())
	require.Equal(t, coupon.Settled, report.Coupons[0].Status)
	require.NoError(t, err, "all was settled")
	require.Equal(t, coupon.RunSucceeded, report.Status)
}

// meddledStore calls meddle after Redis was read. No lock prevents a clean-up by another run then.
type meddledStore struct {
	*candidates.Store
	meddle func()
}

func (s meddledStore) Observe(ctx context.Context, couponID coupon.CouponID,
	behind coupon.Arrival) (coupon.Look, error) {
	look, err := s.Store.Observe(ctx, couponID, behind)
	s.meddle()
	return look, err
}

// settleWithoutCleanUp settles a coupon and restores its queue, as before the clean-up.
func settleWithoutCleanUp(d *jajeongtest.Deployment, couponID coupon.CouponID) (line []redis.Z) {
	d.T.Helper()
	line, err := d.Redis.ZRangeWithScores(d.T.Context(), d.Queue(couponID), 0, -1).Result()
	require.NoError(d.T, err)
	d.SettleNow()
	d.Exec("UPDATE settlement SET cleaned_at = NULL")
	require.NoError(d.T, d.Redis.ZAdd(d.T.Context(), d.Queue(couponID), line...).Err())
	return line
}

// A pending clean-up of a run with a later cutoff does not hide a loss in Redis, even if it takes place while another
// run counts.
func TestSettle_FindsGapBesidePendingCleanup(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	now := d.Now()
	couponID := d.AddCouponBetween(50, now.Add(-72*time.Hour), now.Add(72*time.Hour))
	d.AddUsers(between(1, 30)...)
	d.Apply(couponID, between(1, 10)...)
	line := settleWithoutCleanUp(d, couponID)
	d.Apply(couponID, between(11, 20)...)
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(couponID), "11", "12").Err()) // lost

	s := d.Settler()
	for _, order := range []settle.Order{jajeongtest.Nightly(calendar.DefaultCutoff(now, d.Noon())),
		jajeongtest.Manual()} {
		report, err := s.RunOnce(t.Context(), order)
		require.NoError(t, err)
		require.EqualValues(t, 2, report.Coupons[0].Gap)
		require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
		s.Auditor = &ledger.Ledger{Store: meddledStore{d.Store, sync.OnceFunc(func() {
			for _, z := range line {
				require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(couponID), z.Member).Err())
			}
		})}}
	}
}

// Users lack their marks at one look, because a clean-up was about to mark them. A settlement looks twice before it
// restores. If they lack them still, it marks them.
func TestSettle_LooksTwiceForMarks(t *testing.T) {
	t.Parallel()
	for name, marks := range map[string]bool{"a clean-up marks them": true, "nobody marks them": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1, 2)
			d.SettleNow()
			marked, err := d.Redis.ZRangeWithScores(t.Context(), d.Key("issued", id), 0, -1).Result()
			require.NoError(t, err)
			require.Len(t, marked, 2)
			require.NoError(t, d.Redis.Del(t.Context(), d.Key("issued", id)).Err())
			s, restores := d.Settler(), 0
			s.Journal = countedRestores{s.Journal, &restores}
			s.Auditor = &ledger.Ledger{Store: meddledStore{d.Store, sync.OnceFunc(func() {
				if marks {
					assert.NoError(t, d.Redis.ZAdd(t.Context(), d.Key("issued", id), marked...).Err())
				}
			})}}
			report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
			require.NoError(t, errors.Join(err, report.Err()))
			require.Equal(t, !marks, restores > 0)
			requireSettled(d, id, results{issued: []coupon.UserID{1, 2}})
		})
	}
}

type countedRestores struct {
	settle.Journal
	n *int
}

func (c countedRestores) RestoreCoupon(ctx context.Context, id coupon.CouponID) error {
	*c.n++
	return c.Journal.RestoreCoupon(ctx, id)
}

// Somebody deletes entries of the queue by hand after the account and before the settlement reads them. The others do
// not get their seats: the settlement puts them back from the journal, and starts again.
func TestSettle_PassesOverNobodyWhoVanishes(t *testing.T) {
	t.Parallel()
	for name, settles := range map[string]func(s *settle.Settler, id coupon.CouponID) error{
		"nightly": func(s *settle.Settler, _ coupon.CouponID) error {
			report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
			return errors.Join(err, report.Err())
		},
		"immediate": func(s *settle.Settler, id coupon.CouponID) error {
			done := s.IssueNow(t.Context(), id)
			return done.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1, 2, 3, 4)
			if name == "immediate" {
				d.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", id)
			}
			d.Journal(id)
			d.PodsDie()
			s := d.Settler()
			s.Line = vanishing{s.Line, sync.OnceFunc(func() {
				assert.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "1", "4").Err())
			})}
			if err := settles(s, id); name == "immediate" {
				require.Error(t, err)
				require.Empty(t, d.Issued(id))
				d.Restore(id)
				require.NoError(t, settles(s, id))
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
			d.SettleNow()
			requireSettled(d, id, results{issued: []coupon.UserID{1, 2}, notSelected: []coupon.UserID{3, 4}})
		})
	}
}

// vanishing is a line that loses entries before it is read.
type vanishing struct {
	settle.Line
	lose func()
}

func (v vanishing) Page(ctx context.Context, id coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	v.lose()
	return v.Line.Page(ctx, id, after, cutoff)
}

func (v vanishing) Queue(ctx context.Context, id coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	v.lose()
	return v.Line.Queue(ctx, id, after, cutoff)
}

// The same for the checker, without a loss: no excess is reported.
func TestVerify_FindsNoExcessDuringCleanup(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(50, between(1, 10)...)
	line := settleWithoutCleanUp(d, couponID)
	meddled := meddledStore{d.Store, func() {
		for _, z := range line {
			require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(couponID), z.Member).Err())
		}
	}}
	l := &ledger.Ledger{Store: meddled}
	tx, err := d.DB.Begin()
	require.NoError(t, err)
	account, err := l.Account(t.Context(), tx, couponID)
	require.NoError(t, tx.Rollback())
	require.NoError(t, err)
	require.Zero(t, account.Gap())

	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(couponID), line...).Err())
	v, err := (&verify.Verifier{Store: meddled, Users: d.Users}).Check(t.Context(), d.DB, couponID)
	require.NoError(t, err)
	require.Zero(t, v.Gap)
}

// watchedFence calls waits when a settlement begins to wait for its cutoff.
type watchedFence struct {
	settle.Door
	waits func()
}

func (d watchedFence) Look(ctx context.Context, couponID coupon.CouponID,
	known coupon.Known) (coupon.Look, error) {
	look, err := d.Door.Look(ctx, couponID, known)
	if known.Cutoff.After(look.Now) {
		d.waits()
	}
	return look, err
}

// watchedContext calls waits when its end is waited for.
type watchedContext struct {
	context.Context
	waits func()
}

func (c watchedContext) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}

// atTheFence returns a context that ends when the settler's run waits for its cutoff.
func atTheFence(t *testing.T, s *settle.Settler) (stopping context.Context) {
	ctx, stop := context.WithCancelCause(t.Context())
	var waits atomic.Bool
	s.Door = watchedFence{s.Door, func() { waits.Store(true) }}
	return watchedContext{ctx, func() {
		if waits.Load() {
			stop(errors.New("terminated signal received"))
		}
	}}
}

// newScheduler settles every midnight. ended is called after each run.
func newScheduler(t *testing.T, s *settle.Settler, ended func(*settle.Report, error)) *schedule.Scheduler {
	t.Helper()
	timetable, err := schedule.Parse("0 0 * * *")
	require.NoError(t, err)
	scheduler, err := schedule.New(schedule.Config{
		Timetable: timetable, Zone: s.Zone, Clock: s.Clock, LastNight: s.LastNight, Logger: zap.NewNop(),
		Wait: sleep.For,
		Kept: func(context.Context) (bool, error) { return true, nil },
		Away: func(error) bool { return false },
		Settle: func(ctx context.Context, cutoff time.Time) (bool, error) {
			report, err := s.RunOnce(ctx, jajeongtest.Nightly(cutoff))
			ended(report, err)
			if err != nil {
				return false, err
			}
			return true, report.Err()
		},
	})
	require.NoError(t, err)
	return scheduler
}

// A scheduler that fired early waits for midnight at the fence, without a transaction in progress.
func TestScheduler_StopsAtFenceBeforeMidnight(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	now := d.Now()
	// Midnight is in four minutes.
	zone := time.FixedZone("early", int(calendar.NextCutoff(now, time.UTC).Sub(now).Seconds())-240)
	coupons := []coupon.CouponID{d.AddCoupon(5), d.AddCoupon(5)}
	d.AddUsers(1, 2)
	for _, couponID := range coupons {
		d.Apply(couponID, 1)
	}
	s := d.Settler()
	s.Zone, s.Parallel, s.Grace = jajeongtest.InZone(zone), 2, time.Hour
	stopping := atTheFence(t, s)
	ended := make(chan *settle.Report, 1)
	scheduler := newScheduler(t, s, func(report *settle.Report, err error) {
		assert.ErrorContains(t, err, "stopped by a signal: terminated signal received")
		assert.ErrorContains(t, err, "of 2 coupons")
		ended <- report
	})
	go func() { _ = scheduler.Run(stopping) }()
	require.Contains(t, testenv.Receive(t, "the run ends", ended).Coupons[0].Error, "stopped by a signal")
	require.Len(t, d.IDs("SELECT id FROM settlement_run WHERE status = 'FAILED' AND finished_at IS NOT NULL"), 1)
	for _, couponID := range coupons {
		require.Empty(t, d.Issued(couponID))
		d.Apply(couponID, 2) // before midnight: no fence was set
		receipt, err := d.Store.Apply(t.Context(), couponID, 2)
		require.NoError(t, err)
		require.Less(t, receipt.Arrival, coupon.ArrivalAt(calendar.DefaultCutoff(now, zone)))
	}
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(coupons[0]))
	d.Verify()
}
