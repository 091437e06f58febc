package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/verify"
)

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
