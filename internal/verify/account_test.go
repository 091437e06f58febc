package verify_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/verify"
)

// account reads the account as a settlement does: inside a transaction.
func (c *fixture) account(store ledger.Store) ledger.Account {
	c.T.Helper()
	tx, err := c.DB.Begin()
	require.NoError(c.T, err)
	defer func() { require.NoError(c.T, tx.Rollback()) }()
	a, err := (&ledger.Ledger{Store: store}).Account(c.T.Context(), tx, c.id)
	require.NoError(c.T, err)
	return a
}

// The engine and the checker count in different ways, and agree.
func TestAccountCountsEachApplicationOnce(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for name, test := range map[string]struct {
		do    func(*fixture)
		twice int64
		want  func(*verify.Account)
	}{
		"unchanged": {func(c *fixture) {}, 0, func(*verify.Account) {}},
		"settled applications in queue and DLQ": {func(c *fixture) {
			all(returned("queue", 1, 19), returned("dlq", 2))(c)
			c.add(c.key("dlq"), c.member(2)+"x", c.appliedAt(2)) // no user id
		}, 3, func(a *verify.Account) { a.Waiting, a.UnderReview = a.Waiting+2, a.UnderReview+2 }},
		"two that are no users at one arrival, one of them dropped": {func(c *fixture) {
			at := c.Now()
			c.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, member, run_id,
				recorded_at)
				VALUES (?, 0, ?, 'REJECTED', 'x', 0, NOW(6))`, c.id, at)
			c.add(c.key("dlq"), "x", at)
			c.add(c.key("dlq"), "y", at)
		}, 1, func(a *verify.Account) { a.Outcomes, a.UnderReview = a.Outcomes+1, a.UnderReview+2 }},
		"other arrivals of settled users": {func(c *fixture) {
			c.add(c.queue(), c.member(1), c.appliedAt(2))
			c.add(c.queue(), c.member(19), c.appliedAt(19).Add(-time.Microsecond)) // moved forward by a restore
		}, 1, func(a *verify.Account) { a.Waiting += 2 }},
		"the arrival of a coupon by hand": {func(c *fixture) {
			at := c.Now()
			alter("user_coupon", byHandAlone, "applied_at = ?", at)(c)
			c.add(c.queue(), c.member(byHandAlone), at)
		}, 0, func(a *verify.Account) { a.Waiting++ }},
		"some written off": {write(1, "UPDATE settled SET written_off = 2 WHERE coupon_id = ?"), 0,
			func(a *verify.Account) { a.WrittenOff = 2 }},
		"more promises in Redis": {addPromises(5), 0, func(a *verify.Account) { a.Accepted += 5 }},
		"a later arrival in MySQL": {write(1, "UPDATE journal SET up_to = 1 << 52 WHERE coupon_id = ?"), 0,
			func(a *verify.Account) { a.LastArrival = 1 << 52 }},
		"no journal": {write(1, "DELETE FROM journal WHERE coupon_id = ?"), 0, func(*verify.Account) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.populated(t)
			figures := c.look()
			test.do(c)
			want := populatedAccount
			want.LastArrival, want.InBoth = figures.Last, test.twice
			test.want(&want)
			require.Equal(t, want, c.check().Account)
			got := c.account(c.Store)
			require.Equal(t, want.LastArrival, got.LastArrival)
			require.Equal(t, want.Gap(), got.Gap())
			require.Equal(t, want.String(), got.String())
		})
	}
}

// hooked calls a function after each look at Redis.
type hooked struct {
	*candidates.Store
	afterLook func()
}

func (h hooked) Observe(ctx context.Context, couponID coupon.CouponID,
	after coupon.Arrival) (coupon.Look, error) {
	look, err := h.Store.Observe(ctx, couponID, after)
	h.afterLook()
	return look, err
}

// withHook is a verifier that calls do after each look at Redis, with the number of looks so far. Between the first
// check and the one under the lock, a verifier that has found a loss looks whether a restore is due.
func (c *fixture) withHook(do func(looks int)) *verify.Verifier {
	looks := 0
	return &verify.Verifier{Users: c.Users, Store: hooked{c.Store, func() {
		looks++
		do(looks)
	}}}
}

// checkWith leaves out that SQL has created the coupon, as it does in all tests.
func (c *fixture) checkWith(l *verify.Verifier) *verify.Verdict {
	c.T.Helper()
	v, err := l.Check(c.T.Context(), c.DB, c.id)
	require.NoError(c.T, err)
	v.Findings = slices.DeleteFunc(v.Findings, verify.Finding.OfCreation)
	return v
}

// Users apply, and the journal has them, while a check reads. No lock prevents it.
func TestPromisesMadeDuringTheCountAreNotLost(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addUsers(1, 9)
	c.apply(1, 3)
	next := uint64(4)
	l := c.withHook(func(int) {
		c.apply(next, next)
		next++
		c.journal()
	})
	require.Zero(t, c.account(l.Store).Gap())
	require.Empty(t, c.checkWith(l).Findings)
}

// The settlement commits and cleans up after the first check. The second check, under the lock, finds nothing.
func TestCheckIgnoresASettlementThatCommitsMeanwhile(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(9)
	c.journal()
	looks := 0
	v := c.checkWith(c.withHook(func(n int) {
		if looks = n; n == 1 {
			c.settleNow()
		}
	}))
	require.Empty(t, v.Findings)
	require.Equal(t, 2, looks)
	require.EqualValues(t, 5, v.Coupons)
	require.Zero(t, v.Account.Waiting)
}

// Whatever makes a restore due, settle serve gets time to begin it. The loss is a finding if nobody restores.
func TestCheckWaitsForTheRestore(t *testing.T) {
	t.Parallel()
	lost := redis(1, "ZREM", "queue", 3)
	known := redis(1, "HSET", "state", "left", "1") // the last restore has left the loss
	for name, test := range map[string]struct {
		do    func(c *fixture)
		found verify.Code
	}{
		"a new server": {all(lost, known, redis(0, "HSET", "state", "run_id", "of-the-old-primary")),
			verify.PromiseLost},
		"missing promises":     {lost, verify.PromiseLost},
		"somebody handed over": {all(lost, known, redis(1, "ZADD", "returned", "0", "0")), verify.PromiseLost},
		"a restore that was asked for": {all(lost, known, write(1, "UPDATE journal SET asked = 1 WHERE coupon_id = ?")),
			verify.PromiseLost},
		"fewer marks": {redis(1, "ZREM", "issued", 1), verify.MarkWrong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t, 5)
			c.addUsers(1, 3)
			c.apply(1, 2)
			c.settleNow()
			c.apply(3, 3)
			c.journal()
			c.redis(1, "HDEL", c.key("state"), "left")
			test.do(c)
			v := c.check()
			requireFindings(t, found{test.found: 1}, v)
			require.Len(t, v.Findings[0].Users, 1)

			var restored error
			c.verifier = c.withHook(func(looks int) {
				if looks == 3 && !c.locked() { // it has waited
					_, restored = c.Restorer().Restore(t.Context(), journal.Order{Coupon: c.id})
				}
			})
			c.verifier.RestoreTime = time.Minute
			c.requireHealthy()
			require.NoError(t, restored)
			require.Contains(t, c.Waiting(c.id), c.member(3))
		})
	}
}

// If no restore is due, nobody waits for one: a loss that the last restore has left, and places that were moved.
func TestCheckWaitsForNoRestoreThatIsNotDue(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(3)
	c.journal()
	moveBehind(2)(c)
	all(redis(1, "ZREM", "queue", 3), redis(0, "HSET", "state", "left", "1"))(c)
	c.verifier.RestoreTime = time.Hour
	requireFindings(t, found{verify.PromiseLost: 2}, c.check())
}

// Only the check that reports a finding holds the coupon's lock.
func TestCheckRepeatsUnderTheCouponsLock(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.AddPromises(c.id, 1)
	var locked []bool
	v := c.checkWith(c.withHook(func(int) { locked = append(locked, c.locked()) }))
	requireFindings(t, found{verify.PromiseLost: 1}, v)
	last := len(locked) - 1
	require.True(t, locked[last])
	require.NotContains(t, locked[:last], true)
	require.False(t, c.locked())
}

// locked reports whether a session holds the coupon's row.
func (c *fixture) locked() bool {
	c.T.Helper()
	tx, err := c.DB.Begin()
	require.NoError(c.T, err)
	defer func() { require.NoError(c.T, tx.Rollback()) }()
	var id uint64
	return tx.QueryRow("SELECT id FROM coupon WHERE id = ? FOR UPDATE NOWAIT", c.id).Scan(&id) != nil
}
