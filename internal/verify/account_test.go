package verify_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
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
			c.add(c.queue(), c.member(19), c.appliedAt(19).Add(-time.Microsecond))
		}, 0, func(a *verify.Account) { a.Waiting += 2 }},
		"the arrival of a coupon by hand": {func(c *fixture) {
			at := c.Now()
			alter("user_coupon", byHandAlone, "applied_at = ?", at)(c)
			c.add(c.queue(), c.member(byHandAlone), at)
		}, 0, func(a *verify.Account) { a.Waiting++ }},
		"more promises in MySQL, some written off": {
			write(1, "UPDATE promise SET accepted = ?, written_off = 2 WHERE coupon_id = ?", populatedAccepted+5),
			0, func(a *verify.Account) { a.Accepted, a.WrittenOff = a.Accepted+5, 2 }},
		"more promises in Redis": {addPromises(5), 0, func(a *verify.Account) { a.Accepted += 5 }},
		"a later arrival in MySQL": {write(1, "UPDATE promise SET last_arrival = 1 << 52 WHERE coupon_id = ?"), 0,
			func(a *verify.Account) { a.LastArrival = 1 << 52 }},
		"no promises in MySQL": {write(1, "DELETE FROM promise WHERE coupon_id = ?"), 0, func(*verify.Account) {}},
		"Redis emptied":        {emptyRedis, 0, func(a *verify.Account) { a.Waiting, a.UnderReview = 0, 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.populated(t)
			figures, err := c.Store.Counts(t.Context(), c.id, 0)
			require.NoError(t, err)
			test.do(c)
			want := populatedAccount
			want.LastArrival, want.InBoth = figures.LastArrival, test.twice
			test.want(&want)
			require.Equal(t, want, c.check().Account)
			got := c.account(c.Store)
			require.Equal(t, want.LastArrival, got.LastArrival)
			require.Equal(t, want.Gap(), got.Gap())
			require.Equal(t, want.String(), got.String())
		})
	}
}

// hooked calls a function after each read of the counts in Redis.
type hooked struct {
	*candidates.Store
	afterCounts func()
}

func (h hooked) Counts(ctx context.Context, couponID coupon.CouponID,
	behind coupon.Arrival) (candidates.Counts, error) {
	figures, err := h.Store.Counts(ctx, couponID, behind)
	h.afterCounts()
	return figures, err
}

// withHook is a verifier that calls do after each read of the counts, with the number of reads so far.
func (c *fixture) withHook(do func(reads int)) *verify.Verifier {
	reads := 0
	return &verify.Verifier{Users: c.Users, Store: hooked{c.Store, func() {
		reads++
		do(reads)
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

// The catalog stores the promises of applications that arrive meanwhile. No lock prevents it.
func TestPromisesMadeDuringTheCountAreNotLost(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addUsers(1, 9)
	c.apply(1, 3)
	next := uint64(4)
	l := c.withHook(func(int) {
		c.apply(next, next)
		next++
		c.storePromises(c.Now())
	})
	require.Zero(t, c.account(l.Store).Gap())
	require.Empty(t, c.checkWith(l).Findings)
}

// The settlement commits and cleans up after the first check. The second check, under the lock, finds nothing.
func TestCheckIgnoresASettlementThatCommitsMeanwhile(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(9)
	checks := 0
	v := c.checkWith(c.withHook(func(reads int) {
		if checks = reads; reads == 1 {
			c.settleNow()
		}
	}))
	require.Empty(t, v.Findings)
	require.Equal(t, 2, checks)
	require.EqualValues(t, 5, v.Coupons)
	require.Zero(t, v.Account.Waiting)
}

// After a failover API pods put lost applications back.
func TestCheckWaitsForPodsToPutApplicationsBack(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.addApplicants(3)
	c.storePromises(c.Now())
	arrival := c.Arrivals(c.id)[c.member(3)]
	redis(1, "ZREM", "queue", 3)(c)
	redis(0, "HSET", "state", "run_id", "of-the-old-primary")(c)
	var reads []time.Time
	v := c.checkWith(c.withHook(func(int) {
		if reads = append(reads, time.Now()); len(reads) == 1 {
			redis(1, "ZADD", "queue", int64(arrival), c.member(3))(c)
		}
	}))
	require.Empty(t, v.Findings)
	require.Len(t, reads, 2)
	require.GreaterOrEqual(t, reads[1].Sub(reads[0]), jajeongtest.PutBackTime)
}

// Only the check that reports a finding holds the coupon's lock.
func TestCheckRepeatsUnderTheCouponsLock(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.AddPromises(c.id, 1)
	var locked []bool
	v := c.checkWith(c.withHook(func(int) { locked = append(locked, c.locked()) }))
	requireFindings(t, found{verify.PromiseLost: 1}, v)
	require.Equal(t, []bool{false, true}, locked)
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
