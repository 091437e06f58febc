package verify_test

import (
	"cmp"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/verify"
	"github.com/jajeong/jajeong/internal/wallet"
)

// night is a check of all coupons that leaves out what is sealed.
type night struct {
	checked []coupon.CouponID
	found   found
	sealed  verify.Sealed
}

// checkAll checks and seals as `settle verify` does.
func (c *fixture) checkAll(all bool) (n night) {
	c.T.Helper()
	ctx := c.T.Context()
	plan, err := c.verifier.Plan(ctx, c.DB, all)
	require.NoError(c.T, err)
	var verdicts []*verify.Verdict
	n.checked, n.found = plan.Coupons, found{}
	for _, id := range plan.Coupons {
		v, err := c.verifier.Check(ctx, c.DB, id)
		require.NoError(c.T, err)
		verdicts = append(verdicts, v)
		for _, f := range v.Findings {
			if !f.OfCreation() {
				n.found[f.Code] += f.Count
			}
		}
	}
	strays, err := c.verifier.Strays(ctx, c.DB, plan)
	require.NoError(c.T, err)
	for _, f := range strays {
		n.found[f.Code] += f.Count
	}
	require.NoError(c.T, c.verifier.Seal(ctx, c.DB, plan, verdicts))
	require.NoError(c.T, c.verifier.CountLeft(ctx, c.DB, plan))
	n.sealed = plan.Sealed
	return n
}

// pass lets the day pass in which runs and changes that were checked are checked again.
func (c *fixture) pass() {
	c.T.Helper()
	for name, column := range map[string]string{"settlement": "run_id", "audit_event": "id", "coupon_log": "id",
		"coupon": "id", "user_coupon": "id"} {
		c.Exec("REPLACE INTO verify_mark (name, value) SELECT ?, COALESCE(MAX("+column+"), 0) FROM "+name, name)
	}
	c.Exec("UPDATE verify_mark SET value = ? WHERE name = 'finalised'", c.Now().UnixMicro())
}

// sealed makes a coupon with three winners and two others who applied, and lets a night seal it.
func sealed(t *testing.T) *fixture {
	c := newDeployment(t)
	c.id = c.AddCoupon(1) // not finalised: every night checks it
	open := c.id
	c.Deployment = c.For(t)
	c.id = open + 1
	c.AddFinished(3, jajeongtest.Between(c.user(1), c.user(5))...)
	c.Exec("UPDATE user_coupon SET expires_at = expires_at + INTERVAL 20 YEAR")
	c.Exec("UPDATE coupon SET validity_days = validity_days + 7305 WHERE id = ?", c.id)
	n := c.checkAll(false)
	require.Equal(t, []coupon.CouponID{open, c.id}, n.checked)
	require.Empty(t, n.found)
	c.pass()
	n = c.checkAll(false)
	require.Equal(t, []coupon.CouponID{open}, n.checked)
	require.EqualValues(t, 1, n.sealed.Left)
	require.WithinDuration(t, time.Now(), *n.sealed.Oldest, time.Hour)
	return c
}

// requireChecked demands that the next night checks the coupon, or does not, with these findings.
func (c *fixture) requireChecked(want bool, codes found) night {
	c.T.Helper()
	n := c.checkAll(false)
	if want {
		require.Equal(c.T, []coupon.CouponID{c.id - 1, c.id}, n.checked)
	} else {
		require.Equal(c.T, []coupon.CouponID{c.id - 1}, n.checked)
	}
	require.Equal(c.T, codes, n.found)
	return n
}

func TestSealedCouponIsCheckedAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *fixture){
		"an audit event": func(c *fixture) {
			require.NoError(c.T, c.Audit(auditOrigin, audit.CouponClosed, c.id, audit.Entry{}))
		},
		"its turn": func(c *fixture) {
			c.change(1, "UPDATE seal SET checked_at = checked_at - INTERVAL 91 DAY WHERE coupon_id = ?", c.id)
		},
		"it is not finalised any more": alterCoupon("finalised_at = NULL"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sealed(t)
			change(c)
			c.requireChecked(true, found{})
		})
	}
}

func TestUseOfSealedCouponIsReplayed(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.checkout(1, c.order(1), wallet.Reserve, wallet.Confirm)
	require.Equal(t, 1, c.requireChecked(false, found{}).sealed.Uses)
	alterLog(1, 2, "amount_won = 1")(c)
	require.Positive(t, c.requireChecked(true, found{verify.LogWrong: 1}).found[verify.LogWrong])
	c.pass()
	c.requireChecked(true, found{verify.LogWrong: 1}) // until it is right
	alterLog(1, 2, "amount_won = 12000")(c)
	c.requireChecked(true, found{})
	c.requireChecked(false, found{})
}

