package verify_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// Meanwhile users apply, two runs settle in parallel, seats are added, coupons are given by hand, and promises are
// stored.
func TestNoViolationUnderLiveTraffic(t *testing.T) {
	t.Parallel()
	const (
		applicants   = 60
		usersEach    = 10
		allUsers     = applicants * usersEach
		unknownUsers = allUsers / 20
		blockedUsers = allUsers / 20
		pace         = 100 * time.Millisecond // of an applicant
	)
	c := newCoupon(t, allUsers/3)
	c.addUsers(unknownUsers+1, allUsers)
	c.setStatus(jajeongtest.Blocked, allUsers-blockedUsers+1, allUsers)

	ctx := testenv.Patient(t)
	over, end := context.WithCancel(ctx)
	defer end()
	var (
		work                                      sync.WaitGroup
		applied, accepted, runs, checks, warnings atomic.Int64
	)
	// loop repeats do until the end of the traffic, at most once per interval. The first failure ends the traffic.
	loop := func(what string, interval time.Duration, do func() error) {
		work.Go(func() {
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for over.Err() == nil {
				if err := do(); !assert.NoError(t, err, what) {
					end()
				}
				select {
				case <-tick.C:
				case <-over.Done():
				}
			}
		})
	}
	order := testenv.Random(t).Perm(allUsers)
	for a := range applicants {
		users, turn := order[a*usersEach:(a+1)*usersEach], 0
		loop("apply", pace, func() error {
			user := users[turn%usersEach] + 1
			turn++
			applied.Add(1)
			receipt, err := c.Store.Apply(ctx, c.id, c.user(uint64(user)))
			if receipt.Code == candidates.Accepted {
				accepted.Add(1)
			}
			return err
		})
	}
	for range 2 {
		settler := c.Settler()
		loop("settle", 50*time.Millisecond, func() error {
			report, err := settler.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, CutoffNow: true,
				Coupons: []coupon.CouponID{c.id}})
			if err != nil {
				return err
			}
			runs.Add(1)
			if failure := report.Coupons[0].Error; failure != "" {
				return errors.New(failure)
			}
			_, err = c.DB.ExecContext(ctx, "UPDATE coupon SET total_quantity = total_quantity + 20 WHERE id = ?", c.id)
			return err
		})
		loop("check", 50*time.Millisecond, func() error {
			v, err := c.verifier.Check(ctx, c.DB, c.id)
			if err != nil {
				return err
			}
			checks.Add(1)
			if len(v.Findings) > 0 {
				warnings.Add(1)
			}
			if v.Violated() {
				return fmt.Errorf("violated: %+v", v.Findings)
			}
			return nil
		})
	}
	holder := uint64(allUsers)
	loop("give by hand", 50*time.Millisecond, func() error {
		holder++
		tx, err := c.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err =
			tx.ExecContext(ctx,
				"UPDATE coupon SET total_quantity = total_quantity + 1, issued_count = issued_count + 1 WHERE id = ?",
				c.id); err != nil {
			return err
		}
		for _, statement := range jajeongtest.Granted(c.id, c.user(holder)) {
			if _, err = tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return tx.Commit()
	})
	loop("store promises", 20*time.Millisecond, func() error {
		figures, err := c.Store.Counts(ctx, c.id, 0)
		if err != nil {
			return err
		}
		_, err = c.DB.ExecContext(ctx, storePromises, c.id, figures.Accepted, figures.LastArrival)
		return err
	})
	testenv.Eventually(t, "enough traffic", func() bool {
		return over.Err() != nil || applied.Load() > allUsers && runs.Load() > 4 && checks.Load() > 4
	})
	end()
	work.Wait()
	require.False(t, t.Failed(), "%+v", c.check().Findings)
	require.NoError(t, ctx.Err())
	t.Logf("%d accepted, %d runs, %d checks, %d with warnings", accepted.Load(), runs.Load(), checks.Load(),
		warnings.Load())
	require.Positive(t, accepted.Load())

	c.settleNow()
	v := c.requireHealthy()
	require.Equal(t, accepted.Load(), v.Account.Accepted)
	require.Positive(t, v.Account.UnderReview)
}

// crash settles the coupon with a run that fails at a step.
func (c *fixture) crash(at settle.Step) {
	c.T.Helper()
	result := c.run(jajeongtest.Manual(c.id), func(s *settle.Settler) {
		s.Hook = func(_ coupon.CouponID, step settle.Step) {
			if step == at {
				panic("crash")
			}
		}
	})
	require.Equal(c.T, coupon.Failed, result.Status)
}

// A settlement that stops after its commit leaves a pending clean-up and no violation. The next run cleans up.
func TestCheckReportsPendingCleanup(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for name, test := range map[string]struct {
		at    settle.Step
		then  func(*fixture)
		twice int64
	}{
		"nothing removed":             {settle.StepCleanUp, func(*fixture) {}, 5},
		"some winners removed":        {settle.StepCleanUp, redis(2, "ZREM", "queue", 2, 3), 3},
		"winners removed":             {settle.StepCloseOut, func(*fixture) {}, 0},
		"others recorded and removed": {settle.StepFinish, func(*fixture) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.newCoupon(t, 6)
			c.addUsers(1, 11)
			c.setStatus(jajeongtest.Blocked, 1, 1)
			c.giveByHand(4)
			c.apply(1, 11) // 2, 3, 5, 6 and 7 win
			c.crash(test.at)
			test.then(c)

			v := c.check()
			requireFindings(t, found{verify.CleanUpToDo: 1}, v)
			require.Zero(t, v.Gap)
			require.EqualValues(t, 5, v.Account.Issued)
			require.Equal(t, test.twice, v.Account.InBoth)

			c.setStatus(jajeongtest.Active, 1, 1) // a user with an earlier arrival than the winners
			requireFindings(t, found{verify.CleanUpToDo: 1}, c.check())

			c.settleNow()
			v = c.requireHealthy()
			v.Account.LastArrival = 0
			require.Equal(t, verify.Account{Accepted: 11, UnderReview: 1, Issued: 5, Outcomes: 5}, v.Account)
		})
	}
}

// The next run finalises a coupon that a stopped run has not swept.
func TestCheckAfterAStoppedSweep(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(9)
	c.close()
	c.crash(settle.StepSweep)
	c.requireHealthy()
	require.False(t, c.finalised())
	c.settleNow()
	c.requireHealthy()
	require.True(t, c.finalised())
}

// Each run continues the chain of the run before. A settlement does nothing while the chain is broken.
func TestSettlementContinuesTheAuditChain(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 3)
	c.addApplicants(3)
	c.AddPromises(c.id, 2)
	order := jajeongtest.Manual(c.id)
	for n := uint64(1); n <= 3; n++ {
		require.Equal(t, coupon.HeldBack, c.run(order).Status)
		v := c.check()
		requireFindings(t, found{verify.PromiseLost: 2}, v)
		require.Equal(t, n, v.AuditHead.Seq)
	}

	c.Exec("UPDATE audit_head SET seq = 1 WHERE coupon_id = ?", c.id)
	require.Contains(t, c.run(order).Error, "settle verify")
	order.AcceptGap = true
	result := c.run(order)
	require.Equal(t, coupon.HeldBack, result.Status)
	require.Contains(t, result.Error, "settle verify")
	require.Empty(t, c.holders())

	c.Exec("UPDATE audit_head SET seq = 3 WHERE coupon_id = ?", c.id)
	acceptGap(c)
	require.EqualValues(t, 5, c.requireHealthy().AuditHead.Seq, "the accepted gap and the manual run")
}
