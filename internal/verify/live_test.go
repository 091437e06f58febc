package verify_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// Meanwhile users apply, two processes settle in parallel, seats are added, coupons are given by hand, the journal is
// copied, and restores run.
func TestNoViolationUnderLiveTraffic(t *testing.T) {
	t.Parallel()
	for name, settleBy := range map[string]func(context.Context, *fixture, *settle.Settler) (settle.Result, error){
		"nightly": func(ctx context.Context, c *fixture, s *settle.Settler) (settle.Result, error) {
			report, err := s.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, CutoffNow: true,
				Coupons: []coupon.CouponID{c.id}})
			if err != nil {
				return settle.Result{}, err
			}
			return report.Coupons[0], nil
		},
		"immediate": func(ctx context.Context, c *fixture, s *settle.Settler) (settle.Result, error) {
			return s.IssueNow(ctx, c.id).Result, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t, trafficUsers/3)
			if name == "immediate" {
				alterCoupon("cadence = 'IMMEDIATE'")(c)
			}
			accepted := c.requireHealthyUnderTraffic(settleBy)
			alterCoupon("cadence = 'NIGHTLY'")(c)
			c.settleNow()
			v := c.requireHealthy()
			require.Equal(t, accepted, v.Account.Accepted)
			require.Positive(t, v.Account.UnderReview)
		})
	}
}

// trafficUsers are the users who apply in the live test.
const trafficUsers = 600

// requireHealthyUnderTraffic returns how many applications were accepted.
func (c *fixture) requireHealthyUnderTraffic(settleBy func(context.Context, *fixture,
	*settle.Settler) (settle.Result, error)) int64 {
	t := c.T
	t.Helper()
	const (
		applicants   = 60
		usersEach    = trafficUsers / applicants
		unknownUsers = trafficUsers / 20
		blockedUsers = trafficUsers / 20
		pace         = 100 * time.Millisecond // of an applicant
	)
	c.addUsers(unknownUsers+1, trafficUsers)
	c.setStatus(jajeongtest.Blocked, trafficUsers-blockedUsers+1, trafficUsers)

	ctx := testenv.Patient(t)
	over, end := context.WithCancel(ctx)
	defer end()
	var (
		work                                                        sync.WaitGroup
		applied, accepted, runs, failed, checks, warnings, restores atomic.Int64
	)
	// loop repeats do until the end of the traffic. The first failure ends the traffic. The pauses are random: an
	// immediate run does not wait for a lock, and two loops in step would meet for ever.
	loop := func(what string, pause time.Duration, do func() error) {
		work.Go(func() {
			for over.Err() == nil {
				if err := do(); !assert.NoError(t, err, what) {
					end()
				}
				_ = sleep.For(over, rand.N(2*pause))
			}
		})
	}
	// Nobody remembers the answers of this store. Those handed over would make restores due, for which runs wait.
	store, err := candidates.NewStore(c.Redis, candidates.Options{KeyPrefix: c.Prefix,
		HandOverTime: jajeongtest.HandOverTime})
	require.NoError(t, err)
	order := testenv.Random(t).Perm(trafficUsers)
	for a := range applicants {
		users, turn := order[a*usersEach:(a+1)*usersEach], 0
		loop("apply", pace, func() error {
			user := users[turn%usersEach] + 1
			turn++
			applied.Add(1)
			receipt, err := store.Apply(ctx, c.id, c.user(uint64(user)))
			if receipt.Code == candidates.Accepted {
				accepted.Add(1)
			}
			return err
		})
	}
	for range 2 {
		settler := c.Settler()
		loop("settle", 50*time.Millisecond, func() error {
			result, err := settleBy(ctx, c, settler)
			switch {
			case err != nil || result.Status == coupon.Busy:
				return err
			case result.Status == coupon.Failed: // a restore was due again and again: safe to run again
				failed.Add(1)
				return nil
			case result.Error != "":
				return errors.New(result.Error)
			}
			runs.Add(1)
			_, err = c.DB.ExecContext(ctx, "UPDATE coupon SET total_quantity = total_quantity + 20 WHERE id = ?", c.id)
			return err
		})
		loop("check", 50*time.Millisecond, func() error {
			v, err := c.verifier.Check(ctx, c.DB, c.id)
			if err != nil {
				return err
			}
			checks.Add(1)
			if slices.ContainsFunc(v.Findings, func(f verify.Finding) bool { return !f.OfCreation() }) {
				warnings.Add(1)
			}
			if v.Violated() {
				return fmt.Errorf("violated: %+v", v.Findings)
			}
			return nil
		})
	}
	holder := uint64(trafficUsers)
	loop("give by hand", 50*time.Millisecond, func() error {
		if holder == 2*trafficUsers { // checks and restores read them all: more would make them slower and slower
			return nil
		}
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
	copier, progress := &journal.Journal{DB: mysqltx.New(c.DB), Store: store}, journal.Progress{}
	require.NoError(t, copier.Begin(ctx, c.id))
	loop("copy", 20*time.Millisecond, func() error {
		_, err := copier.Copy(ctx, c.id, &progress)
		return err
	})
	restorer := c.Restorer()
	loop("restore", 200*time.Millisecond, func() error {
		_, err := restorer.Restore(ctx, journal.Order{Coupon: c.id})
		restores.Add(1)
		return err
	})
	testenv.Eventually(t, "enough traffic", func() bool {
		return over.Err() != nil ||
			applied.Load() > trafficUsers && runs.Load() > 4 && checks.Load() > 4 && restores.Load() > 4
	})
	end()
	work.Wait()
	require.False(t, t.Failed(), "%+v", c.check().Findings)
	require.NoError(t, ctx.Err())
	t.Logf("%d accepted, %d runs, %d failed, %d restores, %d checks, %d with warnings", accepted.Load(), runs.Load(),
		failed.Load(), restores.Load(), checks.Load(), warnings.Load())
	require.Positive(t, accepted.Load())
	return accepted.Load()
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

// stoppedAfterSweep dies between the sweep and finalising.
type stoppedAfterSweep struct{ settle.Door }

func (d stoppedAfterSweep) Sweep(ctx context.Context, id coupon.CouponID, closes time.Time) (bool, error) {
	if _, err := d.Door.Sweep(ctx, id, closes); err != nil {
		return false, err
	}
	panic("crash")
}

// A coupon that was swept keeps its marks. The next run finalises it.
func TestCheckAfterASweepWithoutAnEnd(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(9)
	c.close()
	result := c.run(jajeongtest.Manual(c.id), func(s *settle.Settler) { s.Door = stoppedAfterSweep{s.Door} })
	require.Equal(t, coupon.Failed, result.Status)
	c.requireHealthy()
	require.False(t, c.finalised())
	c.settleNow()
	c.requireHealthy()
	require.True(t, c.finalised())
}

// A claim in Redis that the coupon was swept hides no missing mark.
func TestCheckFindsMissingMarksOfASweptCoupon(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 6)
	c.addUsers(1, 9)
	c.apply(1, 5)
	c.settleNow()
	c.close()
	c.redis(1, "HSET", c.key("state"), "final", 1)
	c.redis(1, "ZREM", c.key("issued"), c.member(1))
	requireFindings(t, found{verify.MarkWrong: 1}, c.check())
	c.redis(1, "UNLINK", c.key("issued"))
	requireFindings(t, found{verify.MarkWrong: 5}, c.check())
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
