package settle

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
)

type quietDoor struct{ Door }

func (quietDoor) SetSold(context.Context, coupon.CouponID, bool) error { return nil }

// aLine is that of a server which was compared with the journal.
var aLine = coupon.Line{Epoch: "a:1", Since: 1, Restored: true}

func (quietDoor) Look(context.Context, coupon.CouponID, coupon.Known) (coupon.Look, error) {
	return coupon.Look{Line: aLine, Now: time.Now()}, nil
}

type balanced struct{}

func (balanced) Account(context.Context, *sql.Tx, coupon.CouponID) (ledger.Account, error) {
	return ledger.Account{Line: aLine}, nil
}

func (balanced) AccountBySums(context.Context, *sql.Tx, coupon.CouponID, int) (ledger.Account, error) {
	return ledger.Account{Line: aLine}, nil
}

func newSettlement(t *testing.T, seats int, line ...coupon.Application) *settlement {
	db := migrated.Open(t)
	_, err :=
		db.Exec("INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at) VALUES (1, 'c', ?, "+
			"'2026-11-01', '2026-12-01')", seats)
	require.NoError(t, err)
	for _, a := range line {
		_, err := db.Exec("INSERT INTO `user` (id) VALUES (?)", a.User())
		require.NoError(t, err)
	}
	r := run{Order: Order{Trigger: coupon.Cron}, rules: rulesOf(coupon.Cron), cutoff: time.Now().UTC(),
		startedAt: time.Now().UTC(), zone: time.UTC, stop: t.Context(), work: (*settlement).settle, memory: new(memory),
		nonce: history.NewNonce()}
	r.id, err = history.Begin(t.Context(), db, r.start(), 1)
	require.NoError(t, err)
	settler := &Settler{Config{DB: mysqltx.New(db), Line: memoryLine{all: line, size: 2}, Door: quietDoor{},
		Auditor: balanced{}, Now: time.Now, Logger: zap.NewNop(), Observer: unobserved{}}}
	s := settler.newSettlement(r, coupon.Coupon{ID: 1, TotalQuantity: seats})
	s.epoch = aLine.Epoch
	return s
}

// attempt issues in a transaction, after an earlier attempt has sent its COMMIT or none has.
func (s *settlement) attempt(t *testing.T, ctx context.Context, sent *issued) issued {
	t.Helper()
	winners := s.run.memory.reserve(s.coupon.Free())
	defer winners.release()
	var done issued
	require.NoError(t, s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		done, err = s.issue(ctx, tx, sent, winners)
		return err
	}))
	return done
}

var threeInLine = []coupon.Application{application(1, 1000, coupon.SourceQueue),
	application(2, 2000, coupon.SourceQueue), application(3, 3000, coupon.SourceQueue)}

// The reply to COMMIT is lost. Another run that waited for the coupon has cleaned up for this one, and seats were
// added.
func TestIssue_GivesNothingTwiceAfterLostCommit(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 2, threeInLine...)
	first := s.attempt(t, t.Context(), nil)
	require.Equal(t, Counts{Issued: 2}, first.seated.tally.Counts)
	require.Equal(t, []records.Pending{{Run: s.run.rows(), Covered: true}}, first.pending)
	for _, statement := range []string{"UPDATE settlement SET cleaned_at = settled_at",
		"UPDATE coupon SET total_quantity = 3"} {
		_, err := s.DB.Pool().Exec(statement)
		require.NoError(t, err)
	}
	require.Equal(t, first, s.attempt(t, t.Context(), &first))
	var coupons, counted int
	require.NoError(t, s.DB.Pool().QueryRow("SELECT (SELECT COUNT(*) FROM user_coupon), issued_count FROM coupon").
		Scan(&coupons, &counted))
	require.Equal(t, []int{2, 2}, []int{coupons, counted})
}

func TestHeartbeat_EndsBeforeTheRunIsAbandoned(t *testing.T) {
	t.Parallel()
	require.Less(t, 2*heartbeat, history.SilentSeconds*time.Second, "one interval, and one heartbeat that hangs")
}

func TestOutlive_EndsAfterGrace(t *testing.T) {
	t.Parallel()
	stopping, stop := context.WithCancelCause(t.Context())
	ctx, release := outlive(stopping, time.Hour)
	stop(errors.New("SIGTERM"))
	require.NoError(t, ctx.Err())
	require.ErrorContains(t, run{stop: stopping}.stopped(), "SIGTERM")
	release()
	<-ctx.Done()

	ctx, release = outlive(stopping, time.Millisecond)
	defer release()
	<-ctx.Done()
	require.ErrorContains(t, context.Cause(ctx), "SIGTERM")
}

func TestStop_CommitsTransactionInProgressAndBeginsNoOther(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 2, threeInLine...)
	stopping, stop := context.WithCancel(t.Context())
	s.run.stop = stopping
	s.Grace = time.Hour
	ctx, release := outlive(stopping, s.Grace)
	defer release()
	s.Progress = func(coupon.Coupon, int) { stop() } // in the middle of the first page
	done := s.attempt(t, ctx, nil)
	require.Equal(t, 2, done.seated.tally.Issued)
	_, err := s.closeOut(ctx, done)
	require.ErrorIs(t, err, context.Canceled)
}

// watchedDoor counts renewals and the coupons that are settled at the same time.
type watchedDoor struct {
	Door
	mu      sync.Mutex
	renewed int
	current int
	highest int
	early   bool // a coupon began before all keys were renewed
	fenced  map[coupon.CouponID]bool
}

func (d *watchedDoor) Renew(context.Context, coupon.CouponID, time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renewed++
	return nil
}

const watchedCoupons = 40

// Look delays each coupon at its second call, which is that of its settlement.
func (d *watchedDoor) Look(ctx context.Context, couponID coupon.CouponID,
	_ coupon.Known) (coupon.Look, error) {
	d.mu.Lock()
	if !d.fenced[couponID] {
		d.fenced[couponID] = true
		d.mu.Unlock()
		return coupon.Look{}, nil
	}
	d.early = d.early || d.renewed < watchedCoupons
	d.current++
	d.highest = max(d.highest, d.current)
	d.mu.Unlock()
	_ = sleep.For(ctx, time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current--
	return coupon.Look{}, errors.New("no further")
}

func TestSettleAll_RenewsKeysFirstAndBoundsConcurrency(t *testing.T) {
	t.Parallel()
	const parallel = 4
	s := newSettlement(t, 1)
	d := &watchedDoor{fenced: map[coupon.CouponID]bool{}}
	s.Door, s.Parallel = d, parallel
	coupons := make([]coupon.Coupon, watchedCoupons)
	for i := range coupons {
		coupons[i] = coupon.Coupon{ID: coupon.CouponID(i + 1)}
	}
	report := newReport(s.run)
	require.NoError(t, s.settleAll(t.Context(), s.run, coupons, report))
	require.Len(t, report.Coupons, watchedCoupons)
	require.False(t, d.early)
	require.Equal(t, parallel, d.highest)
}

func TestResult_ReportsUnknownCommitAsFailed(t *testing.T) {
	t.Parallel()
	r := &Result{}
	r.fail(&mysqltx.CommitUnknown{Err: &mysql.MySQLError{Number: 1205}})
	require.Equal(t, coupon.Failed, r.Status)
	require.NotContains(t, r.Error, "nothing was moved")
	r.fail(&mysql.MySQLError{Number: 1205})
	require.Equal(t, coupon.Busy, r.Status)
}
