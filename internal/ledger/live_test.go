package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
)

// Meanwhile applications arrive, two runs settle and clean up in parallel, seats are added, users come and go, coupons are
// given by hand, and promises are stored.
func TestNoViolationUnderLiveTraffic(t *testing.T) {
	t.Parallel()
	const (
		applicants   = 200
		usersEach    = 30
		everybody    = applicants * usersEach
		strangers    = everybody / 20 // there are no such users
		blockedUsers = everybody / 20
		traffic      = 3 * time.Second
		tooLong      = time.Minute
	)
	c := newCoupon(t, everybody/3)
	c.users("ACTIVE", strangers+1, everybody-blockedUsers)
	c.users("BLOCKED", everybody-blockedUsers+1, everybody)

	ctx, stop := context.WithTimeout(t.Context(), tooLong)
	defer stop()
	over, shut := context.WithTimeout(ctx, traffic)
	defer shut()
	var (
		work                            sync.WaitGroup
		accepted, runs, checks, unclean atomic.Int64
	)
	// loop does something again and again, at most so often, until the traffic is over; it stops all at the first thing
	// that fails.
	loop := func(what string, every time.Duration, do func() error) {
		work.Go(func() {
			pace := time.NewTicker(every)
			defer pace.Stop()
			for over.Err() == nil {
				if err := do(); !assert.NoError(t, err, what) {
					shut()
				}
				select {
				case <-pace.C:
				case <-over.Done():
				}
			}
		})
	}
	order := rand.Perm(everybody)
	for a := range applicants {
		mine, turn := order[a*usersEach:(a+1)*usersEach], 0
		loop("apply", traffic/usersEach, func() error {
			user := mine[turn%usersEach] + 1
			turn++
			receipt, err := c.store.Apply(ctx, c.id, c.user(uint64(user)))
			if receipt.Code == candidates.Accepted {
				accepted.Add(1)
			}
			return err
		})
	}
	settleOnce := func() error {
		report, err := c.settler.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, CutoffNow: true, Coupons: []uint64{c.id}})
		if err != nil {
			return err
		}
		runs.Add(1)
		if failure := report.Coupons[0].Error; failure != "" {
			return errors.New(failure)
		}
		_, err = c.db.ExecContext(ctx, "UPDATE coupon SET total_quantity = total_quantity + 20 WHERE id = ?", c.id)
		return err
	}
	loop("settle", time.Millisecond, settleOnce)
	loop("settle besides", time.Millisecond, settleOnce)
	hand := uint64(everybody)
	loop("give by hand", 50*time.Millisecond, func() error {
		hand++
		tx, err := c.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		_, err = tx.ExecContext(ctx, "UPDATE coupon SET total_quantity = total_quantity + 1, issued_count = issued_count + 1 WHERE id = ?", c.id)
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, ?)", c.id, c.user(hand)); err != nil {
			return err
		}
		return tx.Commit()
	})
	loop("keep the promise", time.Millisecond, func() error {
		figures, err := c.store.Figures(ctx, c.id, 0)
		if err != nil {
			return err
		}
		_, err = c.db.ExecContext(ctx, `INSERT INTO promise (coupon_id, accepted, last_arrival) VALUES (?, ?, ?)
			ON DUPLICATE KEY UPDATE accepted = GREATEST(accepted, VALUES(accepted)), last_arrival = GREATEST(last_arrival, VALUES(last_arrival))`,
			c.id, figures.Accepted, figures.LastArrival)
		return err
	})
	for range 2 {
		loop("check", time.Millisecond, func() error {
			v, err := c.ledger.Check(ctx, c.db, c.id)
			if err != nil {
				return err
			}
			checks.Add(1)
			if len(v.Findings) > 0 {
				unclean.Add(1)
			}
			if v.Violated() {
				return fmt.Errorf("violated: %+v", v.Findings)
			}
			return nil
		})
	}
	work.Wait()
	require.False(t, t.Failed(), "%+v", c.check().Findings)
	require.NoError(t, ctx.Err())
	t.Logf("%d accepted, %d runs, %d checks, %d with warnings", accepted.Load(), runs.Load(), checks.Load(), unclean.Load())
	require.Positive(t, accepted.Load())
	require.Greater(t, runs.Load(), int64(1))
	require.Greater(t, checks.Load(), int64(1))

	c.settleNow()
	v := c.healthy()
	require.Equal(t, accepted.Load(), v.Account.Accepted)
	require.Positive(t, v.Account.UnderReview)
}

