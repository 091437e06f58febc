package couponadmin_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
)

// inTwoYears is a midnight. It is the same in all tests, also after midnight.
var inTwoYears = time.Now().UTC().AddDate(2, 0, 0).Truncate(24 * time.Hour)

// Each seat goes to exactly the next in line, while a run issues at the same time.
func TestRevoke_FreesASeatBesideARun(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*settle.Settler, *jajeongtest.Deployment, coupon.CouponID) error{
		"nightly": func(s *settle.Settler, d *jajeongtest.Deployment, couponID coupon.CouponID) error {
			_, err := s.RunOnce(d.T.Context(), jajeongtest.Manual(couponID))
			return err
		},
		"immediate": func(s *settle.Settler, d *jajeongtest.Deployment, couponID coupon.CouponID) error {
			// It does not wait for the coupon's lock.
			if made := s.IssueNow(d.T.Context(), couponID); made.Status != coupon.Busy {
				return made.Err()
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			const seats, rounds = 5, 5
			users := jajeongtest.Between[coupon.UserID](1, 20)
			var couponID coupon.CouponID
			if name == "immediate" {
				couponID = d.AddImmediate(seats, users...)
			} else {
				couponID = d.AddQueue(seats, users...)
			}
			settler := d.Settler()
			require.NoError(t, run(settler, d.Deployment, couponID))
			for i := range rounds {
				var together sync.WaitGroup
				var ran, revoked error
				together.Go(func() { ran = run(settler, d.Deployment, couponID) })
				together.Go(func() { _, revoked = d.admin.Revoke(t.Context(), couponID, users[i], true) })
				together.Wait()
				require.NoError(t, ran)
				require.NoError(t, revoked)
			}
			d.SettleNow()
			require.Equal(t, users[:seats+rounds], d.Issued(couponID), "the next in line, in order")
			require.EqualValues(t, seats, d.Number("SELECT COUNT(*) FROM user_coupon WHERE status = 'ISSUED'"))
			require.EqualValues(t, seats+rounds, d.Number("SELECT total_quantity FROM coupon"))
			d.Verify()
		})
	}
}

func TestRevoke_UnfinalisesForTheNextInLine(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	now := d.Now()
	couponID := d.AddCouponBetween(1, now.Add(-96*time.Hour), now.Add(-72*time.Hour))
	d.AddUsers(1, 2, 3)
	for user := range 3 {
		d.ApplyAt(couponID, fmt.Sprint(user+1), now.Add(-80*time.Hour).Add(time.Duration(user)*time.Second))
	}
	night := func() { d.SettleAs(jajeongtest.Nightly(time.Time{})) }
	finalised := func() bool { return d.Number("SELECT finalised_at IS NOT NULL FROM coupon") == 1 }
	night()
	require.True(t, finalised())
	require.Equal(t, []coupon.UserID{2, 3}, d.Outcome(couponID, "NOT_SELECTED"))

	d.changed(d.admin.Revoke(t.Context(), couponID, 1, false))
	require.True(t, finalised(), "no seat, no run")
	d.changed(d.admin.Reissue(t.Context(), couponID, 1))
	d.changed(d.admin.ExtendUser(t.Context(), couponID, 1, inTwoYears))
	require.True(t, finalised())
	d.changed(d.admin.Revoke(t.Context(), couponID, 1, true))
	require.False(t, finalised())
	require.Len(t, d.audited(couponID, "COUPON_UNFINALISED"), 1)
	night()
	require.True(t, finalised())
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{3}, d.Outcome(couponID, "NOT_SELECTED"))
	d.Verify()
}

// A pause and a freeze concern applications and runs, not the coupons that users have.
func TestHolders_ChangeWhileTheCouponIsPausedOrFrozen(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(2, 1)
	d.SettleNow()
	is := func() string {
		const query = "SELECT CONCAT(status, frozen, cadence, apply_closes_at) FROM coupon"
		return jajeongtest.Column[string](d.Deployment, query)[0]
	}
	for i, stop := range []change{d.admin.Pause, d.admin.Freeze} {
		d.done(stop(t.Context(), couponID))
		was := is()
		require.True(t, d.changed(d.admin.Revoke(t.Context(), couponID, 1, true)).Changed)
		require.True(t, d.changed(d.admin.Reissue(t.Context(), couponID, 1)).Changed)
		require.True(t, d.changed(d.admin.ExtendUser(t.Context(), couponID, 1, inTwoYears.AddDate(0, 0, i))).Changed)
		require.Equal(t, was, is())
	}
	d.Verify()
}