// No other check finds that another user applied.
func TestChangeOfSealedRowsIsFound(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"another user": "UPDATE application_outcome SET user_id = user_id + 70 WHERE coupon_id = ? LIMIT 1",
		"another time": "UPDATE application_outcome SET applied_at = applied_at + INTERVAL 1 SECOND " +
			"WHERE coupon_id = ? LIMIT 1",
		"another user id": "UPDATE user_coupon SET id = id + 70 WHERE coupon_id = ? AND position = 3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sealed(t)
			c.addUsers(74, 75)
			c.change(1, change, c.id)
			c.requireChecked(false, found{})
			c.Exec("UPDATE seal SET checked_at = checked_at - INTERVAL 91 DAY")
			c.requireChecked(true, found{verify.SealBroken: 1})
			c.requireChecked(true, found{verify.SealBroken: 1})
			c.Exec("UPDATE seal SET digest = ''") // the change was right
			c.requireChecked(true, found{})
			c.requireChecked(false, found{})
		})
	}
}

// An audit chain that was written anew agrees with itself.
func TestRewrittenAuditChainIsFound(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.audit(2)
	c.requireChecked(true, found{})
	c.Exec("DELETE FROM audit_event")
	c.Exec("DELETE FROM audit_head")
	origin := auditOrigin
	origin.Reason = "another one"
	require.NoError(t, c.Audit(origin, audit.DLQDropped, c.id, make([]audit.Entry, 2)...))
	require.EqualValues(t, 1, c.checkAll(true).found[verify.SealBroken])
}

// A night costs what the night and the uses since the last one cost, and a ninetieth of the history: the turn through
// it.
func TestNightIsAsCheapWithTenTimesTheHistory(t *testing.T) {
	t.Parallel()
	cost := func(nights int) jajeongtest.Cost {
		c := sealed(t)
		c.AddHistory(jajeongtest.History{Of: c.id, Nights: nights, PerNight: 1})
		c.pass()
		c.checkout(1, c.order(1), wallet.Reserve)
		ctx := t.Context()
		return c.CostOf(func(db *sql.DB) {
			plan, err := c.verifier.Plan(ctx, db, false)
			require.NoError(t, err)
			require.Len(t, plan.Coupons, 1)
			require.Equal(t, 1, plan.Sealed.Uses)
			strays, err := c.verifier.Strays(ctx, db, plan)
			require.NoError(t, err)
			require.Empty(t, strays)
			v, err := c.verifier.Check(ctx, db, c.id-1)
			require.NoError(t, err)
			require.NoError(t, c.verifier.Seal(ctx, db, plan, []*verify.Verdict{v}))
		})
	}
	tenth, whole := cost(30), cost(300)
	t.Logf("a night of verify: %v; with ten times the history %v", tenth, whole)
	require.Equal(t, tenth.Statements, whole.Statements)
	const rowsEach = 11 // of a coupon; each is looked up in another table
	require.LessOrEqual(t, whole.Rows, tenth.Rows+2*270*rowsEach/90+20)
}

// The turn through a table passes every row within 90 checks.
func TestStraysHaveTheirTurn(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.AddHistory(jajeongtest.History{Of: c.id, Nights: 30, PerNight: 1})
	c.Exec("DELETE FROM seal WHERE coupon_id > ?", c.id) // copies have other digests
	require.Empty(t, c.checkAll(true).found)
	c.pass()
	hidden, gone := c.id+8, c.id+16
	c.Exec("UPDATE coupon SET issued_count = 0, finalised_at = '2020-01-02' WHERE id = ?", hidden)
	c.Exec("DELETE FROM seal WHERE coupon_id = ?", hidden)
	c.withoutForeignKeys(func(exec func(string)) { exec("DELETE FROM coupon WHERE id = " + gone.String()) })
	seen := map[verify.Code]int{} // in which check
	for n := 1; seen[verify.CountWrong] == 0 || seen[verify.CouponMissing] == 0; n++ {
		require.Less(t, n, 92)
		for code := range c.checkAll(false).found {
			seen[code] = cmp.Or(seen[code], n)
		}
	}
	require.Greater(t, seen[verify.CountWrong], 3, "the others are left out")
	require.Greater(t, seen[verify.CouponMissing], 10)
	require.EqualValues(t, 4, c.checkAll(true).found[verify.CouponMissing], "in four tables")
}