// fault fails a call to the line or the door, as if the process had died there.
type fault struct {
	*candidates.Store
	fails func(call string) bool
}

var errCrash = &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("crash")}

func (f fault) Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark, settled []coupon.Application) (int64, error) {
	if mark == coupon.MarkNone && f.fails("remove others") || mark == coupon.MarkIssued && f.fails("remove issued") {
		n, err := f.Store.Remove(ctx, couponID, closes, mark, settled[:len(settled)/2])
		return n, errors.Join(errCrash, err)
	}
	return f.Store.Remove(ctx, couponID, closes, mark, settled)
}

func (f fault) Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time, failed []coupon.Failure) (int64, error) {
	if f.fails("review") {
		return 0, errCrash
	}
	return f.Store.Review(ctx, couponID, run, at, failed)
}

func (f fault) SetSold(ctx context.Context, couponID coupon.CouponID, sold bool) error {
	if f.fails("set sold") {
		return errCrash
	}
	return f.Store.SetSold(ctx, couponID, sold)
}

func (f fault) Sweep(ctx context.Context, couponID coupon.CouponID, closes time.Time) (bool, error) {
	if f.fails("sweep") {
		return false, errCrash
	}
	return f.Store.Sweep(ctx, couponID, closes)
}

// A settlement that stops after its commit leaves a pending clean-up and no violation. The next run cleans up.
func TestCheckReportsPendingCleanup(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for name, test := range map[string]struct {
		call  string
		nth   int // which of these calls fails
		twice int64
	}{
		"before the winners were removed":   {"remove issued", 1, 5 - 2},
		"before the door was told":          {"set sold", 1, 0},
		"before those with one by hand":     {"remove issued", 2, 1 + 4},
		"before the others were removed":    {"remove others", 1, 4 - 2},
		"before the refused went to review": {"review", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.newCoupon(t, 6)
			c.users("BLOCKED", 1, 1)
			c.users("ACTIVE", 2, 11)
			c.give(4)
			c.apply(1, 11) // 2, 3, 5, 6 and 7 win
			calls := 0
			broken := c.settler
			f := fault{c.store, func(call string) bool {
				if call == test.call {
					calls++
				}
				return call == test.call && calls == test.nth
			}}
			broken.Line, broken.Door = f, f
			result := c.settleWith(broken, settle.Order{CutoffNow: true})
			require.Equal(t, coupon.Failed, result.Status)
			require.Contains(t, result.Error, errCrash.Error())
			require.Equal(t, 5, result.Issued)

			v := c.check()
			require.Equal(t, map[ledger.Code]int64{ledger.CleanUpToDo: 1}, counts(t, v), "%+v", v.Findings)
			require.False(t, v.Violated())
			require.Zero(t, v.Gap)
			require.Equal(t, test.twice, v.Account.Twice)

			// Who was refused a seat can take one now, and stands before those who have one.
			c.exec("UPDATE `user` SET status = 'ACTIVE' WHERE id = ?", c.user(1))
			require.Equal(t, map[ledger.Code]int64{ledger.CleanUpToDo: 1}, counts(t, c.check()))

			c.settleNow()
			v = c.healthy()
			v.Account.LastArrival, v.Account.CountedSince = 0, 0
			underReview := ledger.Account{Accepted: 11, UnderReview: 1, Issued: 5, Outcomes: 5}
			require.Equal(t, underReview, v.Account)
		})
	}
}

// The settlement stops while it sweeps a coupon that is fully settled. The next run finalises it.
func TestCheckAfterAStoppedSweep(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.users("ACTIVE", 1, 9)
	c.apply(1, 9)
	c.shut()
	broken := c.settler
	f := fault{c.store, func(call string) bool { return call == "sweep" }}
	broken.Line, broken.Door = f, f
	require.Equal(t, coupon.Failed, c.settleWith(broken, settle.Order{CutoffNow: true}).Status)
	c.healthy()
	require.Zero(t, c.number("SELECT COUNT(*) FROM coupon WHERE id = ? AND finalised_at IS NOT NULL", c.id))
	c.settleNow()
	c.healthy()
	require.EqualValues(t, 1, c.number("SELECT COUNT(*) FROM coupon WHERE id = ? AND finalised_at IS NOT NULL", c.id))
}
