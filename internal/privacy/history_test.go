package privacy_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/seal"
	"github.com/jajeong/jajeong/internal/verify"
)

// check is a nightly check of all coupons.
func check(t *testing.T, d *jajeongtest.Deployment) {
	t.Helper()
	l := &verify.Verifier{Store: d.Store, Users: d.Users}
	plan, err := l.Plan(t.Context(), d.DB, false)
	require.NoError(t, err)
	for _, id := range plan.Coupons {
		require.NoError(t, l.List(t.Context(), d.DB, id))
		v, err := l.Check(t.Context(), d.DB, id)
		require.NoError(t, err)
		require.NoError(t, l.Seal(t.Context(), d.DB, v))
	}
	require.NoError(t, plan.Done(t.Context(), d.DB))
}

// What is stored of a person is read by the person, however many coupons there were. Here user 9 applied for the first
// one, and for one that no check has seen yet.
func TestRead_CostsThePerson(t *testing.T) {
	t.Parallel()
	read := func(d *jajeongtest.Deployment, db *sql.DB) (applied []coupon.CouponID) {
		p, redisErr, err := privacy.Read(t.Context(), db, settles(d), 9)
		require.NoError(t, err)
		require.NoError(t, redisErr)
		for _, a := range p.Applications {
			applied = append(applied, a.Coupon)
		}
		return applied
	}
	cost := func(nights int) jajeongtest.Cost {
		d := jajeongtest.New(t)
		first := d.AddFinished(1, 1, 9)
		last := d.AddFinished(2, 2, 3, 4)
		check(t, d)
		d.AddHistory(jajeongtest.History{Of: last, Nights: nights, PerNight: 2})
		require.Equal(t, []coupon.CouponID{first}, read(d, d.DB))
		newest := d.AddFinished(1, 5, 6)
		d.Exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = ?", newest)
		d.Exec("UPDATE application_outcome SET user_id = 9 WHERE coupon_id = ?", newest)
		return d.CostOf(func(db *sql.DB) { require.Equal(t, []coupon.CouponID{first, newest}, read(d, db)) })
	}
	jajeongtest.RequireAsCheap(t, "what is stored of a person", cost(40), cost(400))
}

// A list of several pages names everybody once, and a second one adds nobody. Whoever is forgotten leaves it, but for
// an outcome that stays.
func TestForget_LeavesTheListOfApplications(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddFinished(1, 1, 2, 3)
	const users = 25_000
	d.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, note, run_id, recorded_at)
		WITH RECURSIVE few (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM few WHERE i < 499)
		SELECT ?, 1000 + a.i * 500 + b.i, UTC_TIMESTAMP(6), 'NOT_SELECTED', '', 1, UTC_TIMESTAMP(6)
		FROM few a CROSS JOIN few b WHERE a.i < 50`, id)
	d.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, note, run_id, recorded_at)
		SELECT coupon_id, user_id, UTC_TIMESTAMP(6), 'ALREADY_ISSUED', '', 1, UTC_TIMESTAMP(6)
		FROM application_outcome WHERE user_id IN (3, 1000)`)
	for range 2 {
		require.NoError(t, seal.List(t.Context(), d.DB, id))
		require.EqualValues(t, users+2, d.Number("SELECT COUNT(*) FROM user_application WHERE coupon_id = ?", id))
	}
	for _, user := range []coupon.UserID{2, 3} {
		_, err := privacy.Forget(t.Context(), erasing(d), settles(d), user, origin)
		require.NoError(t, err)
	}
	require.Equal(t, []coupon.UserID{3, 1000},
		jajeongtest.Column[coupon.UserID](d, "SELECT user_id FROM user_application ORDER BY user_id LIMIT 2"))
	p, _, err := privacy.Read(t.Context(), d.DB, settles(d), 3)
	require.NoError(t, err)
	require.Len(t, p.Applications, 1)
}

// A coupon that is not finalised any more is not listed.
func TestList_LeavesOpenCoupons(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddFinished(1, 1, 2)
	d.Exec("UPDATE coupon SET finalised_at = NULL")
	require.NoError(t, seal.List(t.Context(), d.DB, id))
	require.Zero(t, d.Number("SELECT COUNT(*) FROM user_application"))
}
